/** Numbers of shards as short text: "0-5,9". */
import { shardsMax } from '../limits.ts';

/** @param ids ascending */
export function rangesOf(ids: readonly number[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const id of ids) {
    const range = ranges.at(-1);
    if (range?.last === id - 1) range.last = id;
    else ranges.push({ first: id, last: id });
  }
  return ranges.map(({ first, last }) => (first === last ? first : `${first}-${last}`)).join(',');
}

/** @returns ascending; null when the text is none, or says a number twice */
export function shardsOfRanges(text: string): number[] | null {
  const ids: number[] = [];
  let past = 0;
  for (const range of text.split(',')) {
    const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(range);
    const first = Number(match?.[1]);
    const last = Number(match?.[2] ?? match?.[1]);
    if (match === null || first < past || last < first || last >= shardsMax) return null;
    for (let id = first; id <= last; id += 1) ids.push(id);
    past = last + 1;
  }
  return ids;
}

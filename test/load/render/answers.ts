/** Answers of render as JSON, and whether two are the same. */

interface Series {
  readonly target: string;
  readonly datapoints: readonly (readonly [value: number | null, unixSeconds: number])[];
}

export type Answer = readonly Series[];

/** Sums are made in another order elsewhere. */
const relativeMax = 1e-9;

/**
 * How two answers to one request differ, in words; null when they do not. Who begins or ends with a row more or less is the same:
 * what a window of time has at its ends is told differently. So are names but for their quotes and blanks.
 *
 * @param laterSeconds by which rows of the others are later
 */
export function difference(ours: Answer, others: Answer, laterSeconds: number): string | null {
  if (ours.length !== others.length) return `${ours.length} series, not ${others.length}`;
  const byTarget = new Map(others.map((series) => [plain(series.target), series]));
  for (const { target, datapoints } of ours) {
    const other = byTarget.get(plain(target));
    if (other === undefined) return `${target} is not there`;
    const values = new Map(
      other.datapoints.map(([value, seconds]) => [seconds - laterSeconds, value]),
    );
    const shared = datapoints.filter(([, seconds]) => values.has(seconds));
    if (shared.length < Math.max(datapoints.length, other.datapoints.length) - 3) {
      return `${target}: ${datapoints.length} rows and ${other.datapoints.length}, at ${shared.length} times in common`;
    }
    for (const [value, seconds] of shared.slice(1, -1)) {
      const wanted = values.get(seconds)!;
      if (value === wanted) continue;
      if (value === null || wanted === null || !isNear(value, wanted)) {
        return `${target} at ${seconds}: ${value}, not ${wanted}`;
      }
    }
  }
  return null;
}

function plain(target: string): string {
  return target.replaceAll(/["' ]/g, '');
}

function isNear(a: number, b: number): boolean {
  return Math.abs(a - b) <= relativeMax * Math.max(Math.abs(a), Math.abs(b));
}

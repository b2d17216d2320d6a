/** Labels that series get, or lose, before they are written, and series that are left out by a label. */
import { badRequest } from '#lib/errors.ts';
import type { Tag } from '#lib/tags.ts';
import type { ImportPart, ImportSource } from './source.ts';

/**
 * What `--label NAME=VALUE` says, any number of times.
 * @throws {TsdbError} BAD_REQUEST
 */
export function labelsOf(texts: readonly string[]): ReadonlyMap<string, string> {
  const labels = new Map<string, string>();
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at <= 0) throw badRequest(`--label is not NAME=VALUE: ${text}`);
    const name = text.slice(0, at);
    if (labels.has(name)) throw badRequest(`--label is given twice: ${name}`);
    labels.set(name, text.slice(at + 1));
  }
  return labels;
}

/**
 * The source with labels at each series. One that has a label of the name keeps its own, as Prometheus has it with its external labels;
 * a label without a value is taken away.
 */
export function labelled(source: ImportSource, labels: ReadonlyMap<string, string>): ImportSource {
  if (labels.size === 0) return source;
  const isKept = ({ name }: Tag): boolean => labels.get(name) !== '';
  const added = [...labels].flatMap(([name, value]) => (value === '' ? [] : [{ name, value }]));
  const tagsOf = (tags: readonly Tag[]): readonly Tag[] => {
    const kept = tags.filter((tag) => isKept(tag));
    const names = new Set(kept.flatMap(({ name, value }) => (value === '' ? [] : [name])));
    const own = kept.filter(({ name, value }) => value !== '' || !labels.has(name));
    return [...own, ...added.filter(({ name }) => !names.has(name))];
  };
  const partOf = (part: ImportPart): ImportPart => {
    // Series of two shards may be one with other labels.
    const { shard: _, ...unsharded } = part;
    return {
      ...unsharded,
      async *series(skip) {
        for await (const series of part.series(skip)) {
          yield { ...series, tags: tagsOf(series.tags) };
        }
      },
    };
  };
  return {
    get notes() {
      return source.notes;
    },
    get unfinished() {
      return source.unfinished;
    },
    parts: async () => (await source.parts()).map(partOf),
  };
}

/**
 * What `--leave-out NAME` or `--leave-out NAME=VALUE` says, any number of times; '' as the value for any.
 * @throws {TsdbError} BAD_REQUEST
 */
export function leftOutOf(texts: readonly string[]): readonly Tag[] {
  return texts.map((text) => {
    const at = text.indexOf('=');
    if (at === 0 || text === '' || at === text.length - 1) {
      throw badRequest(`--leave-out is not NAME or NAME=VALUE: ${text}`);
    }
    return at < 0
      ? { name: text, value: '' }
      : { name: text.slice(0, at), value: text.slice(at + 1) };
  });
}

/** The source without series that have one of these labels, with its value, or any where that is ''. */
export function without(source: ImportSource, leftOut: readonly Tag[]): ImportSource {
  if (leftOut.length === 0) return source;
  const isLeftOut = (tags: readonly Tag[]): boolean =>
    leftOut.some(({ name, value }) =>
      tags.some((tag) => tag.name === name && (value === '' || tag.value === value)),
    );
  const partOf = (part: ImportPart): ImportPart => ({
    ...part,
    // So many as were written, which are fewer than were read.
    async *series(skip) {
      let left = skip;
      let comesAgain: true | undefined;
      for await (const series of part.series(0)) {
        comesAgain ??= series.comesAgain;
        if (isLeftOut(series.tags)) continue;
        if (left > 0) left -= 1;
        else yield comesAgain === undefined ? series : { ...series, comesAgain };
        comesAgain = undefined;
      }
    },
  });
  return {
    get notes() {
      return source.notes;
    },
    get unfinished() {
      return source.unfinished;
    },
    parts: async () => (await source.parts()).map(partOf),
  };
}

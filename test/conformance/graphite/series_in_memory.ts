/** The series of the suites, as storage is asked for them. */
import type { LabelResult, Matcher, SelectResult } from '#coordinator/select/storage.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { encodeTags, type Tag } from '#lib/tags.ts';

/** Names of series as an index has their tags. */
export class SeriesInMemory {
  readonly hidden: ReadonlySet<string> = new Set();
  readonly #all: readonly (readonly Tag[])[];

  constructor(names: readonly string[]) {
    this.#all = names.map((name) => {
      const [path = '', ...pairs] = name.split(';');
      if (pairs.length === 0) {
        return path.split('.').map((value, node) => ({ name: `__g${node}__`, value }));
      }
      const tags = pairs.map((pair) => {
        const [tag = '', value = ''] = pair.split('=');
        return { name: tag, value };
      });
      return [{ name: '__name__', value: path }, ...tags];
    });
  }

  async labelNames(lists: readonly (readonly Matcher[])[]): Promise<LabelResult> {
    const names = this.#taken(lists[0] ?? []).flatMap((tags) => tags.map(({ name }) => name));
    return { values: [...new Set(names)].sort(), exhaustive: true, warnings: [] };
  }

  async labelValues(
    name: string,
    [matchers = []]: readonly (readonly Matcher[])[],
  ): Promise<LabelResult> {
    const values = this.#taken(matchers).flatMap((tags) =>
      tags.filter((tag) => tag.name === name).map(({ value }) => value),
    );
    return { values: [...new Set(values)].sort(), exhaustive: true, warnings: [] };
  }

  async joinedValues(
    names: readonly string[],
    [matchers = []]: readonly (readonly Matcher[])[],
  ): Promise<LabelResult> {
    const values = this.#taken(matchers)
      .map((tags) => names.map((name) => tags.find((tag) => tag.name === name)?.value ?? ''))
      .filter((joined) => !joined.includes(''))
      .map((joined) => joined.join('.'));
    return { values: [...new Set(values)].sort(), exhaustive: true, warnings: [] };
  }

  async series([matchers = []]: readonly (readonly Matcher[])[]): Promise<SelectResult> {
    const layouts = this.#taken(matchers).map((tags) => encodeTags(tags));
    let end = 0;
    const tagsOffset = Uint32Array.from([0, ...layouts.map(({ length }) => (end += length))]);
    const bundle: SeriesBundle = {
      ...emptyBundle,
      seriesCount: layouts.length,
      tagsData: new Uint8Array(Buffer.concat(layouts)),
      tagsOffset,
    };
    return { bundle, exhaustive: true, warnings: [] };
  }

  #taken(matchers: readonly Matcher[]): readonly (readonly Tag[])[] {
    return this.#all.filter((tags) =>
      matchers.every(({ name, kind, value }) => {
        const found = tags.find((tag) => tag.name === name)?.value ?? '';
        const isEqual = kind.endsWith('~') ? compileAnchored(value).test(found) : found === value;
        return kind.startsWith('!') ? !isEqual : isEqual;
      }),
    );
  }
}

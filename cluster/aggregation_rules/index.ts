/**
 * Finds the filters of many that can match a series, by what they ask of one tag: its value, the
 * beginning of it, or that there is one. Of the tags of a filter that one counts of which the fewest
 * filters ask the same.
 */
import { metricNameTag } from '#lib/tags.ts';
import type { Filter, TagFilter, TagValues } from './filter.ts';

/** Filters by what they ask of one tag. */
class TagIndex {
  readonly byValue: Map<string, number[]> = new Map();
  readonly byPrefix: Map<string, number[]> = new Map();
  readonly present: number[] = [];
  /** Of `byPrefix`, each once. */
  readonly prefixLengths: Set<number> = new Set();
}

export class RuleIndex {
  readonly #byTag = new Map<string, TagIndex>();
  /** Filters that can match whatever tags there are. */
  readonly #always: number[] = [];

  constructor(filters: readonly Filter[]) {
    const askers = new Map<string, number>();
    for (const filter of filters) {
      for (const tag of filter) {
        for (const key of keysOf(tag)) askers.set(key, (askers.get(key) ?? 0) + 1);
      }
    }
    const askersOf = (tag: TagFilter): number =>
      Math.max(...keysOf(tag).map((key) => askers.get(key)!));
    for (const [index, filter] of filters.entries()) {
      let chosen: TagFilter | null = null;
      for (const tag of filter) {
        if (canMatchWithout(tag)) continue;
        if (chosen === null || askersOf(tag) < askersOf(chosen)) chosen = tag;
      }
      if (chosen === null) this.#always.push(index);
      else this.#add(chosen, index);
    }
  }

  /** Ascending, each once. */
  candidates(tags: TagValues): number[] {
    const found = [...this.#always];
    for (const [name, value] of tags) {
      const index = this.#byTag.get(name);
      if (index === undefined) continue;
      found.push(...index.present);
      const ofValue = index.byValue.get(value);
      if (ofValue !== undefined) found.push(...ofValue);
      for (const length of index.prefixLengths) {
        if (length > value.length) continue;
        const ofPrefix = index.byPrefix.get(value.slice(0, length));
        if (ofPrefix !== undefined) found.push(...ofPrefix);
      }
    }
    return found.sort((a, b) => a - b);
  }

  #add({ name, pattern }: TagFilter, index: number): void {
    let ofTag = this.#byTag.get(name);
    if (ofTag === undefined) {
      ofTag = new TagIndex();
      this.#byTag.set(name, ofTag);
    }
    if (pattern.values !== null) {
      for (const value of pattern.values) addTo(ofTag.byValue, value, index);
    } else if (pattern.prefix !== '') {
      addTo(ofTag.byPrefix, pattern.prefix, index);
      ofTag.prefixLengths.add(pattern.prefix.length);
    } else {
      ofTag.present.push(index);
    }
  }
}

/** A series without the tag can match, too. */
function canMatchWithout({ name, pattern }: TagFilter): boolean {
  return name === metricNameTag && pattern.matches('');
}

/** What a filter of a tag asks, in words that are equal for equal questions. */
function keysOf({ name, pattern }: TagFilter): string[] {
  if (pattern.values !== null) return pattern.values.map((value) => `${name}=${value}`);
  return pattern.prefix === '' ? [`${name}`] : [`${name}^${pattern.prefix}`];
}

function addTo(map: Map<string, number[]>, key: string, index: number): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [index]);
  else list.push(index);
}

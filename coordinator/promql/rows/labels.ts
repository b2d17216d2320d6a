/**
 * Labels of a result series. Those of stored series stay canonical bytes (lib/tags.ts) until
 * somebody needs the texts: grouping ten thousand series by one label reads that label alone.
 */
import { decodeTags, encodeTags, metricNameTag } from '#lib/tags.ts';
import type { Tag } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';

const nameBytesCache = new Map<string, Uint8Array>();
const nameCacheSizeMax = 1000;

function bytesOfName(name: string): Uint8Array {
  let bytes = nameBytesCache.get(name);
  if (bytes === undefined) {
    if (nameBytesCache.size >= nameCacheSizeMax) nameBytesCache.clear();
    bytes = new Uint8Array(Buffer.from(name));
    nameBytesCache.set(name, bytes);
  }
  return bytes;
}

const underscore = 95;

function isMetricName(name: string): boolean {
  return name === metricNameTag;
}

function isMetadataLabel(name: string): boolean {
  return name === metricNameTag || name === '__type__' || name === '__unit__';
}

/** What labels take as objects. */
const labelsBytes = 256;
/** For each byte of names and values: as texts, as a key, and once more without the name. */
const textFactor = 4;

/** About what labels of so many series take while a query is evaluated. */
export function labelsBytesOf(seriesCount: number, tagsBytes: number): number {
  return seriesCount * labelsBytes + textFactor * tagsBytes;
}

/** More names are not looked for one by one: the labels are looked through. */
const namesSoughtMax = 16;

/** Names by which labels are grouped or matched. */
export class LabelNames {
  /** Each once, sorted. */
  readonly list: readonly string[];
  readonly places: ReadonlyMap<string, number>;

  constructor(names: readonly string[]) {
    this.list = [...new Set(names)].sort();
    this.places = new Map(this.list.map((name, place) => [name, place]));
  }
}

export class Labels {
  /** Holds the canonical bytes at [start, end), or null when the tags are given. */
  readonly #bytes: Buffer | null;
  readonly #start: number;
  readonly #end: number;
  #tags: readonly Tag[] | null;
  #key: string | null;
  /** Whether the metric name is to go at the end of the query (`PromqlFeatures.delayedNameRemoval`). */
  readonly losesName: boolean;

  private constructor(
    bytes: Buffer | null,
    start: number,
    end: number,
    tags: readonly Tag[] | null,
    losesName = false,
  ) {
    this.losesName = losesName;
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
    this.#tags = tags;
    this.#key = null;
  }

  static readonly empty: Labels = new Labels(null, 0, 0, []);

  /** @param bytes canonical layout at [start, end); kept, not copied */
  static fromBytes(bytes: Buffer, start: number, end: number): Labels {
    return new Labels(bytes, start, end, null);
  }

  static #ofSorted(tags: readonly Tag[]): Labels {
    return new Labels(null, 0, 0, tags);
  }

  /** @param tags in any order, names unique; those with an empty value are left out */
  static of(tags: readonly Tag[]): Labels {
    const kept = tags.filter((tag) => tag.value !== '');
    kept.sort((a, b) => compareTexts(a.name, b.name));
    return Labels.#ofSorted(kept);
  }

  /** Sorted by name. */
  get tags(): readonly Tag[] {
    this.#tags ??= decodeTags(this.#bytes!.subarray(this.#start, this.#end));
    return this.#tags;
  }

  /** Equal for equal labels, whatever they were made of. */
  get key(): string {
    let key = this.#key;
    if (key === null) {
      key =
        this.#bytes === null
          ? Buffer.from(encodeTags(this.#tags!)).toString('latin1')
          : this.#bytes.toString('latin1', this.#start, this.#end);
      this.#key = key;
    }
    return key;
  }

  /** '' when there is none. */
  get(name: string): string {
    if (this.#tags !== null) {
      for (const tag of this.#tags) if (tag.name === name) return tag.value;
      return '';
    }
    const at = this.#find(name);
    if (at < 0) return '';
    const bytes = this.#bytes!;
    const length = bytes[at]! | (bytes[at + 1]! << 8);
    return bytes.toString('utf8', at + 2, at + 2 + length);
  }

  /** Where the length of the value of the label stands in the bytes, or -1. */
  #find(name: string): number {
    const bytes = this.#bytes!;
    const wanted = bytesOfName(name);
    let at = this.#start;
    while (at < this.#end) {
      const length = bytes[at]! | (bytes[at + 1]! << 8);
      const valueAt = at + 2 + length;
      if (length === wanted.length) {
        let i = 0;
        while (i < length && bytes[at + 2 + i] === wanted[i]) i++;
        if (i === length) return valueAt;
      }
      at = valueAt + 2 + (bytes[valueAt]! | (bytes[valueAt + 1]! << 8));
    }
    return -1;
  }

  get name(): string {
    return this.get(metricNameTag);
  }

  /** Without the metric name, and without the type and unit that describe it. */
  withoutName(): Labels {
    return this.#without(isMetadataLabel);
  }

  /** The same, but its type and unit stay. */
  withoutNameAlone(): Labels {
    return this.#without(isMetricName);
  }

  /** The same, of which the metric name is to go at the end of the query or not. */
  losingName(losesName: boolean): Labels {
    if (losesName === this.losesName) return this;
    return new Labels(this.#bytes, this.#start, this.#end, this.#tags, losesName);
  }

  get hasTypeOrUnit(): boolean {
    if (this.#bytes !== null) return this.#find('__type__') >= 0 || this.#find('__unit__') >= 0;
    return this.get('__type__') !== '' || this.get('__unit__') !== '';
  }

  #without(isDropped: (name: string) => boolean): Labels {
    if (this.#bytes === null) {
      const tags = this.tags.filter((tag) => !isDropped(tag.name));
      return tags.length === this.tags.length ? this : Labels.#ofSorted(tags);
    }
    const bytes = this.#bytes;
    const kept = Buffer.allocUnsafe(this.#end - this.#start);
    let length = 0;
    let at = this.#start;
    while (at < this.#end) {
      const nameLength = bytes[at]! | (bytes[at + 1]! << 8);
      const valueAt = at + 2 + nameLength;
      const next = valueAt + 2 + (bytes[valueAt]! | (bytes[valueAt + 1]! << 8));
      // All labels that are ever dropped here begin with an underscore.
      const isKept =
        bytes[at + 2] !== underscore || !isDropped(bytes.toString('utf8', at + 2, valueAt));
      if (isKept) length += bytes.copy(kept, length, at, next);
      at = next;
    }
    return length === kept.length ? this : new Labels(kept, 0, length, null);
  }

  /** These alone. */
  keep(names: LabelNames): Labels {
    if (names.list.length > namesSoughtMax) {
      return Labels.of(this.tags.filter((tag) => names.places.has(tag.name)));
    }
    const tags: Tag[] = [];
    for (const name of names.list) tags.push({ name, value: this.get(name) });
    return Labels.of(tags);
  }

  /** Without these and without the metric name. */
  drop(names: ReadonlySet<string>): Labels {
    return Labels.#ofSorted(
      this.tags.filter((tag) => tag.name !== metricNameTag && !names.has(tag.name)),
    );
  }

  /** Without exactly these. */
  dropOnly(names: ReadonlySet<string>): Labels {
    return Labels.#ofSorted(this.tags.filter((tag) => !names.has(tag.name)));
  }

  /** An empty value takes the label away. */
  with(name: string, value: string): Labels {
    return Labels.of([...this.tags.filter((tag) => tag.name !== name), { name, value }]);
  }

  /** With these as the others have them: also those that they do not have. */
  withOf(names: ReadonlySet<string>, others: Labels): Labels {
    const tags = this.tags.filter((tag) => !names.has(tag.name));
    for (const tag of others.tags) if (names.has(tag.name)) tags.push(tag);
    return Labels.of(tags);
  }

  /** With these too, none of which it has. */
  plus(tags: readonly Tag[]): Labels {
    return Labels.of([...this.tags, ...tags]).losingName(this.losesName);
  }

  /** About what `with` takes in memory, and what is made of it later. */
  bytesWith(name: string, value: string): number {
    return this.#bytesWithMore(name.length + value.length);
  }

  /** The same of `plus`. */
  bytesPlus(tags: readonly Tag[]): number {
    let length = 0;
    for (const { name, value } of tags) length += name.length + value.length;
    return this.#bytesWithMore(length);
  }

  #bytesWithMore(more: number): number {
    let length = more;
    if (this.#bytes === null) {
      for (const tag of this.#tags!) length += tag.name.length + tag.value.length;
    } else length += this.#end - this.#start;
    return labelsBytes + textFactor * length;
  }

  /** A key of these labels alone, for grouping and matching. */
  keyOn({ list, places }: LabelNames): string {
    if (list.length === 1) return this.get(list[0]!);
    let key = '';
    if (list.length > namesSoughtMax) {
      for (const { name, value } of this.tags) {
        const place = places.get(name);
        if (place !== undefined && value !== '') key += `${place}:${value.length}:${value}`;
      }
      return key;
    }
    for (const name of list) {
      const value = this.get(name);
      key += `${value.length}:${value}`;
    }
    return key;
  }

  /** A key of all labels but these and the metric name. */
  keyWithout(names: ReadonlySet<string>): string {
    if (names.size === 0) return this.#without(isMetricName).key;
    return this.drop(names).key;
  }

  compare(other: Labels): number {
    const a = this.tags;
    const b = other.tags;
    const length = Math.min(a.length, b.length);
    for (let i = 0; i < length; i++) {
      const left = a[i]!;
      const right = b[i]!;
      if (left.name !== right.name) return compareTexts(left.name, right.name);
      if (left.value !== right.value) return compareTexts(left.value, right.value);
    }
    return a.length - b.length;
  }

  /** As Prometheus prints them in messages: `{a="b", c="d"}`. */
  toString(): string {
    const pairs = this.tags.map(({ name, value }) => {
      const label = /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) ? name : JSON.stringify(name);
      return `${label}=${JSON.stringify(value)}`;
    });
    return `{${pairs.join(', ')}}`;
  }
}

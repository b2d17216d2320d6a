/** The series of points: by the bytes that say them, or made of labels when these are new. */
import { encodeTags, metricNameTag } from '#lib/tags.ts';
import {
  type Attribute,
  attributeBytesMax,
  attributesIn,
  attributesTooLong,
  refusalOf,
} from '../labels/attributes.ts';
import type { Family } from '../labels/families.ts';
import { type Labels, type ResourceLabels, tagsOf } from '../labels/labels.ts';
import type { PartRows } from './part_rows.ts';
import type { OtlpKnown } from './types.ts';
import { Places, Wire } from '../wire/wire.ts';

/** What points stand in. */
export interface PointContext {
  /** Entry of the metric. */
  readonly entry: number;
  readonly family: Family;
  readonly resource: ResourceLabels;
  readonly scope: Labels;
}

/** Suffix of a series' name, and a label that tells it apart, by what a point has. */
export interface SeriesName {
  readonly suffix: string;
  /** '' for none. */
  readonly label: string;
  readonly value: string;
}

export const plainSeries: readonly SeriesName[] = [{ suffix: '', label: '', value: '' }];

const noBytes = new Wire(new Uint8Array(0));

export class PointSeries {
  readonly #wire: Wire;
  readonly #known: OtlpKnown;
  readonly #rows: PartRows;
  #scratch = new Wire(new Uint8Array(1024));

  constructor(wire: Wire, known: OtlpKnown, rows: PartRows) {
    this.#wire = wire;
    this.#known = known;
    this.#rows = rows;
  }

  /**
   * Entry of the series of a point, whose slots are in use.
   * @param places of the point, of which `attributes` is the number
   * @param parent the metric, or what of the point tells its series apart beside attributes
   * @param names asked when the series are new
   * @returns 0 when the point is refused: `problem` says why
   */
  of(
    context: PointContext,
    places: Places,
    attributes: number,
    parent: number,
    extra: number,
    names: () => readonly SeriesName[],
  ): number {
    const { cache, problems } = this.#known;
    let wire = this.#wire;
    let [start, end] = [0, 0];
    if (!places.has(attributes)) wire = noBytes;
    else {
      start = places.first[attributes]!;
      end = places.end[attributes]!;
      if ((places.scattered & (1 << attributes)) !== 0) {
        wire = this.#gathered(start, end, attributes);
        end = wire.at;
        start = 0;
      }
    }
    if (end - start > attributeBytesMax) {
      this.problem = attributesTooLong(end - start);
      return 0;
    }
    const found = cache.find(wire.view, parent, extra, start, end);
    if (found !== 0) {
      const count = cache.slotCount(found);
      if (count === 0) {
        this.problem = problems.get(found) ?? '';
        return 0;
      }
      for (let i = 0; i < count; i++) {
        if (!this.#rows.decoder.use(cache.slot(found, i), cache.generation(found, i))) {
          return this.#fill(found, this.#tagsOf(context, wire, start, end, attributes, names()));
        }
      }
      return found;
    }
    try {
      const tags = this.#tagsOf(context, wire, start, end, attributes, names());
      const entry = cache.add(parent, extra, end - start);
      this.#rows.noteBytes(end - start);
      cache.reserveSlots(entry, tags.length);
      return this.#fill(entry, tags);
    } catch (error) {
      this.problem = refusalOf(error);
      problems.set(cache.add(parent, extra, end - start), this.problem);
      this.#rows.noteNew(end - start);
      return 0;
    }
  }

  /** Of the last point that was refused. */
  problem = '';

  /**
   * Takes points of numbers of a metric in [at, end), each a field of its data, as far as they are as most are and their series
   * are known.
   * @param withStarts else they have no start times
   * @returns where they end; where there are any, `earliestMillis` and `latestMillis` are their times
   */
  takeNumbers(metricEntry: number, at: number, end: number, withStarts: boolean): number {
    const { cache } = this.#known;
    const { bytes } = this.#wire;
    const { pointsLeft } = this.#rows;
    const read = cache.numbers(bytes, at, end, metricEntry, withStarts, pointsLeft);
    const count = read === 0 ? 0 : this.#rows.addNumbers(cache.packedSamples(read));
    if (count === 0) return at;
    // Of those whose series was forgotten, too: they come to rows next.
    this.earliestMillis = cache.earliestMillis;
    this.latestMillis = cache.latestMillis;
    return cache.endOfNumber(count - 1);
  }

  earliestMillis = 0;
  latestMillis = 0;

  slot(entry: number, index: number): number {
    return this.#known.cache.slot(entry, index);
  }

  slotCount(entry: number): number {
    return this.#known.cache.slotCount(entry);
  }

  /** Entry of what of a point tells its series apart beside its attributes. */
  part(parent: number, extra: number, start: number, end: number): number {
    return this.#entryOf(this.#wire.view, parent, extra, start, end);
  }

  /** The same of numbers that do not stand one after the other. */
  partOfWords(parent: number, extra: number, words: readonly bigint[]): number {
    const all = BigUint64Array.from(words);
    return this.#entryOf(new DataView(all.buffer), parent, extra, 0, all.byteLength);
  }

  #entryOf(view: DataView, parent: number, extra: number, start: number, end: number): number {
    const { cache } = this.#known;
    const found = cache.find(view, parent, extra, start, end);
    if (found !== 0) return found;
    this.#rows.noteBytes(end - start);
    return cache.add(parent, extra, end - start);
  }

  #fill(entry: number, tags: readonly Uint8Array[]): number {
    const { decoder } = this.#rows;
    const { cache } = this.#known;
    for (const [index, each] of tags.entries()) {
      const slot = decoder.slotOf(each);
      cache.setSlot(entry, index, slot, decoder.generation[slot]!);
      this.#rows.noteNew(each.length);
    }
    return entry;
  }

  /** @throws {Refused} */
  #tagsOf(
    { family, resource, scope }: PointContext,
    wire: Wire,
    start: number,
    end: number,
    number: number,
    names: readonly SeriesName[],
  ): Uint8Array[] {
    const attributes: Attribute[] = attributesIn(wire, start, end, number);
    const labels = this.#known.labels.ofPoint(attributes, resource, scope, family);
    return names.map(({ suffix, label, value }) => {
      const own = [{ name: metricNameTag, value: family.name + suffix }];
      if (label !== '') own.push({ name: label, value });
      return encodeTags(tagsOf(labels, own));
    });
  }

  /** Fields of a number, one after the other; `at` of them is their end. */
  #gathered(start: number, end: number, number: number): Wire {
    const { bytes } = this.#wire;
    if (this.#scratch.bytes.length < end - start) {
      this.#scratch = new Wire(new Uint8Array(2 * (end - start)));
    }
    const scratch = this.#scratch;
    let length = 0;
    for (let at = start; at < end; ) {
      const key = this.#wire.varint(at, end);
      const past = this.#wire.skip(this.#wire.at, end, key % 8);
      if (Math.floor(key / 8) === number) {
        scratch.bytes.set(bytes.subarray(at, past), length);
        length += past - at;
      }
      at = past;
    }
    scratch.at = length;
    return scratch;
  }
}

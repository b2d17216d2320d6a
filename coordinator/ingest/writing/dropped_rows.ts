/**
 * Rows that aggregation rules drop (docs/AGGREGATION.md, Rules): those of which windows or rollups are made go to a namespace
 * of their own, which no query reads, and others nowhere. By the rules of a row's time, which are asked once for each series.
 * What rules name, and nobody would make, stays with the others: it would be gone with that namespace's retention.
 */
import { isSamePolicy, type StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import type { RuleSetsOverTime, RulesOverTime } from '#cluster/aggregation_rules/sets/over_time.ts';
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { decodeTags } from '#lib/tags.ts';
import type { BodyRows } from './parts.ts';

/** What becomes of a series' rows. */
export const rowPlace = { kept: 1, aside: 2, nowhere: 3 } as const;
type RowPlace = (typeof rowPlace)[keyof typeof rowPlace];

/** Of its samples, and `histogramBits` further of its histograms, which are in no rollup. */
type RowPlaces = number;
const histogramBits = 2;
const placeMask = 3;

export interface DividedRows {
  /** Places of the rows that stay, among all of them. */
  readonly kept: Uint32Array;
  /** Of those that are kept for windows alone. */
  readonly aside: Uint32Array;
  readonly nowhere: number;
}

/** Series of a decoder, as they are asked for. */
type Series = Pick<WriteDecoder, 'borrowTags' | 'generation' | 'refused'>;

/** Rules that hold at one time, for as long as they do. */
interface Era {
  readonly sets: RuleSetsOverTime;
  readonly policies: readonly StoragePolicy[];
  readonly startNanos: bigint;
  readonly endNanos: bigint;
  /** Some drop now. */
  readonly hasDrops: boolean;
  /** Some dropped at one time or another. */
  readonly hasEverDropped: boolean;
}

const beforeAllTime = -(2n ** 63n);
const afterAllTime = 2n ** 63n - 1n;

export class DroppedRows {
  readonly #setsOf: () => RuleSetsOverTime;
  readonly #policiesOf: () => readonly StoragePolicy[];
  readonly #clock: Pick<Clock, 'nowNanos'>;
  #era: Era | null = null;
  /** Of the era, by slot: 0 for what has not been asked. */
  #places = new Uint8Array(0);
  /** To whom the slot belonged then. */
  #generations = new Uint32Array(0);

  /** @param policiesOf of the READY aggregated namespaces; the same list for as long as they are the same */
  constructor(
    setsOf: () => RuleSetsOverTime,
    policiesOf: () => readonly StoragePolicy[],
    clock: Pick<Clock, 'nowNanos'>,
  ) {
    this.#setsOf = setsOf;
    this.#policiesOf = policiesOf;
    this.#clock = clock;
  }

  /**
   * @param hasAside whether rows can be kept for windows alone, asked when there are some; they stay with the others
   *   where not
   * @returns null when all rows are kept, as they are where no rule drops
   */
  divided(rows: BodyRows, series: Series, hasAside: () => boolean): DividedRows | null {
    const sets = this.#setsOf();
    if (sets.isEmpty) return null;
    const era = this.#eraOf(sets);
    if (!era.hasEverDropped) return null;
    const { rowCount, slots, generations, timestamps } = rows;
    const unit = BigInt(rows.timeUnitNanos);
    // As numbers: a 64-bit integer is made anew each time it is read. They are a microsecond off at most.
    const words = new Int32Array(timestamps.buffer, timestamps.byteOffset, 2 * rowCount);
    const first = Number(era.startNanos / unit);
    const past = Number(era.endNanos / unit);
    let others = 0;
    let found: Uint8Array | null = null;
    let isAsideThere: boolean | null = null;
    const earlier = new EarlierPlaces(era, series);
    const bits = 'valueEnds' in rows ? histogramBits : 0;
    for (let row = 0; row < rowCount; row++) {
      const slot = slots[row]!;
      // It belongs to another series by now, so that nobody can tell, and the row is refused for that.
      if (series.generation[slot] !== generations[row]) continue;
      const time = words[2 * row + 1]! * 2 ** 32 + (words[2 * row]! >>> 0);
      const places =
        time > first && time <= past
          ? this.#placeNow(era, slot, generations[row]!, series)
          : earlier.of(slot, timestamps[row]! * unit);
      const place = (places >> bits) & placeMask;
      if (place === rowPlace.kept) continue;
      if (place === rowPlace.aside && !(isAsideThere ??= hasAside())) continue;
      found ??= new Uint8Array(rowCount);
      found[row] = place;
      others += 1;
    }
    if (found === null) return null;
    return divide(found, rowCount - others);
  }

  #eraOf(sets: RuleSetsOverTime): Era {
    const nowNanos = this.#clock.nowNanos();
    const policies = this.#policiesOf();
    const known = this.#era;
    const isSame =
      known !== null &&
      known.sets === sets &&
      known.policies === policies &&
      nowNanos >= known.startNanos &&
      nowNanos < known.endNanos;
    if (isSame) return known;
    let startNanos = beforeAllTime;
    let endNanos = afterAllTime;
    let hasDrops = false;
    let hasEverDropped = false;
    for (const rules of sets.all) {
      const era = rules.around(nowNanos);
      if (era.startNanos > startNanos) startNanos = era.startNanos;
      if (era.endNanos < endNanos) endNanos = era.endNanos;
      hasDrops ||= era.rules.mappingRules.some(({ drop }) => drop !== 'none');
      hasEverDropped ||= rules.hasDrops;
    }
    this.#places.fill(0);
    return (this.#era = { sets, policies, startNanos, endNanos, hasDrops, hasEverDropped });
  }

  #placeNow(era: Era, slot: number, generation: number, series: Series): RowPlaces {
    if (!era.hasDrops) return allKept;
    if (slot >= this.#places.length) this.#grow(slot);
    const known = this.#places[slot]!;
    if (known !== 0 && this.#generations[slot] === generation) return known;
    const places = placesAt(era, era.startNanos + 1n, slot, series);
    this.#places[slot] = places;
    this.#generations[slot] = generation;
    return places;
  }

  #grow(slot: number): void {
    const length = Math.max(1024, 2 * slot);
    const places = new Uint8Array(length);
    places.set(this.#places);
    const generations = new Uint32Array(length);
    generations.set(this.#generations);
    [this.#places, this.#generations] = [places, generations];
  }
}

/** Places of rows of other times than now: those of one body, of each series those of one stretch of rules. */
class EarlierPlaces {
  /** Of now. */
  readonly #era: Era;
  readonly #series: Series;
  readonly #known = new Map<
    number,
    { readonly startNanos: bigint; readonly endNanos: bigint; readonly places: RowPlaces }
  >();

  constructor(era: Era, series: Series) {
    this.#era = era;
    this.#series = series;
  }

  of(slot: number, nanos: bigint): RowPlaces {
    const known = this.#known.get(slot);
    if (known !== undefined && nanos > known.startNanos && nanos <= known.endNanos) {
      return known.places;
    }
    let startNanos = beforeAllTime;
    let endNanos = afterAllTime;
    for (const rules of this.#era.sets.all) {
      const era = rules.around(nanos - 1n);
      if (era.startNanos > startNanos) startNanos = era.startNanos;
      if (era.endNanos < endNanos) endNanos = era.endNanos;
    }
    const places = placesAt(this.#era, nanos, slot, this.#series);
    this.#known.set(slot, { startNanos, endNanos, places });
    return places;
  }
}

function placesOf(samples: RowPlace, histograms: RowPlace): RowPlaces {
  return samples | (histograms << histogramBits);
}

const allKept: RowPlaces = placesOf(rowPlace.kept, rowPlace.kept);

/** A row is of the window that ends at its time or later, and that of the rules of its begin: those of just before the row. */
function placesAt({ sets, policies }: Era, nanos: bigint, slot: number, series: Series): RowPlaces {
  // It is refused for another reason.
  if (series.refused[slot] !== 0) return allKept;
  const tags = decodeTags(series.borrowTags(slot));
  const rules: RulesOverTime | null = sets.of(tags);
  if (rules === null) return allKept;
  const { drops, mappings, pipelines } = rules.at(nanos - 1n).match(tags);
  if (drops.length === 0) return allKept;
  const placeFor = (named: readonly StoragePolicy[]): RowPlace =>
    named.some((policy) => policies.some((each) => isSamePolicy(each, policy)))
      ? rowPlace.aside
      : rowPlace.kept;
  if (mappings.length > 0) {
    const place = placeFor(mappings.flatMap(({ storagePolicies }) => storagePolicies));
    return placesOf(place, place);
  }
  if (pipelines.length === 0) return placesOf(rowPlace.nowhere, rowPlace.nowhere);
  const rolledUp = pipelines.flatMap(({ target }) => target.storagePolicies);
  return placesOf(placeFor(rolledUp), rowPlace.kept);
}

function divide(found: Uint8Array, keptCount: number): DividedRows {
  const kept = new Uint32Array(keptCount);
  const aside: number[] = [];
  let nowhere = 0;
  let at = 0;
  for (const [row, place] of found.entries()) {
    if (place === 0) kept[at++] = row;
    else if (place === rowPlace.aside) aside.push(row);
    else nowhere += 1;
  }
  return { kept, aside: Uint32Array.from(aside), nowhere };
}

/** Some of the rows, in columns of their own. */
export function pickedRows(rows: BodyRows, places: Uint32Array): BodyRows {
  const shared = {
    rowCount: places.length,
    slots: Uint32Array.from(places, (row) => rows.slots[row]!),
    generations: Uint32Array.from(places, (row) => rows.generations[row]!),
    timestamps: BigInt64Array.from(places, (row) => rows.timestamps[row]!),
    startNanos:
      rows.startNanos === null ? null : BigInt64Array.from(places, (row) => rows.startNanos![row]!),
  };
  if (!('valueEnds' in rows)) {
    return { ...rows, ...shared, values: Float64Array.from(places, (row) => rows.values[row]!) };
  }
  const { valueEnds, valueBytes } = rows;
  const valueOf = (row: number): Uint8Array =>
    valueBytes.subarray(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
  let end = 0;
  return {
    ...rows,
    ...shared,
    valueEnds: Uint32Array.from(places, (row) => (end += valueOf(row).length)),
    valueBytes: new Uint8Array(Buffer.concat(Array.from(places, valueOf))),
  };
}

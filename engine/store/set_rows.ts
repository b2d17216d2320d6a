/** Rows of a batch by the store of a set that has their series. */
import type { StoreRows, StoreTypedRows } from './rows.ts';

/** Rows of a batch by store, in columns that are used again. */
export class RowPart {
  #rows: StoreRows | null = null;
  /** Rows by store, each store's in their order. */
  #order: Uint32Array = new Uint32Array(0);
  #starts: Uint32Array = new Uint32Array(0);
  #slots: Uint32Array = new Uint32Array(0);
  #generations: Uint32Array = new Uint32Array(0);
  #timestamps: BigInt64Array = new BigInt64Array(0);
  #values: Float64Array = new Float64Array(0);
  #startNanos: BigInt64Array = new BigInt64Array(0);
  #outcomes: Uint8Array = new Uint8Array(0);

  sort(
    rows: StoreRows,
    row: number,
    rowEnd: number,
    storeCount: number,
    storeOf: (slot: number) => number,
  ): void {
    this.#rows = rows;
    const count = rowEnd - row;
    if (this.#order.length < count) this.#grow(count);
    const starts = new Uint32Array(storeCount + 1);
    for (let i = row; i < rowEnd; i++) starts[storeOf(rows.slots[i]!) + 1]!++;
    for (let i = 0; i < storeCount; i++) starts[i + 1] = starts[i]! + starts[i + 1]!;
    const next = starts.slice();
    for (let i = row; i < rowEnd; i++) this.#order[next[storeOf(rows.slots[i]!)]!++] = i;
    this.#starts = starts;
  }

  #grow(count: number): void {
    this.#order = new Uint32Array(count);
    this.#slots = new Uint32Array(count);
    this.#generations = new Uint32Array(count);
    this.#timestamps = new BigInt64Array(count);
    this.#values = new Float64Array(count);
    this.#startNanos = new BigInt64Array(count);
    this.#outcomes = new Uint8Array(count);
  }

  /** Columns of one store's rows until the next call; null when there are none. */
  take(
    index: number,
    innerOf: (slot: number) => number,
    outcomes: Uint8Array,
    withValues: boolean,
  ): { rows: StoreRows; outcomes: Uint8Array } | null {
    const rows = this.#rows!;
    const order = this.#order.subarray(this.#starts[index], this.#starts[index + 1]);
    if (order.length === 0) return null;
    for (let i = 0; i < order.length; i++) {
      const row = order[i]!;
      this.#slots[i] = innerOf(rows.slots[row]!);
      this.#generations[i] = rows.generations[row]!;
      this.#outcomes[i] = outcomes[row]!;
    }
    copyWords(rows.timestamps, order, this.#timestamps);
    if (withValues) copyWords(rows.values, order, this.#values);
    const { startNanos } = rows;
    if (startNanos !== undefined) copyWords(startNanos, order, this.#startNanos);
    return {
      rows: {
        rowCount: order.length,
        slots: this.#slots.subarray(0, order.length),
        generations: this.#generations.subarray(0, order.length),
        timestamps: this.#timestamps.subarray(0, order.length),
        timeUnitNanos: rows.timeUnitNanos,
        values: this.#values.subarray(0, order.length),
        ...(startNanos === undefined
          ? {}
          : { startNanos: this.#startNanos.subarray(0, order.length) }),
      },
      outcomes: this.#outcomes.subarray(0, order.length),
    };
  }

  putOutcomes(index: number, from: Uint8Array, outcomes: Uint8Array): void {
    const start = this.#starts[index]!;
    for (let i = 0; i < from.length; i++) outcomes[this.#order[start + i]!] = from[i]!;
  }
}

/** Typed rows at some places, with the slots that their store knows them by. */
export function typedRowsAt(
  rows: StoreTypedRows,
  places: readonly number[],
  innerOf: (slot: number) => number,
): StoreTypedRows {
  const { slots, generations, timestamps, startNanos, valueEnds, valueBytes, timeUnitNanos } = rows;
  const startOf = (place: number): number => (place === 0 ? 0 : valueEnds[place - 1]!);
  let length = 0;
  const ends = Uint32Array.from(places, (place) => (length += valueEnds[place]! - startOf(place)));
  const bytes = new Uint8Array(length);
  for (const [i, place] of places.entries()) {
    const value = valueBytes.subarray(startOf(place), valueEnds[place]);
    bytes.set(value, ends[i]! - value.length);
  }
  return {
    rowCount: places.length,
    slots: Uint32Array.from(places, (place) => innerOf(slots[place]!)),
    generations: Uint32Array.from(places, (place) => generations[place]!),
    timestamps: BigInt64Array.from(places, (place) => timestamps[place]!),
    timeUnitNanos,
    startNanos: BigInt64Array.from(places, (place) => startNanos[place]!),
    valueEnds: ends,
    valueBytes: bytes,
  };
}

type WideColumn = BigInt64Array | Float64Array;

/** By words: a signalling NaN does not survive as a number, and a bigint costs an object. */
function copyWords(source: WideColumn, order: Uint32Array, target: WideColumn): void {
  const from = new Uint32Array(source.buffer, source.byteOffset, source.length * 2);
  const to = new Uint32Array(target.buffer, target.byteOffset, target.length * 2);
  for (let i = 0; i < order.length; i++) {
    const row = order[i]!;
    to[2 * i] = from[2 * row]!;
    to[2 * i + 1] = from[2 * row + 1]!;
  }
}

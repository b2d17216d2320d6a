/**
 * What goes into a store: columns of rows, and the rules of the namespace that they are written to.
 */
import type { WriteRules } from '#lib/block_time.ts';

export interface StoreNamespace extends WriteRules {
  readonly blockSizeNanos: bigint;
}

/** Columns, each `rowCount` long or longer. */
export interface StoreRows {
  readonly rowCount: number;
  /** Reference of the row's series: slot and generation. */
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  /** Unix time in `timeUnitNanos`. */
  readonly timestamps: BigInt64Array;
  /** 1, 1000, 1e6 or 1e9. */
  readonly timeUnitNanos: number;
  readonly values: Float64Array;
  /** Start times, Unix nanoseconds, 0 for none; only of a store that keeps the versions of rows. */
  readonly startNanos?: BigInt64Array;
}

/** Rows with typed values (engine/typed). */
export interface StoreTypedRows extends Omit<StoreRows, 'values' | 'startNanos'> {
  /** Unix nanoseconds, 0 for none. */
  readonly startNanos: BigInt64Array;
  /** Where each value ends in `valueBytes`; the first begins at 0. */
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
}

/** Rows of one kind. */
export type RowsOfKind =
  | { readonly kind: 'float'; readonly rows: StoreRows }
  | { readonly kind: 'typed'; readonly rows: StoreTypedRows };

/** The rows at these places, in columns of their own. */
export function pickRows(of: RowsOfKind, places: Uint32Array): RowsOfKind {
  const { kind, rows } = of;
  const rowCount = places.length;
  const columns = {
    rowCount,
    timeUnitNanos: rows.timeUnitNanos,
    slots: places.map((row) => rows.slots[row]!),
    generations: places.map((row) => rows.generations[row]!),
    timestamps: pickInt64(rows.timestamps, places),
  };
  if (kind === 'float') {
    const { values, startNanos } = rows;
    // By bits, since a number would lose the payload of a signalling NaN.
    const bits = new BigInt64Array(values.buffer, values.byteOffset, rows.rowCount);
    const picked = { ...columns, values: new Float64Array(pickInt64(bits, places).buffer) };
    if (startNanos === undefined) return { kind, rows: picked };
    return { kind, rows: { ...picked, startNanos: pickInt64(startNanos, places) } };
  }
  const { valueEnds, valueBytes } = rows;
  const startOf = (row: number): number => (row === 0 ? 0 : valueEnds[row - 1]!);
  const ends = new Uint32Array(rowCount);
  let length = 0;
  for (let i = 0; i < rowCount; i++) {
    const row = places[i]!;
    length += valueEnds[row]! - startOf(row);
    ends[i] = length;
  }
  const bytes = new Uint8Array(length);
  for (let i = 0; i < rowCount; i++) {
    const row = places[i]!;
    bytes.set(valueBytes.subarray(startOf(row), valueEnds[row]!), i === 0 ? 0 : ends[i - 1]!);
  }
  const startNanos = pickInt64(rows.startNanos, places);
  return { kind, rows: { ...columns, startNanos, valueEnds: ends, valueBytes: bytes } };
}

function pickInt64(column: BigInt64Array, places: Uint32Array): BigInt64Array<ArrayBuffer> {
  const picked = new BigInt64Array(places.length);
  for (let i = 0; i < places.length; i++) picked[i] = column[places[i]!]!;
  return picked;
}

/**
 * Series' chunks: those of the i-th slot asked for are chunkData[chunkOffset[i] .. chunkOffset[i +
 * 1]).
 */
export interface StoredChunks {
  readonly chunkData: Uint8Array;
  readonly chunkOffset: Uint32Array;
}

/** A block with rows in memory. */
export interface HeldBlock {
  readonly blockStartNanos: bigint;
  /** Series that have rows in it. */
  readonly seriesCount: number;
}

/** What a block holds in memory. */
export interface StoredBlock extends HeldBlock {
  /** Rows with one timestamp count each until they are merged. */
  readonly rowCount: number;
  /**
   * Memory that dropping the block gives back, nearly: without what is unused after chunks and
   * rows.
   */
  readonly bytes: number;
}

/**
 * The codes of `rowOutcome` in cluster/node/service.ts that a store gives; a test holds them equal.
 */
export const storeOutcome = {
  written: 0,
  unknownReference: 1,
  tooFarPast: 2,
  tooFarFuture: 3,
  resourceExhausted: 6,
  superseded: 8,
  badValue: 10,
} as const;

/** Adds up what parts of a store hold of blocks. */
export class BlockSums {
  readonly #sums = new Map<bigint, StoredBlock>();

  add(block: StoredBlock): void {
    const { blockStartNanos } = block;
    const sum = this.#sums.get(blockStartNanos);
    this.#sums.set(blockStartNanos, {
      blockStartNanos,
      seriesCount: block.seriesCount + (sum?.seriesCount ?? 0),
      rowCount: block.rowCount + (sum?.rowCount ?? 0),
      bytes: block.bytes + (sum?.bytes ?? 0),
    });
  }

  /** By their starts. */
  ascending(): StoredBlock[] {
    return [...this.#sums.values()].sort((a, b) =>
      a.blockStartNanos < b.blockStartNanos ? -1 : 1,
    );
  }
}

/** Columns of slots, one after the other. */
export function joinSlots(parts: readonly Uint32Array[]): Uint32Array {
  const slots = new Uint32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of parts) {
    slots.set(part, offset);
    offset += part.length;
  }
  return slots;
}

/** What steps come to, taken at once. */
export function resultOf<Result>(steps: Generator<void, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

export const namespaceCountMax = 1024;

/**
 * What goes into a store: columns of rows, and the rules of the namespace that they are written to.
 */

export interface StoreNamespace {
  readonly blockSizeNanos: bigint;
  readonly bufferPastNanos: bigint;
  readonly bufferFutureNanos: bigint;
  readonly retentionNanos: bigint;
  /** Takes rows older than the buffer too, as far back as the retention goes. */
  readonly coldWrites: boolean;
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
}

/**
 * Series' chunks: those of the i-th slot asked for are chunkData[chunkOffset[i] .. chunkOffset[i +
 * 1]).
 */
export interface StoredChunks {
  readonly chunkData: Uint8Array;
  readonly chunkOffset: Uint32Array;
}

/** What a block holds in memory. */
export interface StoredBlock {
  readonly blockStartNanos: bigint;
  readonly seriesCount: number;
  /** Rows with one timestamp count each until they are merged. */
  readonly rowCount: number;
  /**
   * Memory that dropping the block gives back, nearly: without what is unused behind chunks and
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
} as const;

/** Columns of slots, one behind the other. */
export function joinSlots(parts: readonly Uint32Array[]): Uint32Array {
  const slots = new Uint32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of parts) {
    slots.set(part, offset);
    offset += part.length;
  }
  return slots;
}

/** Start of the block that holds the time: rounded down, before 1970 too. */
export function blockStartOf(nanos: bigint, blockSizeNanos: bigint): bigint {
  const rest = nanos % blockSizeNanos;
  return nanos - (rest < 0n ? rest + blockSizeNanos : rest);
}

export const namespaceCountMax = 1024;

/** Times that a store takes lie between minus this and this: the years 1823 to 2116. */
export const storeNanosMax: bigint = 2n ** 62n;

/** Times that a namespace takes at a moment: [fromNanos, endNanos). */
export function writeWindow(
  namespace: Pick<
    StoreNamespace,
    'bufferPastNanos' | 'bufferFutureNanos' | 'retentionNanos' | 'coldWrites'
  >,
  nowNanos: bigint,
): { fromNanos: bigint; endNanos: bigint } {
  const { bufferPastNanos, bufferFutureNanos, retentionNanos, coldWrites } = namespace;
  const pastNanos =
    coldWrites && retentionNanos > bufferPastNanos ? retentionNanos : bufferPastNanos;
  const fromNanos = nowNanos - pastNanos;
  const endNanos = nowNanos + bufferFutureNanos;
  return {
    fromNanos: fromNanos > -storeNanosMax ? fromNanos : 1n - storeNanosMax,
    endNanos: endNanos < storeNanosMax ? endNanos : storeNanosMax,
  };
}

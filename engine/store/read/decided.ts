/**
 * Chunks of a series that has floats and typed rows, as chunks of both: of a time that has two rows the one that wins is
 * left (docs/TYPED_ROWS.md, Order).
 */
import {
  type ChunkHeader,
  chunkKind,
  encodeRawChunk,
  parseChunkHeader,
} from '../../codec/chunk.ts';
import { kindsFloat } from '../../codec/layout.ts';
import { TypedColumnsReader } from '../../typed/columns.ts';
import { cutRows, decodeChunk, readFloats } from '../chunk_merge.ts';
import { cutTyped } from '../typed_chunks.ts';
import type { RowCut } from '../workshop.ts';
import { floatStays } from './mixed_rows.ts';

interface FloatChunk {
  readonly bytes: Uint8Array;
  readonly header: ChunkHeader;
  /** Of rows that a typed one beats. */
  readonly cuts: RowCut[];
}

/** Whatever their versions: who makes a cut has compared them. */
const version = Number.MAX_SAFE_INTEGER;
const reader = new TypedColumnsReader();
const noFields: ReadonlyMap<number, 'all'> = new Map();

/** The floats of a series, which its typed chunks are held against one by one. */
export class FloatsBeside {
  readonly #chunks: readonly FloatChunk[];

  /** @throws {TsdbError} BAD_REQUEST when a chunk is malformed */
  constructor(chunks: readonly Uint8Array[]) {
    this.#chunks = chunks.map((bytes) => {
      return { bytes, header: parseChunkHeader(bytes, 0, bytes.length, kindsFloat), cuts: [] };
    });
  }

  /**
   * @param chunk of typed rows; it overlaps none that was given before
   * @returns the rows that no float beats: the very bytes when these are all, nothing when there is none
   * @throws {TsdbError} as `readMixedRows`
   */
  stayingOf(chunk: Uint8Array): Uint8Array {
    if (this.#chunks.length === 0) return chunk;
    const { timestampNanos, lags, groups } = reader.read(chunk, noFields);
    const [first, last] = [timestampNanos[0]!, timestampNanos.at(-1)!];
    const near = this.#chunks.filter(
      ({ header }) => header.firstNanos <= last && header.lastNanos >= first,
    );
    if (near.length === 0) return chunk;
    const kinds = new Uint8Array(timestampNanos.length);
    for (const { kind, rows } of groups) for (const row of rows) kinds[row] = kind;
    const floats = readFloats(
      near.map(({ bytes }) => bytes),
      [first, last + 1n],
    );
    const typedCuts: RowCut[] = [];
    const floatCuts: RowCut[] = [];
    // What goes one after the other is one cut.
    let typedBegin: bigint | null = null;
    let floatBegin: bigint | null = null;
    const end = (cuts: RowCut[], startNanos: bigint | null, endNanos: bigint): null => {
      if (startNanos !== null) cuts.push({ startNanos, endNanos, version });
      return null;
    };
    let float = 0;
    for (const [row, nanos] of timestampNanos.entries()) {
      for (
        ;
        float < floats.timestampNanos.length && floats.timestampNanos[float]! < nanos;
        float++
      ) {
        floatBegin = end(floatCuts, floatBegin, floats.timestampNanos[float]!);
      }
      const isBoth = floats.timestampNanos[float] === nanos;
      const stays = isBoth && floatStays(floats.lags[float]!, lags[row]!, kinds[row]!);
      if (stays) typedBegin ??= nanos;
      else typedBegin = end(typedCuts, typedBegin, nanos);
      if (!isBoth) continue;
      if (stays) floatBegin = end(floatCuts, floatBegin, nanos);
      else floatBegin ??= nanos;
      float++;
    }
    end(typedCuts, typedBegin, last + 1n);
    end(floatCuts, floatBegin, last + 1n);
    for (const { cuts } of near) cuts.push(...floatCuts);
    return typedCuts.length === 0 ? chunk : cutTyped(chunk, typedCuts);
  }

  /**
   * Chunks of the floats that no row of the chunks given so far beats, one by one.
   * @throws {TsdbError} as `readMixedRows`
   */
  *staying(): Generator<Uint8Array> {
    for (const { bytes, header, cuts } of this.#chunks) {
      const own = cuts.filter(
        ({ startNanos, endNanos }) =>
          startNanos <= header.lastNanos && endNanos > header.firstNanos,
      );
      const kept = own.length === 0 ? bytes : withoutRows(bytes, header, own);
      if (kept.length > 0) yield kept;
    }
  }
}

function withoutRows(
  bytes: Uint8Array,
  { kind }: ChunkHeader,
  cuts: readonly RowCut[],
): Uint8Array {
  if (kind >= chunkKind.floatLags) return cutRows(bytes, cuts);
  const rows = decodeChunk(bytes);
  const places: number[] = [];
  let next = 0;
  for (const [row, nanos] of rows.timestampNanos.entries()) {
    while (next < cuts.length && cuts[next]!.endNanos <= nanos) next++;
    if (next === cuts.length || nanos < cuts[next]!.startNanos) places.push(row);
  }
  if (places.length === 0) return bytes.subarray(0, 0);
  // By bits: what is a stale marker stays one.
  const bits = new BigUint64Array(rows.values.buffer, rows.values.byteOffset, rows.values.length);
  return encodeRawChunk({
    timestampNanos: BigInt64Array.from(places, (row) => rows.timestampNanos[row]!),
    values: new Float64Array(BigUint64Array.from(places, (row) => bits[row]!).buffer),
    version: rows.version,
  });
}

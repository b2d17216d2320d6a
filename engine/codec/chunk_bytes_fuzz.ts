/**
 * Chunks that are damaged where a reader decides: the numbers of the header, the first bytes of the
 * payload with the modes of its streams, and the ends of all. The kernel must give the rows that
 * the twin gives, or refuse as it does.
 */
import assert from 'node:assert/strict';
import { count, countInputs } from '#test/sim/counts.ts';
import {
  changeFixed,
  damaged,
  type Pick,
  pickOf,
  replaced,
  varintAt,
  varintOf,
  withVarintChanged,
} from '#test/sim/mutate.ts';
import { type ChunkRows, chunkHeaders, encodeRawChunk, kindsFloat } from './chunk.ts';
import { encodeRowsChunk } from './chunk_rows.ts';
import { codecSample } from './samples_testing.ts';
import { encodeFloatChunk, encodeFloatLagsChunk, encodeFloatStartsChunk } from './codec_twin.ts';
import { Decoder } from '../store/decoder.ts';
import { mergeChunks } from './decoder_twin.ts';
import { emptyBundle } from './series_bundle.ts';

/** Longer answers are read by the kernel alone: the twin would take long. */
const twinRowsMax = 3000;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const refused = 'refused';

function refusedOr<Answer>(read: () => Answer): Answer | typeof refused {
  try {
    return read();
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    return refused;
  }
}

/** Where the numbers of the header are, and the payload. */
function placesOf(chunk: Uint8Array): { varints: number[]; tag: number; payload: number } | null {
  const length = varintAt(chunk, 0);
  if (length === null) return null;
  const varints = [0];
  let at = length.end + 1;
  for (let field = 0; field < 4; field += 1) {
    const value = varintAt(chunk, at);
    if (value === null) return null;
    varints.push(at);
    at = value.end;
  }
  return { varints, tag: length.end, payload: at };
}

/** The length in front made right for the bytes that follow. */
function withLength(chunk: Uint8Array): Uint8Array {
  const length = varintAt(chunk, 0);
  if (length === null) return chunk;
  return replaced(chunk, 0, length.end, varintOf(BigInt(chunk.length - length.end)));
}

function changed(pick: Pick, chunk: Uint8Array): Uint8Array {
  const places = placesOf(chunk);
  if (places === null || pick(8) === 0) return damaged(pick, chunk);
  const { varints, tag, payload } = places;
  let bytes: Uint8Array = chunk.slice();
  switch (pick(6)) {
    case 0:
      return withVarintChanged(pick, bytes, varints[pick(varints.length)]!);
    case 1:
      changeFixed(pick, bytes, tag, 1);
      return bytes;
    case 2:
      bytes = withVarintChanged(pick, bytes, varints[1 + pick(varints.length - 1)]!);
      return withLength(bytes);
    case 3:
      // Modes and parameters of the streams stand at the begin of the payload.
      changeFixed(pick, bytes, payload + pick(12), ([1, 1, 2, 4] as const)[pick(4)]!);
      return bytes;
    case 4: {
      const at = payload + pick(Math.max(1, bytes.length - payload));
      const end = Math.min(bytes.length, at + pick(9));
      const part = Uint8Array.from({ length: pick(9) }, () => pick(256));
      return withLength(replaced(bytes, at, end, part));
    }
    default:
      return withLength(bytes.slice(0, payload + pick(Math.max(1, bytes.length - payload))));
  }
}

function rowCountOf(chunks: Uint8Array): number {
  let rows = 0;
  try {
    for (const { rowCount } of chunkHeaders(chunks, 0, chunks.length, kindsFloat)) rows += rowCount;
  } catch {
    return rows;
  }
  return rows;
}

/** In any of the kinds. */
function encoded(pick: Pick, rows: ChunkRows): Uint8Array {
  const kind = pick(9);
  if (kind === 0) return encodeRawChunk(rows);
  if (kind < 3) return encodeFloatChunk(rows);
  const rowVersions = rows.values.map(() => Math.max(0, rows.version - pick(2 ** 21)));
  if (kind < 5) return encodeRowsChunk({ ...rows, rowVersions });
  if (kind < 7) return encodeFloatLagsChunk({ ...rows, rowVersions });
  const startNanos = rows.timestampNanos.map((nanos) => nanos - BigInt(pick(4)) * 1_000_000n);
  return encodeFloatStartsChunk({ ...rows, rowVersions, startNanos });
}

const inputsOfChunk = 60;

/** @param size number of series, each of one chunk or two, of which each is damaged in 60 ways */
export function fuzz(seed: number, size: number): void {
  const { stackTraceLimit } = Error;
  // Most inputs are refused by an error that nobody looks at.
  Error.stackTraceLimit = 0;
  try {
    fuzzChunks(seed, size);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function fuzzChunks(seed: number, size: number): void {
  const pick = pickOf(seed);
  using decoder = new Decoder();
  for (let series = 0; series < size; series += 1) {
    const { rows, name } = codecSample(pick(2 ** 31), 1 + pick(pick(10) === 0 ? 300 : 24));
    const chunk = encoded(pick, rows);
    const other = encoded(pick, codecSample(pick(2 ** 31), 1 + pick(12)).rows);
    for (let input = 0; input < inputsOfChunk; input += 1) {
      const bad = changed(pick, chunk);
      const chunks = pick(4) === 0 ? replaced(bad, bad.length, bad.length, other) : bad;
      const label = `${name}, seed ${seed}, series ${series}, input ${input}`;
      check(decoder, chunks, label);
    }
    countInputs('codec', inputsOfChunk);
  }
}

function check(decoder: Decoder, chunks: Uint8Array, label: string): void {
  const chunkOffset = Uint32Array.of(0, chunks.length);
  const bundle = { ...emptyBundle, chunkData: chunks, chunkOffset };
  const rowCount = refusedOr(() => decoder.decode(bundle, 0, ...allTimes));
  if (rowCount === refused) count('refused: codec');
  if (rowCountOf(chunks) > twinRowsMax) return;
  const wanted = refusedOr(() => mergeChunks(chunks, ...allTimes));
  if (rowCount === refused || wanted === refused) {
    assert.equal(rowCount === refused, wanted === refused, `one refuses: ${label}`);
    return;
  }
  const { timestampNanos, values } = wanted;
  assert.equal(rowCount, timestampNanos.length, label);
  const times = Buffer.from(decoder.timestampNanos.slice(0, rowCount).buffer);
  assert.ok(times.equals(Buffer.from(timestampNanos.buffer)), `times of ${label}`);
  const words = Buffer.from(decoder.valueWords.slice(0, 2 * rowCount).buffer);
  assert.ok(words.equals(Buffer.from(values.buffer)), `values of ${label}`);
}

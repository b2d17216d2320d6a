/**
 * Holds the codec's kernel equal to its twin: the same bytes for the same rows, the same rows or
 * the same refusal for the same bytes, however damaged.
 */
import assert from 'node:assert/strict';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { countInputs } from '#test/sim/counts.ts';
import { encodeRawChunk, kindsFloat, parseChunkHeader, type ChunkRows } from './chunk.ts';
import { encodeRowsChunk } from './chunk_rows.ts';
import { codecSample, randomRows, SeededNumbers } from './samples_testing.ts';
import { encodeFloatChunk, encodeFloatLagsChunk, encodeFloatStartsChunk } from './codec_twin.ts';
import { Decoder } from '../store/decoder.ts';
import { mergeChunks } from './decoder_twin.ts';
import { emptyBundle } from './series_bundle.ts';
import { Store } from '../store/store.ts';

/** Longer chunks are decoded by the kernel alone: the twin would take long. */
const twinRowsMax = 3000;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

/** Encodes with the kernel: a store merges a block that it was given. */
class KernelEncoder {
  readonly #store: Store;

  constructor() {
    const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
    this.#store = new Store({ random, memoryBytesMax: 64 << 20 });
    this.#store.setNamespace(0, {
      blockSizeNanos: 2n ** 62n - 1n,
      bufferPastNanos: 0n,
      bufferFutureNanos: 0n,
      retentionNanos: 2n ** 62n,
      coldWrites: true,
    });
  }

  /** @param keepsRowVersions as kind float lags, else as kind float */
  encode(chunk: Uint8Array, keepsRowVersions: boolean): Uint8Array {
    this.#store.keepRowVersions(keepsRowVersions);
    const slot = this.#store.createSeries(0);
    this.#store.insertChunks(slot, chunk);
    const [blockStart] = this.#store.blockStarts(slot);
    const { chunkData } = this.#store.readBlock(Uint32Array.of(slot), blockStart!);
    this.#store.releaseSeries(slot);
    return chunkData;
  }

  /** Whether a series takes the chunks, which it then gives back. */
  takes(chunks: Uint8Array): boolean {
    const slot = this.#store.createSeries(0);
    const outcome = refusedOr(() => {
      this.#store.insertChunks(slot, chunks);
      return this.#store.blockStarts(slot);
    });
    this.#store.releaseSeries(slot);
    return outcome !== 'refused';
  }
}

type Decoded = { nanos: BigInt64Array; words: Uint32Array; millis: Float64Array } | 'refused';

function decodeWithKernel(decoder: Decoder, chunks: Uint8Array): Decoded {
  const bundle = {
    ...emptyBundle,
    chunkData: chunks,
    chunkOffset: Uint32Array.of(0, chunks.length),
  };
  return refusedOr(() => {
    const rows = decoder.decode(bundle, 0, ...allTimes);
    return {
      nanos: decoder.timestampNanos.slice(0, rows),
      words: decoder.valueWords.slice(0, 2 * rows),
      millis: decoder.timestampMillis.slice(0, rows),
    };
  });
}

function decodeWithTwin(chunks: Uint8Array): Decoded {
  return refusedOr(() => {
    const { timestampNanos, values } = mergeChunks(chunks, ...allTimes);
    const millis = Float64Array.from(timestampNanos, (nanos) => {
      const rest = ((nanos % 1_000_000n) + 1_000_000n) % 1_000_000n;
      return Number((nanos - rest) / 1_000_000n);
    });
    return { nanos: timestampNanos, words: new Uint32Array(values.buffer), millis };
  });
}

function refusedOr<Answer>(decode: () => Answer): Answer | 'refused' {
  try {
    return decode();
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    return 'refused';
  }
}

function assertSame(kernel: Decoded, twin: Decoded, name: string): void {
  if (kernel === 'refused' || twin === 'refused') {
    assert.equal(kernel === 'refused', twin === 'refused', `one refuses: ${name}`);
    return;
  }
  for (const column of ['nanos', 'words', 'millis'] as const) {
    // Comparing bytes first makes millions of inputs possible.
    if (bytesOf(kernel[column]).equals(bytesOf(twin[column]))) continue;
    assert.deepEqual([...kernel[column]], [...twin[column]], `${column} of ${name}`);
    assert.fail(`${column} of ${name}`);
  }
}

function bytesOf(column: Float64Array | BigInt64Array | Uint32Array): Buffer {
  return Buffer.from(column.buffer, column.byteOffset, column.byteLength);
}

function rowCountsOf(chunks: Uint8Array): number {
  let rows = 0;
  try {
    for (let offset = 0; offset < chunks.length; ) {
      const header = parseChunkHeader(chunks, offset, chunks.length, kindsFloat);
      rows += header.rowCount;
      offset = header.end;
    }
  } catch {
    return rows;
  }
  return rows;
}

/** A copy with some bits or bytes changed, cut, or said twice. */
function damaged(bytes: Uint8Array, numbers: SeededNumbers): Uint8Array {
  let copy = bytes.slice();
  for (let count = 1 + numbers.below(3); count > 0; count--) {
    const at = numbers.below(copy.length);
    const kind = numbers.below(8);
    if (kind < 4) copy[at]! ^= 1 << numbers.below(8);
    else if (kind < 6) copy[at] = numbers.u32();
    else if (kind < 7) copy = copy.slice(0, at + 1);
    else copy = new Uint8Array([...copy.subarray(0, at), ...copy.subarray(at >> 1)]);
  }
  return copy;
}

/** Row versions that follow each other closely, or not, or the rows' times. */
function withVersions(rows: ChunkRows, numbers: SeededNumbers): Required<ChunkRows> {
  const spread = [1, 1000, 2 ** 20, 2 ** 30][numbers.below(4)]!;
  const { version } = rows;
  const isByTime = numbers.below(2) === 0 && rows.timestampNanos[0]! >= 0n;
  const changeOf = 1 << numbers.below(8);
  const rowVersions = rows.values.map((_, row) => {
    const later = numbers.below(changeOf) === 0 ? numbers.below(spread) : 0;
    if (isByTime) return Number(versionAtNanos(rows.timestampNanos[row]!)) + later;
    return Math.max(0, version - numbers.below(spread));
  });
  return { ...rows, version: rowVersions.reduce((a, b) => Math.max(a, b)), rowVersions };
}

/** Starts that change now and then, with each row, or seldom are there; one at least is. */
function startsFor({ timestampNanos }: ChunkRows, numbers: SeededNumbers): BigInt64Array {
  const kind = numbers.below(4);
  const [first] = timestampNanos;
  let start = BigInt.asIntN(64, first! - BigInt(numbers.below(1_000_000)) * 1_000_003n) || 1n;
  const starts = timestampNanos.map((nanos, row) => {
    if (kind === 0) return BigInt.asIntN(64, BigInt(numbers.u32()) << BigInt(numbers.below(40)));
    if (kind === 1) return timestampNanos[row - 1] ?? start;
    if (kind === 2 && numbers.below(5) > 0) return 0n;
    if (numbers.below(20) === 0) start = nanos;
    return start;
  });
  if (starts.every((each) => each === 0n)) starts[0] = 1n;
  return starts;
}

/** Rows in one block of the encoder's store: not before 1970. */
function inOneBlock(rows: ChunkRows): ChunkRows {
  const times = Array.from(rows.timestampNanos, (nanos) => (nanos < 0n ? ~nanos : nanos) >> 2n);
  const unique = BigInt64Array.from(new Set(times)).sort();
  return { ...rows, timestampNanos: unique, values: rows.values.slice(0, unique.length) };
}

/** Mutations of each chunk, and how many inputs each round has in all. */
const mutationCount = 30;
export const inputsOfRound: number = mutationCount + 5;

/** @param size how many rounds of `inputsOfRound` inputs; each takes about a millisecond */
export function fuzz(seed: number, size: number): void {
  const { stackTraceLimit } = Error;
  // Most inputs are refused by an error that nobody looks at.
  Error.stackTraceLimit = 0;
  try {
    fuzzRounds(seed, size);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function fuzzRounds(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  const encoder = new KernelEncoder();
  const decoder = new Decoder();
  countInputs('codec', inputsOfRound * size);
  for (let round = 0; round < size; round++) {
    const isLong = numbers.below(32) === 0;
    const rowCount = 1 + numbers.below(isLong ? 700 : 40);
    const { name, rows } =
      numbers.below(3) === 0
        ? { name: 'random bits', rows: inOneBlock(randomRows(numbers.u32(), rowCount)) }
        : codecSample(numbers.u32(), rowCount);
    const label = `${name}, seed ${seed}, round ${round}`;
    const chunk = encodeFloatChunk(rows);
    const encoded = encoder.encode(encodeRawChunk(rows), false);
    if (!bytesAreEqual(encoded, chunk)) assert.deepEqual(encoded, chunk, `bytes of ${label}`);
    assertSame(decodeWithKernel(decoder, chunk), decodeWithTwin(chunk), label);
    const versioned = withVersions(rows, numbers);
    const withLags = encodeFloatLagsChunk(versioned);
    const encodedLags = encoder.encode(withLags, true);
    if (!bytesAreEqual(encodedLags, withLags)) {
      assert.deepEqual(encodedLags, withLags, `bytes with lags of ${label}`);
    }
    assertSame(decodeWithKernel(decoder, withLags), decodeWithTwin(withLags), `lags of ${label}`);
    const withStarts = encodeFloatStartsChunk({
      ...versioned,
      startNanos: startsFor(rows, numbers),
    });
    const encodedStarts = encoder.encode(withStarts, true);
    if (!bytesAreEqual(encodedStarts, withStarts)) {
      assert.deepEqual(encodedStarts, withStarts, `bytes with starts of ${label}`);
    }
    assertSame(decodeWithKernel(decoder, withStarts), decodeWithTwin(withStarts), label);
    const inRows = encodeRowsChunk(versioned);
    assertSame(decodeWithKernel(decoder, inRows), decodeWithTwin(inRows), `rows of ${label}`);
    const others = [
      encodeRawChunk(rows),
      inRows,
      inRows,
      withLags,
      withLags,
      withStarts,
      withStarts,
    ];
    const bytes = others[numbers.below(10)] ?? chunk;
    for (let count = 0; count < mutationCount; count++) {
      const bad = damaged(bytes, numbers);
      const kernel = decodeWithKernel(decoder, bad);
      if (rowCountsOf(bad) <= twinRowsMax) assertSame(kernel, decodeWithTwin(bad), label);
      if (count % 4 === 0 && encoder.takes(bad)) {
        assert.notEqual(kernel, 'refused', `a store takes what is malformed: ${label}`);
      }
    }
    const noise = Uint8Array.from({ length: numbers.below(60) }, () => numbers.u32());
    assertSame(decodeWithKernel(decoder, noise), decodeWithTwin(noise), label);
  }
}

function bytesAreEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

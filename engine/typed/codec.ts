/** Chunks of typed rows, by the kernel (docs/formats/typed.md). */
import { assert } from '#lib/assert.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { badRequest } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { codecTables, codecTablesBytes } from '../codec/books.ts';
import { typedBytesMax, typedColumnValuesMax, typedRowsMax } from '../codec/layout.ts';
import type { TypedExports } from './typed_exports.ts';

/** Typed rows of one series in strictly ascending time, as columns. */
export interface TypedRows {
  readonly timestampNanos: BigInt64Array;
  /** Canonical typed values, one after the other: those of a chunk have at most `typedBytesMax` bytes. */
  readonly valueBytes: Uint8Array;
  /** Where each value ends in them. */
  readonly valueEnds: Uint32Array;
  readonly rowVersions: Float64Array;
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
}

const pageBytes = 65_536;
const memoryPagesMax = 1_024;
/** Room after each region for loads and stores beyond its end. */
const slackBytes = 256;
const typedModule = compileWasmFile(new URL('../build/typed.wasm', import.meta.url));

/** A kernel's memory for one chunk at a time. */
export class TypedMemory {
  readonly #memory = new WebAssembly.Memory({ initial: 16, maximum: memoryPagesMax });
  readonly kernel: TypedExports;
  readonly tables: number;
  readonly scratch: number;
  readonly chunk: number;
  /** What one call uses lies above. */
  readonly #base: number;
  #top = pageBytes;

  constructor() {
    const { exports } = new WebAssembly.Instance(typedModule, { env: { memory: this.#memory } });
    this.kernel = exports as unknown as TypedExports;
    this.tables = this.room(codecTablesBytes);
    new Uint8Array(this.buffer).set(codecTables(), this.tables);
    this.scratch = this.room(this.kernel.scratchBytes());
    this.chunk = this.room(this.kernel.chunkStructBytes.value);
    this.#base = this.#top;
  }

  get buffer(): ArrayBuffer {
    return this.#memory.buffer;
  }

  /** Everything is free again. */
  reset(): this {
    this.#top = this.#base;
    return this;
  }

  /** Address of so many bytes. */
  room(bytes: number): number {
    const at = Math.ceil(this.#top / 64) * 64;
    this.#top = at + bytes + slackBytes;
    const missing = this.#top - this.buffer.byteLength;
    if (missing > 0) this.#memory.grow(Math.ceil(missing / pageBytes));
    return at;
  }

  put(column: BigInt64Array | Uint32Array | Uint8Array): number {
    const at = this.room(column.byteLength);
    const bytes = new Uint8Array(column.buffer, column.byteOffset, column.byteLength);
    new Uint8Array(this.buffer).set(bytes, at);
    return at;
  }
}

/** Made at the first call. */
let shared: TypedMemory | null = null;

function memory(): TypedMemory {
  return (shared ??= new TypedMemory()).reset();
}

/** @param rows 1 to `typedRowsMax` rows that have at most `typedColumnValuesMax` fields */
export function encodeTypedRows(rows: TypedRows): Uint8Array<ArrayBuffer> {
  const { timestampNanos, valueBytes, valueEnds, rowVersions, startNanos } = rows;
  const rowCount = timestampNanos.length;
  assert(rowCount >= 1 && rowCount <= typedRowsMax, 'a typed chunk has 1 to 4096 rows');
  assert(valueBytes.length <= typedBytesMax, 'typed values of a chunk have 1 MiB at most');
  const lags = BigInt64Array.from(
    rowVersions,
    (version, row) => BigInt(version) - versionAtNanos(timestampNanos[row]!),
  );
  const m = memory();
  const valuesMax = Math.min(typedColumnValuesMax, valueBytes.length);
  const args = [
    m.scratch,
    m.tables,
    m.put(timestampNanos),
    m.put(lags),
    startNanos === null ? 0 : m.put(startNanos),
    m.put(valueEnds),
    m.put(valueBytes),
    rowCount,
    valuesMax,
    m.room(m.kernel.encodeBytes(rowCount, valuesMax)),
  ] as const;
  const out = m.room(m.kernel.roomBytes(rowCount, valuesMax, valueBytes.length));
  const end = m.kernel.encode(...args, out);
  assert(end !== 0, 'typed values of a chunk have 32768 fields at most');
  return new Uint8Array(m.buffer, out, end - out).slice();
}

/**
 * Rows of a chunk; fresh columns.
 * @throws {TsdbError} BAD_REQUEST when it is malformed
 */
export function decodeTypedRows(chunk: Uint8Array): TypedRows {
  const m = memory();
  const at = m.put(chunk);
  const [times, lags, starts] = [0, 1, 2].map(() => m.room(8 * typedRowsMax)) as [
    number,
    number,
    number,
  ];
  const ends = m.room(4 * typedRowsMax);
  const bytes = m.room(typedBytesMax);
  const work = m.room(m.kernel.decodeBytes());
  const answers = m.room(8);
  const rowCount = m.kernel.decode(
    m.chunk,
    m.tables,
    at,
    at + chunk.length,
    times,
    lags,
    starts,
    ends,
    bytes,
    work,
    answers,
  );
  if (rowCount === -1) throw badRequest('cannot read typed rows: their chunk is malformed');
  const [byteCount, hasStarts] = new Uint32Array(m.buffer, answers, 2);
  const timestampNanos = new BigInt64Array(m.buffer, times, rowCount).slice();
  const lag = new BigInt64Array(m.buffer, lags, rowCount);
  return {
    timestampNanos,
    valueBytes: new Uint8Array(m.buffer, bytes, byteCount).slice(),
    valueEnds: new Uint32Array(m.buffer, ends, rowCount).slice(),
    rowVersions: Float64Array.from(timestampNanos, (nanos, row) =>
      Number(versionAtNanos(nanos) + lag[row]!),
    ),
    startNanos: hasStarts === 0 ? null : new BigInt64Array(m.buffer, starts, rowCount).slice(),
  };
}

/** Rows of a series to windows, and these to typed chunks, by the kernel (docs/AGGREGATION.md). */
import { assert } from '#lib/assert.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { codecTables, codecTablesBytes } from '../codec/books.ts';
import type { AggregationExports } from './aggregation_exports.ts';

const pageBytes = 65_536;
const memoryPagesMax = 1_024;
/** Room after each region for loads and stores beyond its end. */
const slackBytes = 256;
/** Rows that are taken at once: more are taken in pieces. */
const rowsAtOnce = 4_096;
/** Windows of a chunk: of so many fields a reader takes half as many again. */
const chunkWindowsMax = 2_048;
/** Windows of one series. */
export const foldWindowsMax = 65_536;

const aggregationModule = compileWasmFile(new URL('../build/aggregation.wasm', import.meta.url));

/** One series at a time: `begin`, `add` as often as there are rows, `end`, `chunks`. */
export class WindowFold {
  readonly #memory = new WebAssembly.Memory({ initial: 16, maximum: memoryPagesMax });
  readonly #kernel: AggregationExports;
  readonly #tables: number;
  readonly #scratch: number;
  readonly #fold: number;
  readonly #times: number;
  readonly #values: number;
  readonly #lags: number;
  readonly #base: number;
  #top = pageBytes;
  #columns = 0;
  #capacity = 0;
  #count = 0;

  constructor() {
    const env = { memory: this.#memory };
    const { exports } = new WebAssembly.Instance(aggregationModule, { env });
    this.#kernel = exports as unknown as AggregationExports;
    this.#tables = this.#room(codecTablesBytes);
    new Uint8Array(this.#buffer).set(codecTables(), this.#tables);
    this.#scratch = this.#room(this.#kernel.scratchBytes());
    this.#fold = this.#room(this.#kernel.foldBytes());
    this.#times = this.#room(8 * rowsAtOnce);
    this.#values = this.#room(8 * rowsAtOnce);
    this.#lags = this.#room(8 * rowsAtOnce);
    this.#base = this.#top;
  }

  /**
   * @param windowsMax that rows of the series may come to: `foldWindowsMax` at most
   */
  begin(resolutionNanos: bigint, windowsMax: number): this {
    assert(resolutionNanos > 0n, 'windows have a resolution');
    assert(windowsMax <= foldWindowsMax, 'windows of a series fit');
    if (windowsMax > this.#capacity) {
      this.#top = this.#base;
      this.#columns = this.#room(this.#kernel.columnsBytes(windowsMax));
      this.#capacity = windowsMax;
    }
    this.#kernel.beginFold(this.#fold, resolutionNanos, this.#columns, this.#capacity);
    this.#count = 0;
    return this;
  }

  /**
   * Takes rows that come after those before.
   * @param timestampNanos in strictly ascending order
   * @param values by their bits: a stale marker is one
   * @param lags by how much their versions are later than those of their times; null when they are not
   */
  add(
    timestampNanos: BigInt64Array,
    values: Float64Array,
    lags: BigInt64Array | null = null,
  ): this {
    const [times, bits] = [bytesOf(timestampNanos), bytesOf(values)];
    const late = lags === null ? null : bytesOf(lags);
    for (let at = 0; at < times.length; at += 8 * rowsAtOnce) {
      const end = Math.min(times.length, at + 8 * rowsAtOnce);
      const memory = new Uint8Array(this.#buffer);
      memory.set(times.subarray(at, end), this.#times);
      memory.set(bits.subarray(at, end), this.#values);
      if (late !== null) memory.set(late.subarray(at, end), this.#lags);
      const lagsAt = late === null ? 0 : this.#lags;
      this.#kernel.foldRows(this.#fold, this.#times, this.#values, lagsAt, (end - at) / 8);
    }
    return this;
  }

  /** @returns how many windows there are */
  end(): number {
    this.#count = this.#kernel.endFold(this.#fold);
    return this.#count;
  }

  /** Ends of the windows, in Unix nanoseconds: a view until the next call. */
  get endNanos(): BigInt64Array {
    return new BigInt64Array(this.#buffer, this.#columns, this.#count);
  }

  /**
   * The windows as typed chunks, each behind its length as in a volume: a copy.
   * @param deletions of each window, the version of the last deletion that its rows were without, 0 for none; null when all
   *   were whole
   */
  chunks(deletions: Float64Array | null = null): Uint8Array<ArrayBuffer> {
    const parts: Uint8Array[] = [];
    const base = this.#top;
    const deletionsAt = deletions === null ? 0 : this.#room(8 * this.#count);
    if (deletions !== null) {
      assert(deletions.length === this.#count, 'each window has a version of deletions');
      new Uint8Array(this.#buffer).set(bytesOf(deletions), deletionsAt);
    }
    for (let first = 0; first < this.#count; first += chunkWindowsMax) {
      const count = Math.min(chunkWindowsMax, this.#count - first);
      const top = this.#top;
      const work = this.#room(this.#kernel.encodeBytes(count));
      const out = this.#room(this.#kernel.chunkBytes(count));
      const end = this.#kernel.encodeWindows(
        this.#fold,
        first,
        count,
        deletionsAt,
        this.#scratch,
        this.#tables,
        work,
        out,
      );
      assert(end !== 0, 'windows of a chunk have no more fields than it may have');
      parts.push(new Uint8Array(this.#buffer, out, end - out).slice());
      this.#top = top;
    }
    this.#top = base;
    return parts.length === 1 ? (parts[0] as Uint8Array<ArrayBuffer>) : joined(parts);
  }

  /**
   * Rows as a chunk of floats, behind its length: a copy. For columns of windows that are read as samples.
   * @param timestampNanos in strictly ascending order, one at least
   */
  floats(timestampNanos: BigInt64Array, values: Float64Array): Uint8Array<ArrayBuffer> {
    const parts: Uint8Array[] = [];
    const top = this.#top;
    for (let first = 0; first < timestampNanos.length; first += rowsAtOnce) {
      const rows = Math.min(rowsAtOnce, timestampNanos.length - first);
      const out = this.#room(this.#kernel.rawBytes(rows));
      const memory = new Uint8Array(this.#buffer);
      memory.set(bytesOf(timestampNanos.subarray(first, first + rows)), this.#times);
      memory.set(bytesOf(values.subarray(first, first + rows)), this.#values);
      const end = this.#kernel.encodeFloats(this.#times, this.#values, this.#lags, rows, out);
      parts.push(new Uint8Array(this.#buffer, out, end - out).slice());
      this.#top = top;
    }
    return parts.length === 1 ? (parts[0] as Uint8Array<ArrayBuffer>) : joined(parts);
  }

  get #buffer(): ArrayBuffer {
    return this.#memory.buffer;
  }

  /** Address of so many bytes. */
  #room(bytes: number): number {
    const at = Math.ceil(this.#top / 64) * 64;
    this.#top = at + bytes + slackBytes;
    const missing = this.#top - this.#buffer.byteLength;
    if (missing > 0) this.#memory.grow(Math.ceil(missing / pageBytes));
    return at;
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float64Array | BigInt64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

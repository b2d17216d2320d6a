/**
 * Rows as a compact batch without a dictionary, for the commit log: straight from the columns they
 * came in, by the kernel of engine/batch/kernel/batch.kernel.ts.
 */
import { assert } from '#lib/assert.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { batchFlag, batchRowsMax, exponentOfTimeUnit, type TimeUnitNanos } from './format.ts';
import type { BatchExports } from './batch_exports.ts';

/** Columns, each `rowCount` long or longer. */
export interface BatchRows {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
  readonly values: Float64Array;
}

/** Columns of 2^20 rows, and the batch that they become; untouched pages cost nothing. */
const pages = 800;

let compiled: WebAssembly.Module | null = null;

/** Encodes one batch after the other. Its memory is touched as far as batches need it. */
export class BatchEncoder {
  readonly #kernel: BatchExports;
  readonly #batchAt: number;
  readonly #bytes: Uint8Array;
  readonly #slots: Uint32Array;
  readonly #generations: Uint32Array;
  readonly #times: BigInt64Array;
  readonly #values: Float64Array;

  constructor() {
    compiled ??= compileWasmFile(new URL('../build/batch.wasm', import.meta.url));
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const instance = new WebAssembly.Instance(compiled, { env: { memory } });
    const kernel = instance.exports as unknown as BatchExports;
    const { buffer } = memory;
    assert(kernel.memoryBytes.value <= buffer.byteLength, 'the columns lie in the memory');
    this.#kernel = kernel;
    this.#batchAt = kernel.batch.value;
    this.#bytes = new Uint8Array(buffer);
    this.#slots = new Uint32Array(buffer, kernel.slots.value, batchRowsMax);
    this.#generations = new Uint32Array(buffer, kernel.generations.value, batchRowsMax);
    this.#times = new BigInt64Array(buffer, kernel.times.value, batchRowsMax);
    this.#values = new Float64Array(buffer, kernel.values.value, batchRowsMax);
  }

  /**
   * @param version a whole number below 2^53 (lib/hybrid_clock.ts)
   * @param rows at least one
   * @param derivesVersions as in `BatchView`
   * @returns the batch (docs/formats/batch.md), borrowed until the next one
   */
  encode(
    version: number,
    rows: BatchRows,
    timeUnitNanos: TimeUnitNanos,
    derivesVersions: boolean,
  ): Uint8Array {
    const { rowCount } = rows;
    assert(rowCount > 0 && rowCount <= batchRowsMax, 'a batch has 1 to 2^20 rows');
    this.#slots.set(rows.slots.subarray(0, rowCount));
    this.#generations.set(rows.generations.subarray(0, rowCount));
    this.#times.set(rows.timestamps.subarray(0, rowCount));
    this.#values.set(rows.values.subarray(0, rowCount));
    const exponent = exponentOfTimeUnit[timeUnitNanos];
    const flags = derivesVersions ? batchFlag.derivesVersions : 0;
    const length = this.#kernel.encodeBatch(rowCount, version, exponent, flags);
    return this.#bytes.subarray(this.#batchAt, this.#batchAt + length);
  }
}

// Written by engine/build_kernels.mjs from engine/batch/kernel/batch.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface BatchExports {
  readonly batch: { readonly value: number };
  readonly generations: { readonly value: number };
  /** Bytes of memory that the kernel needs. */
  readonly memoryBytes: { readonly value: number };
  readonly slots: { readonly value: number };
  readonly times: { readonly value: number };
  readonly values: { readonly value: number };
  /**
   * Lays the rows of the columns out as a batch at `batch`; answers its length in bytes. At least
   * one row.
   */
  encodeBatch(rowCount: number, version: number, timeExponent: number, flags: number): number;
}

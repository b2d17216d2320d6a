// Written by engine/build_kernels.mjs from engine/batch/kernel/replay.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface ReplayExports {
  readonly batch: { readonly value: number };
  readonly batchBytesMax: { readonly value: number };
  readonly generations: { readonly value: number };
  readonly maps: { readonly value: number };
  readonly rowsMax: { readonly value: number };
  readonly slots: { readonly value: number };
  readonly state: { readonly value: number };
  readonly times: { readonly value: number };
  readonly values: { readonly value: number };
  /**
   * Reads the batch at `batch` and gives its rows of series that are here the slots of this boot.
   * Answers how many those are, or -1 for a batch that this kernel does not take: one that is
   * malformed, longer than its room, or with more than the columns of samples.
   * @param map entries by slot of the log
   */
  decode(length: number, map: number, mapCount: number): number;
}

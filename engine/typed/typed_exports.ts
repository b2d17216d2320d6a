// Written by engine/build_kernels.mjs from engine/typed/kernel/typed.kernel.ts

/**
 * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of
 * 2^31 and more come back negative.
 */
export interface TypedExports {
  /** Of a `Chunk` and what reading its rows finds. */
  readonly chunkStructBytes: { readonly value: number };
  columnsBytes(): number;
  /**
   * Reads the chunk in [at, end), after which 64 bytes may be looked at, into such columns. Gives
   * how many rows there are, or -1 when it is malformed. Two u32 at `answers`: bytes of the values,
   * and whether rows have starts.
   * @param struct `chunkStructBytes`
   * @param work `decodeBytes`
   */
  decode(
    struct: number,
    tables: number,
    at: number,
    end: number,
    times: number,
    lags: number,
    starts: number,
    ends: number,
    bytes: number,
    work: number,
    answers: number,
  ): number;
  /** Work space to read a chunk. */
  decodeBytes(): number;
  /**
   * Reads columns of the chunk in [at, end), after which 64 bytes may be looked at: those that are
   * asked for, at `asked` a u64 count and pairs of u64, number of a field and address of what is
   * asked for of it, 1 for all of it; 1 for everything. Gives 1, or 0 when it is malformed. Four
   * u32 at `answers`: rows, columns, groups, and whether rows have starts. Entries of 24 bytes at
   * `groups` (f64 layout, u32 kind, rows, address of their places, u16), of 32 bytes at `columns`
   * (u64 tag; u32 place of its parent from 1 on or 0, group, rows, addresses of their places, u16,
   * and of values: f64, of byte strings their addresses and lengths, u32). They hold until the work
   * space is used again.
   * @param work `decodeBytes`
   */
  decodeColumns(
    struct: number,
    tables: number,
    at: number,
    end: number,
    asked: number,
    times: number,
    lags: number,
    starts: number,
    work: number,
    groups: number,
    columns: number,
    answers: number,
  ): number;
  /**
   * Writes rows in strictly ascending time as a chunk; gives its end, or 0 when they have more
   * fields than was said. Columns: i64 times and lags (1/64 milliseconds from time to version), i64
   * starts or address 0 for none, u32 ends of the values, which lie one after the other at `bytes`.
   * @param work `encodeBytes`
   * @param out `roomBytes`
   */
  encode(
    scratch: number,
    tables: number,
    times: number,
    lags: number,
    starts: number,
    ends: number,
    bytes: number,
    rows: number,
    fields: number,
    work: number,
    out: number,
  ): number;
  /** Work space to write so many rows with so many fields in all. */
  encodeBytes(rows: number, fields: number): number;
  /** Room for what is told of groups, and of columns, of a chunk. */
  groupsBytes(): number;
  /** Room for a chunk of so many rows, fields, and bytes of values. */
  roomBytes(rows: number, fields: number, bytes: number): number;
  /** Of the region `scratch`. */
  scratchBytes(): number;
}

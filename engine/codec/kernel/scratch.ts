// Where an encoder keeps things while it writes a chunk.

/** Rows of one chunk that the encoder takes; the counts of symbols fit 16 bits so. */
export const encodeRowsMax: u32 = 4096;

const int64ColumnBytes: usize = (<usize>encodeRowsMax << 3) + 64;
/** Two int64 columns, symbol counts, exception rows. */
export const residualsOffset: usize = int64ColumnBytes;
export const countsOffset: usize = residualsOffset + int64ColumnBytes;
export const sizesOffset: usize = countsOffset + 64;
export const packingOffset: usize = sizesOffset + 4 * 64 + 64;
export const beyondOffset: usize = packingOffset + 64;
export const exceptionsOffset: usize = beyondOffset + 64;
export const encoderScratchBytes: usize = exceptionsOffset + (<usize>encodeRowsMax << 2) + 64;

// Numbers of the chunk format (docs/formats/chunk.md, docs/formats/codec.md) that both the kernels
// and TypeScript need: AssemblyScript compiles this file too, so it holds plain literals and
// nothing else.

// What a chunk's payload is; chunk.ts says more.
export const kindRawFloat = 1;
export const kindFloat = 2;
export const kindRows = 3;
export const kindFloatLags = 4;
export const kindTyped = 5;
export const kindFloatStarts = 6;

// Sets of kinds, a bit each: what a reader knows, so that nobody passes over what it does not.
/** Floats without start times. */
export const kindsPlain = 30;
export const kindsFloat = 94;
export const kindsAll = 126;

/** Rows that one chunk can hold. */
export const chunkRowsMax = 65536;

// Of chunks of typed values (docs/formats/typed.md).
export const typedRowsMax = 4096;
/** In all columns together. */
export const typedColumnValuesMax = 32768;
/** Of all values of a chunk, as strings. */
export const typedBytesMax = 1048576;
/** Of one value, those of messages in it included. */
export const typedFieldsMax = 4096;
/** Messages in messages. */
export const typedDepthMax = 32;
/** A bucket of a histogram has the highest ones: 2^34 + 32. */
export const fieldNumberMax = 17179869216;

/** Huffman books; books.ts makes their tables. */
export const bookCount = 16;
/** Symbols 0 to 14 are zigzagged residuals, 15 announces one that is written out. */
export const bookSymbolCount = 16;
/** No code is longer, so a decoder finds the symbols of any 11 bits in a table. */
export const codeBitsMax = 11;
/** An entry for each of the 2^11 bit patterns. */
export const tableEntryBytes = 16;

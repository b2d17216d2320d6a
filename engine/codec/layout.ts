// Numbers of the chunk format (docs/formats/chunk.md, docs/formats/codec.md) that both the kernels
// and TypeScript need: AssemblyScript compiles this file too, so it holds plain literals and
// nothing else.

// What a chunk's payload is; chunk.ts says more.
export const kindRawFloat = 1;
export const kindFloat = 2;
export const kindRows = 3;
export const kindFloatLags = 4;

/** Rows that one chunk can hold. */
export const chunkRowsMax = 65536;

/** Huffman books; books.ts makes their tables. */
export const bookCount = 16;
/** Symbols 0 to 14 are zigzagged residuals, 15 announces one that is written out. */
export const bookSymbolCount = 16;
/** No code is longer, so a decoder finds the symbols of any 11 bits in a table. */
export const codeBitsMax = 11;
/** An entry for each of the 2^11 bit patterns. */
export const tableEntryBytes = 16;

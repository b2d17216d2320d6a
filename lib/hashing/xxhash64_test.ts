import assert from 'node:assert/strict';
import { test } from 'node:test';
import { xxhash64 } from './xxhash64.ts';

/** As Go's cespare/xxhash has them, of bytes i * 7 + 1. */
const known: readonly (readonly [length: number, hash: bigint])[] = [
  [0, 0xef46db3751d8e999n],
  [1, 0x8a4127811b21e730n],
  [3, 0xb6e6c910c2fd373an],
  [4, 0x22eda2cf6af4c124n],
  [7, 0x34084d91a233a751n],
  [8, 0xc6f1803a5e0b3222n],
  [15, 0x514c6f58d37ce6f1n],
  [31, 0x6ab1c40e29f50073n],
  [32, 0x5a0756fbe9ecd3d1n],
  [33, 0xdc50cdc37bb9c183n],
  [64, 0x90083da9cdb9d795n],
  [100, 0xd248bfc5208b0b16n],
  [255, 0x5da8139d7acf3995n],
];

test('xxhash64() gives the hashes of other implementations', () => {
  for (const [length, hash] of known) {
    const bytes = Uint8Array.from({ length }, (_, i) => i * 7 + 1);
    assert.equal(xxhash64(bytes), hash, `of ${length} bytes`);
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { SeededRandom } from '#test/seeded_random.ts';
import { decodedChunks, wholeBody } from './decoding.ts';

const { signal } = new AbortController();
const encoders = { gzip: gzipSync, deflate: deflateSync, zstd: zstdCompressSync };

test('a body of many parts is whole, though the memory of each is freed when it was copied', async () => {
  const random = new SeededRandom(1);
  const body = Uint8Array.from({ length: 3_000_001 }, () => random.below(7));
  for (const [name, encode] of Object.entries(encoders)) {
    const whole = await wholeBody(decodedChunks(encode(body), name, signal), 4_000_000);
    assert.ok(Buffer.from(whole).equals(body), name);
  }
});

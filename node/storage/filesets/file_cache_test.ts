import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk } from '#lib/env/env.ts';
import { type CachedFile, FileCache, pageBytes } from './file_cache.ts';

const length = 5 * pageBytes + 100;
const content = Uint8Array.from({ length }, (_, i) => (i % 251) + 1);
const file: CachedFile = { dataPath: 'data', dataBytes: length } as CachedFile;

/** A disk that cannot read one sector. */
function brokenDisk(bad: number, code = 'EIO'): Disk {
  const handle = {
    async read(position: number, count: number) {
      if (position <= bad && bad < position + count) {
        throw Object.assign(new Error(`${code}: data`), { code });
      }
      return content.slice(position, position + count);
    },
    close: async () => {},
  };
  return { open: async () => handle } as unknown as Disk;
}

for (const pageBytesMax of [0, 1 << 20]) {
  const name = pageBytesMax === 0 ? 'without pages' : 'with pages';
  test(`what the disk cannot read is zeros, and all around it is there (${name})`, async () => {
    const bad = 3 * pageBytes + 7;
    const cache = new FileCache(brokenDisk(bad), {
      openFilesMax: 1,
      directoryBytesMax: 0,
      pageBytesMax,
    });
    for (const [start, end] of [
      [0, length],
      [pageBytes + 5, 4 * pageBytes + 5],
      [bad, bad + 1],
    ] as const) {
      const bytes = await cache.read(file, start, end);
      assert.equal(bytes.length, end - start);
      assert.equal(bytes[bad - start], 0);
      const wrong = bytes.findIndex((byte, i) => byte !== content[start + i] && byte !== 0);
      assert.equal(wrong, -1);
      const zeros = bytes.filter((byte) => byte === 0).length;
      assert.ok(zeros <= 2 * pageBytes, `${zeros} bytes of ${bytes.length} are missing`);
    }
  });
}

test('another error of the disk is no damage', async () => {
  const limits = { openFilesMax: 1, directoryBytesMax: 0, pageBytesMax: 1 << 20 };
  const cache = new FileCache(brokenDisk(5, 'EMFILE'), limits);
  await assert.rejects(cache.read(file, 0, 10), { code: 'EMFILE' });
});

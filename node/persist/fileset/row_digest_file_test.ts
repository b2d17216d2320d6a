import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { removeFileset, removeLeftBeside, rowDigestPath } from './format.ts';
import { readRowDigests, writeRowDigests } from './row_digest_file.ts';

const folder = 'data/metrics/0';
const key = { blockStartNanos: -7_200_000_000_000n, volume: 3 };
const checksum = 0xfedcba98;
const blocks = [
  {
    blockStartNanos: key.blockStartNanos,
    rangeBits: 0,
    sums: BigUint64Array.of(1n, 2n ** 64n - 1n),
  },
  { blockStartNanos: 0n, rangeBits: 1, sums: BigUint64Array.of(5n, 6n, 7n, 8n) },
];

async function written() {
  const disk = new SimulatedDisk({ below: () => 0 });
  await writeRowDigests(disk, folder, key, checksum, blocks);
  return disk;
}

test('digests of rows are read as they were written', async () => {
  const disk = await written();
  assert.deepEqual(await readRowDigests(disk, folder, key, checksum), blocks);
  assert.equal(await readRowDigests(disk, folder, { ...key, volume: 4 }, checksum), null);
});

test('digests of another fileset, damaged ones and parts of them are not used', async () => {
  const disk = await written();
  assert.equal(await readRowDigests(disk, folder, key, checksum + 1), null);
  const path = rowDigestPath(folder, key);
  const bytes = await disk.readFile(path);
  for (let at = 0; at < bytes.length; at += 1) {
    const damaged = bytes.slice();
    damaged[at]! ^= 16;
    await disk.writeFileAtomic(path, damaged);
    assert.equal(await readRowDigests(disk, folder, key, checksum), null, `byte ${at}`);
    await disk.writeFileAtomic(path, bytes.slice(0, at));
    assert.equal(await readRowDigests(disk, folder, key, checksum), null, `${at} bytes`);
  }
});

test('digests of rows go with their fileset, and those that are left with the next start', async () => {
  const disk = await written();
  await removeLeftBeside(disk, folder);
  assert.deepEqual(await disk.list(folder), []);
  await writeRowDigests(disk, folder, key, checksum, blocks);
  await removeFileset(disk, folder, key);
  assert.deepEqual(await disk.list(folder), []);
});

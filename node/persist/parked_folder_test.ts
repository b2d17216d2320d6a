import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { namespaceOf } from '#node/storage/database_testing.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { type Held, readHeld, writeHeld } from './held_file.ts';
import {
  type ParkedInfo,
  readKept,
  readParkedInfo,
  writeKept,
  writeParkedInfo,
} from './parked_folder.ts';

const fixture = (name: string): Uint8Array =>
  readFileSync(join(import.meta.dirname, '../../test/fixtures', name));
const newDisk = (): SimulatedDisk => new SimulatedDisk({ below: () => 0 });

const held: Held = {
  shardCount: 64,
  shards: new Set([0, 1, 2, 9]),
  namespaces: registryOf([{ ...namespaceOf('metrics'), number: 1_700_000_000_001 }]),
};
const info: ParkedInfo = {
  namespace: 'metrics',
  number: 1_700_000_000_001,
  blockSizeNanos: 7_200_000_000_000n,
  retentionNanos: 172_800_000_000_000n,
  shardCount: 64,
  reason: 'the placement does not name this instance',
  parkedNanos: 1_700_000_000_000_000_000n,
  createdNanos: 1_700_000_000_000_000_001n,
  endNanos: null,
  bytesByShard: new Map([
    [0, 123],
    [9, 45],
  ]),
};
const kept = new Map([[3, { millis: 600_000.5, expiredBeforeNanos: -(2n ** 63n) }]]);

test('files of what is held and parked are as they were in their first version', async () => {
  const disk = newDisk();
  await writeHeld(disk, 'data', held);
  await writeParkedInfo(disk, 'data', 3, info);
  await writeKept(disk, 'data', kept);
  const paths = {
    'held_v1.json': 'data/held.json',
    'parked_v1.json': 'data/parked/3/parked.json',
    'kept_v1.json': 'data/parked/kept.json',
  };
  for (const [name, path] of Object.entries(paths)) {
    const bytes = await disk.readFile(path);
    assert.equal(Buffer.from(bytes).toString(), Buffer.from(fixture(name)).toString(), name);
  }
  assert.deepEqual(await readHeld(disk, 'data'), held);
  assert.deepEqual(await readParkedInfo(disk, 'data', 3), info);
  assert.deepEqual(await readKept(disk, 'data'), kept);
});

test('what is not there says nothing, and what is damaged says so', async () => {
  const disk = newDisk();
  assert.equal(await readHeld(disk, 'data'), null);
  assert.equal(await readParkedInfo(disk, 'data', 1), null);
  assert.deepEqual(await readKept(disk, 'data'), new Map());
  for (const [path, read] of [
    ['data/held.json', () => readHeld(disk, 'data')],
    ['data/parked/1/parked.json', () => readParkedInfo(disk, 'data', 1)],
    ['data/parked/kept.json', () => readKept(disk, 'data')],
  ] as const) {
    const texts = [
      '',
      '{}',
      '00000000\n{}\n',
      Buffer.from(fixture('held_v1.json')).toString().slice(0, -9),
    ];
    for (const text of texts) {
      await disk.writeFileAtomic(path, Buffer.from(text));
      await assert.rejects(read(), Error, `${path}: ${text}`);
    }
  }
});

/** Snapshots on a real disk. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { fetchSnapshot, keepSnapshot } from './folder.ts';

/** As etcdctl writes it. */
function snapshotOf(text: string): Buffer {
  const content = Buffer.alloc(3 * 512);
  content.write(text);
  return Buffer.concat([content, createHash('sha256').update(content).digest()]);
}

async function folderWith(context: TestContext, files: Record<string, Buffer>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-snapshots-'));
  context.after(() => rm(folder, { recursive: true }));
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(folder, name), bytes);
  return folder;
}

const at = (iso: string) => ({
  disk: realEnv.disk,
  clock: { ...realEnv.clock, nowMillis: () => Date.parse(iso) },
});

test('a whole file is kept under its time, and as many as are asked for stay', async (context) => {
  const folder = await folderWith(context, {
    'a.incoming': snapshotOf('a'),
    'left-behind.incoming': Buffer.from('half'),
    'left-behind.incoming.part': Buffer.from('half'),
    '20261101T000000Z.db': snapshotOf('oldest'),
    '20261102T000000Z.db': snapshotOf('older'),
    'by-hand.db': snapshotOf('by hand'),
    'notes.txt': Buffer.from('somebody else wrote this'),
  });
  const kept = await keepSnapshot(at('2026-11-23T17:00:01Z'), folder, 'a.incoming', 2);
  assert.deepEqual(kept, { name: '20261123T170001Z.db', bytes: 1568 });
  assert.deepEqual((await readdir(folder)).sort(), [
    '20261102T000000Z.db',
    '20261123T170001Z.db',
    'by-hand.db',
    'notes.txt',
  ]);
});

test('a file that is not whole is refused, and no snapshot goes for it', async (context) => {
  const broken = snapshotOf('a');
  broken[5]! ^= 1;
  const folder = await folderWith(context, {
    'broken.incoming': broken,
    'short.incoming': snapshotOf('a').subarray(0, 1000),
    '20261101T000000Z.db': snapshotOf('old'),
  });
  const keep = (name: string) => keepSnapshot(at('2026-11-23T17:00:01Z'), folder, name, 1);
  await assert.rejects(keep('broken.incoming'), /checksum does not hold/);
  await assert.rejects(keep('short.incoming'), /1000 bytes are no whole snapshot/);
  assert.ok((await readdir(folder)).includes('20261101T000000Z.db'));
});

test('latest is the newest that is whole, and a name is that file', async (context) => {
  const broken = snapshotOf('newest');
  broken[9]! ^= 1;
  const folder = await folderWith(context, {
    '20261101T000000Z.db': snapshotOf('first'),
    '20261102T000000Z.db': snapshotOf('second'),
    '20261103T000000Z.db': broken,
    'by-hand.db': snapshotOf('by hand'),
  });
  const target = join(folder, 'restored');
  await mkdir(target);
  const fetch = (wish: string) =>
    fetchSnapshot(realEnv.disk, folder, wish, join(target, 'snapshot'));
  const content = async () => (await readFile(join(target, 'snapshot'))).toString('latin1', 0, 8);
  assert.equal((await fetch('20261101T000000Z.db')).name, '20261101T000000Z.db');
  assert.match(await content(), /^first/);
  assert.equal((await fetch('by-hand.db')).name, 'by-hand.db');
  await assert.rejects(fetch('20261103T000000Z.db'), /checksum does not hold/);
  await assert.rejects(fetch('20261104T000000Z.db'), /no snapshot 20261104T000000Z.db: there are/);
  assert.equal((await fetch('latest')).name, '20261102T000000Z.db');
});

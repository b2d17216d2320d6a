import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { digest128 } from '#lib/hashing/digest128.ts';
import { silentLog } from '#lib/log.ts';
import { writeCheckedJson } from '../../persist/checked_json.ts';
import { Pace } from '../flush/pace.ts';
import { slowClock } from './aggregation_testing.ts';
import { notesFile, type SliceNote, SliceNotes } from './notes.ts';

const { disk } = realEnv;
const folder = mkdtempSync(join(tmpdir(), 'tsdb-notes-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const unhurried = () => new Pace(realEnv.clock, () => 1);
const hour = 3_600_000_000_000n;
const note = {
  startNanos: -5n,
  endNanos: 7n,
  madeOf: { '7': 'a b' },
  deletions: 3,
  rules: '',
  hasWindows: true,
};

test('notes are read as they were saved', async () => {
  const notes = await SliceNotes.open(disk, silentLog, folder);
  const frozen: SliceNote = {
    ...note,
    endNanos: 9n,
    deletions: -1,
    rules: digest128('a rule'),
    isFrozen: true,
  };
  for (const one of [note, frozen]) notes.set('8/3', one);
  notes.set('9/3', note);
  await notes.save(unhurried());
  const again = await SliceNotes.open(disk, silentLog, folder);
  assert.deepEqual(again.of('8/3'), [note, frozen]);
  assert.deepEqual(again.of('9/3'), [note]);
  assert.deepEqual(again.of('8/4'), []);
});

test('notes are small, and others get a turn while many are saved', async () => {
  const notes = await SliceNotes.open(disk, silentLog, folder);
  const [shards, slices] = [100, 50];
  for (let shard = 0; shard < shards; shard++) {
    for (let i = 0; i < slices; i++) {
      const startNanos = 1_700_000_000_000_000_000n + BigInt(i) * hour;
      const slice = { startNanos, endNanos: startNanos + hour };
      notes.set(`1700000000001/${shard}`, {
        ...note,
        ...slice,
        madeOf: { '1700000000002': digest128('many files') },
      });
    }
  }
  const { clock, rests } = slowClock();
  const saved = notes.save(new Pace(clock, () => 1));
  // What is noted meanwhile is not lost, whatever has been written of its shard.
  notes.delete('1700000000001/0', notes.of('1700000000001/0')[0]!);
  await saved;
  assert.ok(rests() >= shards, `${rests()} rests`);
  const size = await disk.size(`${folder}/${notesFile}`);
  assert.ok(size! < 110 * shards * slices, `${size} bytes`);
  await notes.save(unhurried());
  const again = await SliceNotes.open(disk, silentLog, folder);
  const all = again.shards().filter((shard) => shard.startsWith('1700000000001/'));
  assert.equal(all.flatMap((shard) => again.of(shard)).length, shards * slices - 1);
});

test('notes that do not say how long their slices are count as damaged', async () => {
  const before = { madeOf: 'a b', deletions: -1, hasWindows: true };
  const key = '1700000000001/3/1700000000000000000';
  await writeCheckedJson(disk, `${folder}/${notesFile}`, { [key]: before });
  const notes = await SliceNotes.open(disk, silentLog, folder);
  assert.deepEqual(notes.shards(), []);
});

test('notes of which a part is damaged count for nothing', async () => {
  const notes = await SliceNotes.open(disk, silentLog, folder);
  for (const shard of ['8/3', '8/4'] as const) notes.set(shard, note);
  await notes.save(unhurried());
  const path = `${folder}/${notesFile}`;
  const bytes = await disk.readFile(path);
  const spoilt = bytes.slice();
  spoilt[bytes.length - 5]! ^= 1;
  for (const damaged of [spoilt, bytes.subarray(0, bytes.length >> 1), new Uint8Array(0)]) {
    await disk.writeFileAtomic(path, damaged);
    assert.deepEqual((await SliceNotes.open(disk, silentLog, folder)).shards(), []);
  }
});

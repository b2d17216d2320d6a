import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { writeCheckedJson } from '../../persist/checked_json.ts';
import { notesFile, type SliceNote, SliceNotes } from './notes.ts';

const { disk } = realEnv;
const folder = mkdtempSync(join(tmpdir(), 'tsdb-notes-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const note = { startNanos: -5n, endNanos: 7n, madeOf: 'a b', deletions: 3, hasWindows: true };

test('notes are read as they were saved', async () => {
  const notes = await SliceNotes.open(disk, silentLog, folder);
  const frozen: SliceNote = { ...note, endNanos: 9n, deletions: -1, isFrozen: true };
  for (const one of [note, frozen]) notes.set('8/3', one);
  notes.set('9/3', note);
  await notes.save();
  const again = await SliceNotes.open(disk, silentLog, folder);
  assert.deepEqual(again.of('8/3'), [note, frozen]);
  assert.deepEqual(again.of('9/3'), [note]);
  assert.deepEqual(again.of('8/4'), []);
});

test('notes that do not say how long their slices are count as damaged', async () => {
  const before = { madeOf: 'a b', deletions: -1, hasWindows: true };
  await writeCheckedJson(disk, `${folder}/${notesFile}`, { '8/3/1700000000000000000': before });
  const notes = await SliceNotes.open(disk, silentLog, folder);
  assert.deepEqual(notes.shards(), []);
});

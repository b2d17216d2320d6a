import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { KnownStore } from '#cluster/topology/topology.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { knownStoreFile, readKnownStore, writeKnownStore } from './known_store.ts';

test('a folder tells what was known of the store, and nothing when that is damaged', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-known-'));
  using _ = { [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
  const item = (key: string, modRevision: number) => ({
    key,
    value: new TextEncoder().encode(`{"of":"${key}ü"}`),
    createRevision: 3,
    modRevision,
    version: 2,
    leaseId: '0',
  });
  const known: KnownStore = {
    lineageId: 'abc',
    revision: 17,
    placement: item('placement', 9),
    assignments: item('assignments', 9),
    namespaces: item('namespaces', 12),
    numbers: null,
  };
  assert.equal(await readKnownStore(realEnv.disk, silentLog, folder), null);
  await writeKnownStore(realEnv.disk, folder, known);
  assert.deepEqual(await readKnownStore(realEnv.disk, silentLog, folder), known);
  const path = join(folder, knownStoreFile);
  const text = readFileSync(path, 'utf8');
  for (const damaged of [
    text.replace('"modRevision":9', '"modRevision":8'),
    '',
    text.slice(0, 40),
  ]) {
    writeFileSync(path, damaged);
    assert.equal(await readKnownStore(realEnv.disk, silentLog, folder), null);
  }
});

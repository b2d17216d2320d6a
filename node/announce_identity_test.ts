import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { realEnv } from '#lib/env/real.ts';
import { announceIdentity } from './announce_identity.ts';
import { type NodeIdentity, openIdentity, referenceEpochOf } from './persist/node_identity.ts';

const never = new AbortController().signal;
const cluster = { environment: 'default_env', zone: 'embedded' };
const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-identity-'));
  folders.push(folder);
  return `${folder}/data`;
}

async function announced(kv: MemoryKvStore, identity: NodeIdentity, givenUp: string[] = []) {
  return announceIdentity(
    kv.client(),
    cluster,
    'a',
    identity,
    async (history) => void givenUp.push(history),
    never,
  );
}

test('a data folder keeps its incarnation and counts its boots', async () => {
  const folder = temporaryFolder();
  const first = await openIdentity(realEnv, folder);
  const second = await openIdentity(realEnv, folder);
  assert.match(first.incarnation, /^[0-9a-f]{32}$/);
  assert.deepEqual(second, { incarnation: first.incarnation, boot: 2 });
  assert.equal(referenceEpochOf(second), `${first.incarnation}.2`);
  const other = await openIdentity(realEnv, temporaryFolder());
  assert.notEqual(other.incarnation, first.incarnation);
});

test('an identity that cannot be read stops the start and is not replaced', async () => {
  const folder = temporaryFolder();
  await openIdentity(realEnv, folder);
  const path = `${folder}/node_identity.json`;
  writeFileSync(path, '{"incarnation":"x"');
  await assert.rejects(openIdentity(realEnv, folder), /cannot read .*node_identity\.json/);
  assert.equal(readFileSync(path, 'utf8'), '{"incarnation":"x"');
});

test('a folder that goes on is told from a new one and from an older copy of itself', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock });
  const folder = temporaryFolder();
  const givenUp: string[] = [];
  assert.equal(await announced(kv, await openIdentity(realEnv, folder), givenUp), 'continued');
  const copy = temporaryFolder();
  cpSync(folder, copy, { recursive: true });
  assert.equal(await announced(kv, await openIdentity(realEnv, folder), givenUp), 'continued');
  assert.deepEqual(givenUp, []);
  assert.equal(await announced(kv, await openIdentity(realEnv, copy), givenUp), 'rolled back');
  const fresh = await openIdentity(realEnv, temporaryFolder());
  assert.equal(await announced(kv, fresh, givenUp), 'new folder');
  assert.deepEqual(givenUp, ['rolled back', 'new folder']);
});

test('a start that dies while it gives its shards up finds the same difference again', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock });
  await announced(kv, await openIdentity(realEnv, temporaryFolder()));
  const fresh = await openIdentity(realEnv, temporaryFolder());
  const died = announceIdentity(
    kv.client(),
    cluster,
    'a',
    fresh,
    () => Promise.reject(new Error('died')),
    never,
  );
  await assert.rejects(died, /died/);
  assert.equal(await announced(kv, fresh), 'new folder');
});

test('what a later version keeps with an identity is passed over and stays', async () => {
  const folder = temporaryFolder();
  const first = await openIdentity(realEnv, folder);
  const path = `${folder}/node_identity.json`;
  writeFileSync(path, JSON.stringify({ ...first, future: 'file' }));
  const second = await openIdentity(realEnv, folder);
  assert.deepEqual(second, { incarnation: first.incarnation, boot: 2 });
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).future, 'file');

  const kv = new MemoryKvStore({ clock: realEnv.clock });
  const key = '_kv/default_env/embedded/tsdb.node.identity/a';
  const value = new TextEncoder().encode(JSON.stringify({ ...first, future: 'key' }));
  await kv.client().transact([], [{ kind: 'put', key, value }], never);
  assert.equal(await announced(kv, second), 'continued');
  const stored = await kv.client().get(key, never);
  assert.deepEqual(JSON.parse(new TextDecoder().decode(stored!.value)), {
    ...second,
    future: 'key',
  });
});

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { turnsOf } from '#engine/aside/turning_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { everything, type RangeRequest, type SortOrder, type SortTarget } from './core/requests.ts';
import { rangeInTurns } from './range.ts';
import { openStorage, type Storage } from './storage/storage.ts';
import { Store } from './store.ts';

const count = 45_000;
const all: RangeRequest = { ...everything, key: 'k', rangeEnd: 'l' };

/** Each look at its clock takes some milliseconds, so that it gives way wherever it may. */
function work(): Work {
  let millis = 0;
  const monotonicMillis = (): number => (millis += 5);
  return Turns.of({ monotonicMillis }).begin(new AbortController().signal);
}

let folder: string;
let storage: Storage;
let store: Store;

function put(key: string, value: Uint8Array): Promise<unknown> {
  const flags = { leaseId: 0n, previous: false, ignoreValue: false, ignoreLease: false };
  return store.perform((core) => core.put({ kind: 'put', key, value, ...flags }));
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-range-'));
  storage = await openStorage(folder, realEnv);
  store = await Store.open({ storage, env: realEnv, log: silentLog });
  const putOne = (i: number) =>
    put(`k${String(i).padStart(6, '0')}`, Uint8Array.of((i * 7) & 255, i & 3));
  for (let first = 0; first < count; first += 1_000) {
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => putOne(first + i)));
  }
});

after(async () => {
  await store[Symbol.asyncDispose]();
  await storage[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

test('a range of many keys takes turns, and is what it is in one go', async () => {
  const orders: readonly SortOrder[] = ['none', 'ascend', 'descend'];
  const targets: readonly SortTarget[] = ['key', 'version', 'create', 'mod', 'value'];
  for (const sortOrder of orders) {
    for (const sortTarget of targets) {
      const request = { ...all, sortOrder, sortTarget, limit: 20_000, minModRevision: 9 };
      const atOnce = await store.perform((core) => core.range(request));
      const { answer, turns } = await turnsOf(rangeInTurns(store, request, work()));
      assert.deepEqual(answer, atOnce);
      assert.ok(turns >= 2, `${turns}`);
    }
  }
  for (const more of [{ countOnly: true }, { keysOnly: true }, { revision: 44_000 }]) {
    const request = { ...all, ...more };
    const atOnce = await store.perform((core) => core.range(request));
    assert.deepEqual(await rangeInTurns(store, request, work()), atOnce);
  }
});

test('what is put and compacted meanwhile changes nothing of it', async () => {
  const answer = rangeInTurns(store, all, work());
  for (let i = 0; i < 5; i++) {
    await put(`k${String(count - 1).padStart(6, '0')}`, Uint8Array.of(9, 9, 9));
    if (i === 2) await store.perform((core) => core.compact(core.revision));
  }
  const { items, revision } = await answer;
  assert.equal(items.length, count);
  assert.ok(items.every(({ modRevision }) => modRevision <= revision));
});

test('a revision that cannot be read is refused', async () => {
  await assert.rejects(rangeInTurns(store, { ...all, revision: 2 }, work()), { kind: 'compacted' });
  const later = { ...all, revision: 10_000_000 };
  await assert.rejects(rangeInTurns(store, later, work()), { kind: 'futureRevision' });
});

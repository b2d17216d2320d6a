import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { ClusterAdmin } from '../admin/admin.ts';
import { plainRequest } from '../admin/placement_requests.ts';
import { DeletionLog } from './deletion_log.ts';
import { allTime, type DeletionRequest, deletesAll, expiryOf } from './deletions.ts';
import { lookingFirst } from '../kv/looking_first.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import type { WatchEvent } from '../kv/kv.ts';
import { openEtcdKv } from '../kv/etcd.ts';
import { openLocalKv } from '../kv/local.ts';
import { openEmbeddedKv } from '#kv/server.ts';
import { silentLog } from '#lib/log.ts';
import { deletionQueryCharactersMax, deletionsMax, namespacesMax } from '../limits.ts';
import { NamespaceStore } from '../namespaces/store.ts';
import type { NamespaceRegistry } from '../namespaces/namespaces.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const hourNanos = 3_600_000_000_000n;

/** A clock that stands where the test puts it. */
class HeldClock {
  millis = 1_800_000_000_000;
  readonly clock: Clock = {
    ...realEnv.clock,
    nowMillis: () => this.millis,
    nowNanos: () => BigInt(this.millis) * 1_000_000n,
  };
}

async function open(): Promise<{
  log: DeletionLog;
  registry: NamespaceRegistry;
  held: HeldClock;
  admin: ClusterAdmin;
}> {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const held = new HeldClock();
  const admin = new ClusterAdmin({ kv, cluster, clock: held.clock, random: realEnv.random });
  await admin.databaseCreate(
    { type: 'local', namespaceName: 'default', retentionTime: '48h' },
    plainRequest,
    signal,
  );
  const registry = (await new NamespaceStore(kv, cluster).get(signal)).value;
  return { log: new DeletionLog(kv, cluster), registry, held, admin };
}

/** Every instance says that it has nothing left of the deletions so far. */
async function cleanedByAll(log: DeletionLog): Promise<void> {
  const { sequence } = (await log.list(signal)).head;
  await log.confirm('tsdb_local', { applied: sequence, cleaned: sequence }, signal);
}

function requestOf(query: IndexQuery): DeletionRequest {
  return { namespace: 'default', query, ...allTime, selectors: [] };
}
const some: IndexQuery = { kind: 'term', field: 'job', term: 'a' };

test('deletions are ordered by sequence and version, also when the clock stands or goes back', async () => {
  const { log, registry, held } = await open();
  const [first, second] = await log.append(
    [requestOf(some), requestOf(some)],
    registry,
    held.clock,
    signal,
  );
  held.millis -= 5_000;
  const [third] = await log.append([requestOf(some)], registry, held.clock, signal);
  const millis = held.millis + 5_000;
  assert.deepEqual(
    [first, second, third].map((deletion) => deletion!.sequence),
    [millis, millis + 1, millis + 2],
  );
  assert.equal(first!.version, (held.millis + 5_000) * 64);
  assert.equal(second!.version, first!.version + 1);
  assert.equal(third!.version, first!.version + 2);
  const { deletions, head } = await log.list(signal);
  assert.deepEqual(deletions, [first, second, third]);
  assert.equal(head.sequence, third!.sequence);
});

test('a deletion comes after what was written before it, also by a clock that is ahead', async () => {
  const { log, registry, held } = await open();
  let written = (held.millis + 20_000) * 64;
  const after = new DeletionLog(log.kv, cluster, () => written);
  const [first] = await after.append([requestOf(some)], registry, held.clock, signal);
  assert.equal(first!.version, written + 1);
  written = 0;
  const [second] = await after.append([requestOf(some)], registry, held.clock, signal);
  assert.equal(second!.version, first!.version + 1);
});

test('a deletion in any number of namespaces is one transaction of the embedded store', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-deletion-log-'));
  const server = await openEmbeddedKv({ folder, port: 0, env: realEnv, log: silentLog });
  try {
    const { registry, held } = await open();
    const one = registry.get('default')!;
    for (const count of [301, namespacesMax]) {
      const names = Array.from({ length: count }, (_, i) => `n${count}_${i}`);
      const all = new Map(names.map((name) => [name, { ...one, name }]));
      const requests = names.map((namespace) => ({ ...requestOf(some), namespace }));
      const inProcess = openLocalKv(server.local, realEnv.clock);
      await using overNetwork = openEtcdKv({
        endpoints: [server.endpoint],
        env: realEnv,
        log: silentLog,
      });
      for (const kv of [inProcess, overNetwork]) {
        const own = { ...cluster, environment: `${count}${kv === inProcess}` };
        const log = new DeletionLog(kv, own);
        await log.append([{ ...requests[0]!, query: { kind: 'all' } }], all, held.clock, signal);
        const before = await log.list(signal);
        const made = await log.append(requests, all, held.clock, signal);
        assert.equal(made.length, count);
        const { deletions, head } = await log.list(signal);
        assert.deepEqual(deletions.slice(1), made);
        assert.equal(head.sequence, made.at(-1)!.sequence);
        // All of them came in one revision: nobody sees a part of them.
        const { value: batch } = await kv
          .watch(log.prefix, before.revision + 1, signal)
          [Symbol.asyncIterator]()
          .next();
        assert.equal(batch!.events.length, count + 1);
        assert.ok(
          batch!.events.every(
            (e: WatchEvent) => e.kind === 'put' && e.item.modRevision === batch!.revision,
          ),
        );
      }
    }
    const log = new DeletionLog(openLocalKv(server.local, realEnv.clock), cluster);
    const names = Array.from({ length: 301 }, (_, i) => `x${i}`);
    const long = 'x'.repeat(8_000);
    await assert.rejects(
      log.append(
        names.map((namespace) => ({
          ...requestOf({ kind: 'term', field: 'job', term: long }),
          namespace,
        })),
        new Map(names.map((name) => [name, { ...one, name }])),
        held.clock,
        signal,
      ),
      { code: 'BAD_REQUEST', message: /selectors are too long for 301 namespaces at once/ },
    );
    assert.equal((await log.list(signal)).deletions.length, 0);
  } finally {
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  }
});

test('of writers at the same time each gets a sequence of its own', async () => {
  const { log, registry, held } = await open();
  const all = await Promise.all(
    Array.from({ length: 8 }, () => log.append([requestOf(some)], registry, held.clock, signal)),
  );
  assert.equal(new Set(all.map(([deletion]) => deletion!.sequence)).size, 8);
});

test('a store that has lost deletions gives their numbers to no other, and takes them back', async () => {
  const { log, registry, held } = await open();
  const [kept, lost] = await log.append(
    [requestOf(some), requestOf(some)],
    registry,
    held.clock,
    signal,
  );
  // A store as the backup has it, which knows the first one alone.
  const restored = await open();
  held.millis += 1_000;
  assert.equal(await restored.log.republish([kept!], signal), 1);
  const [next] = await restored.log.append([requestOf(some)], registry, held.clock, signal);
  assert.ok(next!.sequence > lost!.sequence);
  const elsewhere = { ...lost!, version: lost!.version + 7, sequence: next!.sequence };
  assert.equal(await restored.log.republish([elsewhere, lost!, kept!], signal), 2);
  const { deletions, head } = await restored.log.list(signal);
  const [moved] = deletions.filter(({ version }) => version === elsewhere.version);
  assert.ok(moved!.sequence > next!.sequence);
  assert.deepEqual(deletions, [kept, lost, next, moved]);
  assert.equal(head.sequence, moved!.sequence);
  assert.equal(head.version, next!.version);
  assert.equal(await restored.log.republish([elsewhere, lost!, kept!], signal), 0);
});

test('unknown namespaces and queries that are too long are refused', async () => {
  const { log, registry, held } = await open();
  const append = (request: DeletionRequest) => log.append([request], registry, held.clock, signal);
  await assert.rejects(append({ ...requestOf(some), namespace: 'none' }), { code: 'NOT_FOUND' });
  const long = {
    kind: 'term',
    field: 'job',
    term: 'x'.repeat(deletionQueryCharactersMax),
  } as const;
  await assert.rejects(append(requestOf(long)), { code: 'BAD_REQUEST' });
});

test('a time that its reader would refuse is not written', async () => {
  const { log, registry, held } = await open();
  const beyond = { ...requestOf(some), endNanos: 2n ** 63n };
  await assert.rejects(log.append([beyond], registry, held.clock, signal), {
    code: 'BAD_REQUEST',
    message: 'deletion.endNanos: not a 64-bit integer: "9223372036854775808"',
  });
  assert.deepEqual((await log.list(signal)).damaged, []);
});

test('so many stand and no more, until the retention of their namespace is over', async () => {
  const { log, registry, held } = await open();
  for (let made = 0; made < deletionsMax; made += 100) {
    const requests = Array.from({ length: 100 }, () => requestOf(some));
    await log.append(requests, registry, held.clock, signal);
  }
  await assert.rejects(log.append([requestOf(some)], registry, held.clock, signal), {
    code: 'RESOURCE_EXHAUSTED',
  });
  const expiry = expiryOf(registry.get('default')!, held.clock.nowNanos());
  assert.ok(expiry > held.clock.nowNanos() + 48n * hourNanos);
  held.millis = Number(expiry / 1_000_000n) - 1;
  assert.equal(await log.retire(registry, held.clock, signal), 0);
  held.millis += 2;
  await cleanedByAll(log);
  await log.append([requestOf(some)], registry, held.clock, signal);
  assert.ok((await log.retire(registry, held.clock, signal)) > 0);
});

test('a deletion of everything stands for all of its namespace before it', async () => {
  const { log, registry, held } = await open();
  const append = (query: DeletionRequest['query']) =>
    log.append([requestOf(query)], registry, held.clock, signal);
  const versions: number[] = [];
  for (let i = 0; i < 3; i += 1) versions.push((await append(some))[0]!.version);
  const [all] = await append({ kind: 'all' });
  assert.ok(versions.every((version) => version < all!.version));
  assert.deepEqual((await log.list(signal)).deletions, [all]);
  const [since] = await append(some);
  const part = { ...requestOf({ kind: 'all' }), startNanos: 0n };
  const [ofRange] = await log.append([part], registry, held.clock, signal);
  assert.deepEqual((await log.list(signal)).deletions, [all, since, ofRange]);
});

test('a retention that became longer keeps deletions longer', async () => {
  const { log, registry, held } = await open();
  const [deletion] = await log.append([requestOf(some)], registry, held.clock, signal);
  const { name, options } = registry.get('default')!;
  const retentionOptions = {
    ...options.retentionOptions,
    retentionPeriodNanos: 96n * hourNanos,
  };
  const longer = new Map([[name, { name, options: { ...options, retentionOptions } }]]);
  held.millis = Number(deletion!.expiresNanos / 1_000_000n) + 1;
  await cleanedByAll(log);
  assert.equal(await log.retire(longer, held.clock, signal), 0);
  assert.equal(await log.retire(registry, held.clock, signal), 1);
  assert.deepEqual((await log.list(signal)).deletions, []);
});

test('a deletion stands until every instance has cleaned its files, whatever a clock says', async () => {
  const { log, registry, held } = await open();
  const [deletion] = await log.append([requestOf(some)], registry, held.clock, signal);
  held.millis = Number(deletion!.expiresNanos / 1_000_000n) + 1;
  for (const progress of [null, { applied: 0, cleaned: 0 }, { applied: 1, cleaned: 0 }]) {
    if (progress !== null) await log.confirm('tsdb_local', progress, signal);
    await log.confirm('somebody else', { applied: 9, cleaned: 9 }, signal);
    assert.equal(await log.retire(registry, held.clock, signal), 0);
  }
  await cleanedByAll(log);
  assert.equal(await log.retire(registry, held.clock, signal), 1);
});

test('deleting a namespace stands as a deletion of everything in it', async () => {
  const { log, admin } = await open();
  await admin.namespaceDelete('default', { dryRun: true, force: false }, signal);
  assert.deepEqual((await log.list(signal)).deletions, []);
  await admin.namespaceDelete('default', plainRequest, signal);
  const [deletion] = (await log.list(signal)).deletions;
  assert.equal(deletion!.namespace, 'default');
  assert.ok(deletesAll(deletion!));
  await assert.rejects(admin.namespaceDelete('default', plainRequest, signal), {
    code: 'NOT_FOUND',
  });
});

test('whenAll() waits for every instance, and names those that did not come', async () => {
  const { log } = await open();
  const stop = new AbortController();
  const done = log.whenAll(['a', 'b', 'c'], ({ applied }) => applied >= 5, stop.signal);
  await log.confirm('a', { applied: 5, cleaned: 0 }, signal);
  await log.confirm('b', { applied: 4, cleaned: 4 }, signal);
  await log.confirm('b', { applied: 6, cleaned: 4 }, signal);
  const both = log.whenAll(['a', 'b'], ({ applied }) => applied >= 5, signal);
  assert.deepEqual(await both, []);
  stop.abort();
  assert.deepEqual(await done, ['c']);
});

test('whenAll() goes on when the key-value store has forgotten what it watches from', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const kv = store.client();
  let lists = 0;
  const forgetful = {
    ...lookingFirst(kv, () => Promise.resolve()),
    list: async (...[prefix, until]: Parameters<typeof kv.list>) => {
      const listing = await kv.list(prefix, until);
      lists += 1;
      if (lists === 1) {
        const put = { kind: 'put', key: 'other', value: new Uint8Array(0) } as const;
        for (let i = 0; i < 3; i += 1) await kv.transact([], [put], signal);
        store.compact(store.revision);
      }
      return listing;
    },
  };
  const log = new DeletionLog(forgetful, cluster);
  const done = log.whenAll(['a'], ({ applied }) => applied >= 5, signal);
  await log.confirm('a', { applied: 5, cleaned: 0 }, signal);
  assert.deepEqual(await done, []);
  assert.equal(lists, 2);
});

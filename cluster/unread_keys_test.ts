/** Stored values with keys of a later version: read as if they were not there, and kept. */
import { bootstrappedFrom } from './placement/placement_testing.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { ClusterAdmin } from './admin/admin.ts';
import { plainRequest } from './admin/placement_requests.ts';
import type { KeyValue } from './kv/kv.ts';
import { MemoryKvStore } from './kv/memory.ts';
import { DeletionLog } from './metadata/deletion_log.ts';
import { allTime } from './metadata/deletions.ts';
import { noRuntimeLimits, withRuntimeLimit } from './metadata/runtime_limits.ts';
import { registryOf } from './namespaces/namespaces.ts';
import { withUnreadKeys } from './unread_keys.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const { clock, random } = realEnv;

function newCluster() {
  const kv = new MemoryKvStore({ clock }).client();
  return {
    kv,
    admin: new ClusterAdmin({ kv, cluster, clock, random }),
    log: new DeletionLog(kv, cluster),
  };
}

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The value with a key of the future in every object, which says where it is. */
function withFutureKeys(json: Json, path = ''): Json {
  if (Array.isArray(json)) return json.map((item, i) => withFutureKeys(item, `${path}[${i}]`));
  if (typeof json !== 'object' || json === null) return json;
  const members = Object.entries(json).map(([key, value]): [string, Json] => [
    key,
    // Objects by name and queries have no fields of their own.
    key === 'query' ? value : withFutureKeys(value, `${path}.${key}`),
  ]);
  const isByName = path.endsWith('.namespaces') || path.endsWith('.instances');
  return { ...Object.fromEntries(members), ...(isByName ? {} : { future: { of: path } }) };
}

/** All places of the keys of the future in a value. */
function futureKeysOf(json: Json, path = ''): string[] {
  if (typeof json !== 'object' || json === null) return [];
  return Object.entries(json).flatMap(([key, value]) =>
    key === 'future' ? [path] : futureKeysOf(value, `${path}.${key}`),
  );
}

const jsonOf = (item: KeyValue): Json => JSON.parse(new TextDecoder().decode(item.value)) as Json;

test('namespaces, placement and deletions with keys of a later version are read and keep them', async () => {
  const { kv, admin, log } = newCluster();
  const create = { type: 'local', namespaceName: 'a', numShards: 4 };
  await admin.databaseCreate(create, plainRequest, signal);
  await admin.namespaceAdd(
    {
      name: 'b',
      options: {
        retentionOptions: { retentionPeriodDuration: '48h', blockSizeDuration: '2h' },
        aggregationOptions: { aggregations: [{ aggregated: false }] },
      },
    },
    plainRequest,
    signal,
  );
  // As an earlier release took them.
  const runtimeOptions = {
    writeIndexingPerCPUConcurrency: 1,
    flushIndexingPerCPUConcurrency: null,
  };
  const extendedOptions = { type: 'x', options: 'y' };
  await admin.namespaces.update((registry) => {
    const b = registry.get('b')!;
    const options = { ...b.options, extendedOptions, runtimeOptions };
    return registryOf(
      [...registry.values()].map((each) => (each === b ? { ...b, options } : each)),
    );
  }, signal);
  await admin.markAvailable('tsdb_local', bootstrappedFrom(new Map([[0, '']])), signal);
  const registry = (await admin.namespaces.get(signal)).value;
  const all = { namespace: 'a', query: { kind: 'all' }, ...allTime, selectors: [] } as const;
  await log.append([all], registry, clock, signal);
  const read = async () => [
    await admin.placementGet(null, signal),
    await admin.placementGet(2, signal),
    await admin.namespaceGet(false, signal),
    await log.list(signal).then(({ head, deletions, damaged }) => [head, deletions, damaged]),
  ];
  const before = await read();

  const { items } = await kv.list('_kv/', signal);
  for (const item of items) {
    // A version of the key is a fact of the placement: it is put again under the next one.
    const value = new TextEncoder().encode(JSON.stringify(withFutureKeys(jsonOf(item))));
    await kv.transact([], [{ kind: 'put', key: item.key, value }], signal);
  }
  const [current, ...others] = before as [{ version: number }, ...unknown[]];
  assert.deepEqual(await read(), [{ ...current, version: current.version + 1 }, ...others]);

  await admin.namespaceUpdate(
    { name: 'a', options: { retentionOptions: { retentionPeriodDuration: '72h' } } },
    plainRequest,
    signal,
  );
  await admin.namespaceReady({ name: 'b', force: true }, plainRequest, async () => {}, signal);
  await admin.markAvailable('tsdb_local', bootstrappedFrom(new Map([[2, '']])), signal);
  await log.append([all], registry, clock, signal);
  await log.clean(signal);
  const kept = new Map(
    (await kv.list('_kv/', signal)).items.map((item) => [
      item.key.replace(/^_kv\/default_env\/embedded\//, ''),
      futureKeysOf(jsonOf(item)),
    ]),
  );
  const options = (name: string) => `.namespaces.${name}`;
  assert.deepEqual(kept.get('tsdb.node.namespaces')!.sort(), [
    '',
    options('a'),
    `${options('a')}.aggregationOptions`,
    `${options('a')}.aggregationOptions.aggregations.0`,
    `${options('a')}.indexOptions`,
    `${options('a')}.retentionOptions`,
    `${options('a')}.stagingState`,
    options('b'),
    `${options('b')}.aggregationOptions`,
    `${options('b')}.aggregationOptions.aggregations.0`,
    `${options('b')}.extendedOptions`,
    `${options('b')}.indexOptions`,
    `${options('b')}.retentionOptions`,
    `${options('b')}.runtimeOptions`,
    `${options('b')}.stagingState`,
  ]);
  const instance = '.instances.tsdb_local';
  const placement = [
    '',
    instance,
    `${instance}.metadata`,
    `${instance}.shards.0`,
    `${instance}.shards.1`,
    `${instance}.shards.2`,
  ];
  assert.deepEqual(kept.get('placement/tsdb')!.sort(), placement);
  const assignments = ['', instance, `${instance}.assignments.0`];
  assert.deepEqual(kept.get('placement/tsdb/assignments')!.sort(), assignments);
  assert.deepEqual(kept.get('tsdb.node.deletions/head'), ['']);
});

test('several objects of one list keep their keys, and objects inside them too', () => {
  const stored = { list: [{ a: 1, inner: { b: 2 } }, { a: 3 }] };
  const unread = [
    { steps: ['list', 0, 'inner'], keys: { later: 'inner' } },
    { steps: ['list', 0], keys: { later: 'first' } },
    { steps: ['list', 1], keys: { later: 'second' } },
  ];
  assert.deepEqual(withUnreadKeys(stored, stored, unread), {
    list: [
      { a: 1, inner: { b: 2, later: 'inner' }, later: 'first' },
      { a: 3, later: 'second' },
    ],
  });
});

test('what an object had goes with it, and what a list had when it is changed', async () => {
  const unread = [
    { steps: ['gone'], keys: { future: 1 } },
    { steps: ['list', 1], keys: { future: 2 } },
    { steps: ['kept', 'inner'], keys: { future: 3 } },
  ];
  const before = { gone: {}, list: [{ a: 1 }, { a: 2 }], kept: { inner: { a: 1 } } };
  const next = { list: [{ a: 2 }], kept: { inner: { a: 2 } } };
  const written = { list: [{ a: 2 }], kept: { inner: { a: 2, future: 3 } } };
  assert.deepEqual(withUnreadKeys<object>(next, before, unread), written);
  assert.deepEqual(next, { list: [{ a: 2 }], kept: { inner: { a: 2 } } });
});

test('a value that only a later version has stays where this one writes a constant', async () => {
  const { kv, admin } = newCluster();
  const create = { type: 'local', namespaceName: 'a', numShards: 1 };
  await admin.databaseCreate(create, plainRequest, signal);
  const change = async (key: string, edit: (text: string) => string) => {
    const item = (await kv.get(key, signal))!;
    const value = new TextEncoder().encode(edit(new TextDecoder().decode(item.value)));
    await kv.transact([], [{ kind: 'put', key, value }], signal);
  };
  const { key: namespacesKey } = admin.namespaces;
  const { key: placementKey } = admin.placements;
  await change(namespacesKey, (text) =>
    text.replace('"schemaOptions":null', '"schemaOptions":{"version":3}'),
  );
  await change(placementKey, (text) => text.replace('"subclusterId":0', '"subclusterId":7'));
  await admin.namespaceInitializing('a', signal);
  await admin.markAvailable('tsdb_local', bootstrappedFrom(new Map([[0, '']])), signal);
  const text = async (key: string) => new TextDecoder().decode((await kv.get(key, signal))!.value);
  assert.match(await text(namespacesKey), /"schemaOptions":\{"version":3\}.*INITIALIZING/);
  assert.match(await text(placementKey), /AVAILABLE.*"subclusterId":7/);
});

test('a limit with an unknown key is refused of a request and taken of the store', () => {
  const limits = {
    maxRecentlyQueriedSeriesBlocks: { limit: 5, lookbackSeconds: 1, future: 1 },
    maxRecentlyQueriedFuture: { limit: 7 },
  };
  const key = 'tsdb.query.limits';
  assert.throws(() => withRuntimeLimit(noRuntimeLimits, key, limits, 'request'), /future/);
  const { query } = withRuntimeLimit(noRuntimeLimits, key, limits, 'stored');
  assert.equal(query!.seriesBlocks.limit, 5);
});

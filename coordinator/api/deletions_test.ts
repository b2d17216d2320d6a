import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { nothingForced } from '../forced_tags/forced_tags.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import type { TopologyView } from '#cluster/topology/topology.ts';
import { TsdbError } from '#lib/errors.ts';
import { realEnv } from '#lib/env/real.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { parseSelectors } from '../promql/engine.ts';
import { deleteSeries } from './deletions.ts';

const { signal } = new AbortController();
const header = (): string => '';
const { clock, random } = realEnv;
const cluster = { environment: 'default_env', zone: 'embedded' };

test('delete_series holds its range inside of 64 bits, so that every entry can be read', async () => {
  const kv = new MemoryKvStore({ clock }).client();
  const create = { type: 'local', namespaceName: 'default', retentionTime: '48h' };
  await new ClusterAdmin({ kv, cluster, clock, random }).databaseCreate(
    create,
    plainRequest,
    signal,
  );
  const namespaces = (await new NamespaceStore(kv, cluster).get(signal)).value;
  const log = new DeletionLog(kv, cluster);
  const view = { namespaces, placement: null } as unknown as TopologyView;
  const setup = {
    log,
    topology: { refresh: async () => view },
    parseSelectors,
    turningOf: () => turningOf(),
    clock,
    forcedFor: () => nothingForced,
    checkClock: () => {},
    noteDeletion: () => {},
  };
  const deleted = async (range: Record<string, string>): Promise<bigint[]> => {
    const parameters = new URLSearchParams({ 'match[]': 'up', namespace: 'default', ...range });
    const request = {
      method: 'POST',
      pathParameters: {},
      urlParameters: parameters,
      header,
      signal,
      readMemory: unlimitedReadBytes,
    };
    const answer = await deleteSeries(setup, request, parameters);
    assert.equal(answer.status, 204);
    const { deletions, damaged } = await log.list(signal);
    assert.deepEqual(damaged, []);
    const { startNanos, endNanos } = deletions.at(-1)!;
    return [startNanos, endNanos];
  };
  const { startNanos, endNanos } = allTime;
  assert.deepEqual(await deleted({ end: '9999-12-31T23:59:59Z' }), [startNanos, endNanos]);
  assert.deepEqual(await deleted({ end: '9223372036.854775807' }), [startNanos, endNanos]);
  assert.deepEqual(await deleted({ start: '0001-01-01T00:00:00Z', end: '1' }), [
    startNanos,
    1_000_000_001n,
  ]);
  assert.deepEqual(
    await deleted({
      start: '-292273086-05-16T16:47:06Z',
      end: '292277025-08-18T07:12:54.999999999Z',
    }),
    [startNanos, endNanos],
  );
  const before = (await log.list(signal)).head;
  const checkClock = (what: string): void => {
    throw new TsdbError('FAILED_PRECONDITION', `cannot ${what}: the clock is ahead`);
  };
  const parameters = new URLSearchParams({ 'match[]': 'up' });
  const request = {
    method: 'POST',
    pathParameters: {},
    urlParameters: parameters,
    header,
    signal,
    readMemory: unlimitedReadBytes,
  };
  await assert.rejects(deleteSeries({ ...setup, checkClock }, request, parameters), {
    httpStatus: 503,
    message: 'cannot delete series: the clock is ahead',
  });
  assert.deepEqual((await log.list(signal)).head, before);
});

test('a deletion takes the exemplars of all milliseconds that are in its range, whatever their rows have below them', async () => {
  const kv = new MemoryKvStore({ clock }).client();
  const names = ['default', '_exemplars', '_metadata'];
  const [first] = names;
  const create = { type: 'local', namespaceName: first, retentionTime: '48h' };
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  await admin.databaseCreate(create, plainRequest, signal);
  const made = (await new NamespaceStore(kv, cluster).get(signal)).value.get('default')!;
  const namespaces = new Map(names.map((name) => [name, { ...made, name }]));
  const log = new DeletionLog(kv, cluster);
  const setup = {
    log,
    topology: { refresh: async () => ({ namespaces, placement: null }) as unknown as TopologyView },
    parseSelectors,
    turningOf: () => turningOf(),
    clock,
    forcedFor: () => nothingForced,
    checkClock: () => {},
    noteDeletion: () => {},
  };
  const ranges = async (range: Record<string, string>): Promise<bigint[][]> => {
    const parameters = new URLSearchParams({ 'match[]': 'up', ...range });
    for (const name of names) parameters.append('namespace', name);
    const request = {
      method: 'POST',
      pathParameters: {},
      urlParameters: parameters,
      header,
      signal,
      readMemory: unlimitedReadBytes,
    };
    assert.equal((await deleteSeries(setup, request, parameters)).status, 204);
    const { deletions } = await log.list(signal);
    return names.map((name) => {
      const { startNanos, endNanos } = deletions.findLast(({ namespace }) => namespace === name)!;
      return [startNanos, endNanos];
    });
  };
  const ofMillis = [5_000_000_000n, 7_001_000_000n];
  assert.deepEqual(await ranges({ start: '5', end: '7' }), [
    [5_000_000_000n, 7_000_000_001n],
    ofMillis,
    ofMillis,
  ]);
  assert.deepEqual((await ranges({ start: '4.999000001', end: '7.000999999' })).slice(1), [
    ofMillis,
    ofMillis,
  ]);
  const { startNanos, endNanos } = allTime;
  assert.deepEqual(
    await ranges({}),
    names.map(() => [startNanos, endNanos]),
  );
});

test('a deletion is of the series alone to which a request is forced', async () => {
  const kv = new MemoryKvStore({ clock }).client();
  const create = { type: 'local', namespaceName: 'default', retentionTime: '48h' };
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  await admin.databaseCreate(create, plainRequest, signal);
  const namespaces = (await new NamespaceStore(kv, cluster).get(signal)).value;
  const log = new DeletionLog(kv, cluster);
  const setup = {
    log,
    topology: { refresh: async () => ({ namespaces, placement: null }) as unknown as TopologyView },
    parseSelectors,
    turningOf: () => turningOf(),
    clock,
    forcedFor: () => ({
      matchers: [{ name: 'tenant', kind: '=', value: 'a' } as const],
      hidden: new Set(['tenant']),
    }),
    checkClock: () => {},
    noteDeletion: () => {},
  };
  const parameters = new URLSearchParams({ 'match[]': 'up', namespace: 'default' });
  const request = {
    method: 'POST',
    pathParameters: {},
    urlParameters: parameters,
    header,
    signal,
    readMemory: unlimitedReadBytes,
  };
  assert.equal((await deleteSeries(setup, request, parameters)).status, 204);
  const { query, selectors } = (await log.list(signal)).deletions.at(-1)!;
  assert.deepEqual(query, {
    kind: 'conjunction',
    queries: [
      { kind: 'term', field: '__name__', term: 'up' },
      { kind: 'term', field: 'tenant', term: 'a' },
    ],
  });
  assert.deepEqual(selectors, ['up and {tenant="a"}']);
  // Metadata are about all series, whatever tags these have.
  const ofMetadata = new URLSearchParams({ 'match[]': 'up', namespace: '_metadata' });
  await assert.rejects(deleteSeries(setup, request, ofMetadata), {
    message: 'namespace: _metadata is about all series, and tags are forced on who asks',
  });
});

test('delete_series refuses regexps that take long to compare with each series', async () => {
  const setup = {
    log: null as never,
    topology: { refresh: () => assert.fail('nothing is deleted') },
    parseSelectors,
    turningOf: () => turningOf(),
    clock,
    forcedFor: () => nothingForced,
    checkClock: () => {},
    noteDeletion: () => {},
  };
  const list = Array.from({ length: 5_000 }, (_, i) => `host-${i}`).join('|');
  for (const [pattern, isRefused] of [
    ['(?:[^\\\\p{L}]|x)'.repeat(1_000), true],
    ['(a|b)*a(a|b){900}c', true],
    ['(?i)host-[0-9]+\\\\.(eu|us)', false],
    [list, false],
  ] as const) {
    const parameters = new URLSearchParams({ 'match[]': `{v=~"${pattern}"}` });
    const request = {
      method: 'POST',
      pathParameters: {},
      urlParameters: parameters,
      header,
      signal,
      readMemory: unlimitedReadBytes,
    };
    const message = isRefused
      ? /^match\[\]: regular expression takes too long to compare for a deletion/
      : /nothing is deleted/;
    await assert.rejects(async () => deleteSeries(setup, request, parameters), { message });
  }
});

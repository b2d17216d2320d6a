import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { Topology } from '../topology/topology.ts';
import { addNamespace, advanceStaging } from '../namespaces/changes.ts';
import { droppedCompanion } from '../namespaces/dropped.ts';
import { ClusterAdmin } from './admin.ts';
import { plainRequest } from './placement_requests.ts';
import { keepDroppedLongEnough, promiseNamespaces } from './promises.ts';

const never = new AbortController().signal;
const cluster = { environment: 'default_env', zone: 'embedded' };

test('a promise is made when every node has heard of all namespaces of samples, and of this store', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const { clock, random } = realEnv;
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  const instances = ['a', 'b'].map((id) => ({
    id,
    isolationGroup: id,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:9000`,
    hostname: id,
    port: 9000,
  }));
  await admin.placementInit({ numShards: 2, replicationFactor: 2, instances }, plainRequest, never);
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(never);
  const makeReady = async (name: string): Promise<number> => {
    const retentionOptions = {
      retentionPeriodDuration: '48h',
      blockSizeDuration: '2h',
      bufferFutureDuration: '10m',
      bufferPastDuration: '10m',
    };
    await admin.namespaceAdd({ name, options: { retentionOptions } }, plainRequest, never);
    await admin.namespaceReady({ name, force: true }, plainRequest, async () => {}, never);
    return (await topology.refresh(never)).namespacesRevision;
  };
  const heard = new Map<string, { revision: number; lineageId: string }>();
  let level = 3;
  const target = {
    namespaces: admin.namespaces,
    topology,
    clock,
    nodeOf: ({ id }: { readonly id: string }) => ({
      health: async () => {
        const says = heard.get(id);
        if (says === undefined) throw new TsdbError('UNAVAILABLE', 'it is away');
        const { revision, lineageId } = says;
        return { namespacesRevision: revision, lineageId, formatLevelWritten: level } as never;
      },
    }),
  };
  const sinceOf = (name: string) => topology.view.namespaces.get(name)!.completeSinceNanos;

  await makeReady('first');
  assert.equal(sinceOf('first'), 0n);
  assert.equal(await promiseNamespaces(target, never), true);
  const revision = await makeReady('second');
  const { lineageId } = topology.view;
  for (const id of ['a', 'b']) heard.set(id, { revision, lineageId });
  assert.equal(await promiseNamespaces(target, never), false, 'before the upgrade is finished');
  level = 4;
  for (const says of [{ revision: revision - 1, lineageId }, { revision, lineageId: 'x' }, null]) {
    if (says === null) heard.delete('b');
    else heard.set('b', says);
    assert.equal(await promiseNamespaces(target, never), false);
    assert.equal(sinceOf('second'), undefined);
  }
  heard.set('b', { revision, lineageId });
  const before = clock.nowNanos();
  assert.equal(await promiseNamespaces(target, never), true);
  const since = sinceOf('second')!;
  assert.ok(since >= before + 720_000_000_000n && since <= clock.nowNanos() + 720_000_000_000n);
  assert.equal(sinceOf('first'), 0n);
});

test('dropped samples are kept for longer when a coarser resolution comes', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const { clock, random } = realEnv;
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  const create = { type: 'local', namespaceName: 'default', retentionTime: '480h' };
  await admin.databaseCreate(create, plainRequest, never);
  await admin.namespaceReady({ name: 'default', force: true }, plainRequest, async () => {}, never);
  await admin.namespaces.update((registry) => {
    const companion = droppedCompanion(registry);
    return advanceStaging(
      addNamespace(registry, companion),
      companion.name,
      'READY',
      clock.nowNanos(),
    );
  }, never);
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(never);
  const target = { namespaces: admin.namespaces, topology, clock };
  const hours = async (): Promise<number> => {
    await keepDroppedLongEnough(target, never);
    const { namespaces } = await topology.refresh(never);
    const { retentionPeriodNanos } = namespaces.get('_dropped')!.options.retentionOptions;
    return Number(retentionPeriodNanos / 3_600_000_000_000n);
  };
  assert.equal(await hours(), 72);
  const attributes = { resolutionDuration: '168h' };
  const options = {
    flushEnabled: true,
    retentionOptions: { retentionPeriodDuration: '9000h', blockSizeDuration: '168h' },
    aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
  };
  await admin.namespaceAdd({ name: 'weeks', options }, plainRequest, never);
  await topology.refresh(never);
  assert.equal(await hours(), 72);
  await admin.namespaces.update(
    (registry) => advanceStaging(registry, 'weeks', 'READY', clock.nowNanos()),
    never,
  );
  await topology.refresh(never);
  assert.equal(await hours(), 504);
});

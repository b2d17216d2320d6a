import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { Topology } from '../topology/topology.ts';
import { ClusterAdmin } from './admin.ts';
import { plainRequest } from './placement_requests.ts';
import { promiseNamespaces } from './promises.ts';

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

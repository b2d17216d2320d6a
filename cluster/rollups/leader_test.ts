/** Which process makes the rollups of a cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '../aggregation_rules/sets/sets_testing.ts';
import { type MemoryKv, MemoryKvStore } from '../kv/memory.ts';
import { aggregatorService } from '../kv/keys.ts';
import { initMirrored } from '../placement/mirrored.ts';
import { PlacementStore } from '../placement/store.ts';
import { AggregatorsFollower } from './aggregators_follower.ts';
import { RollupMarks } from './marks.ts';
import { advanceStaging } from '../namespaces/changes.ts';
import { registryOf } from '../namespaces/namespaces.ts';
import { namespaceOfAddRequest } from '../namespaces/request.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { rollupMetrics } from './metrics.ts';
import { Rollups, type RollupsOptions } from './rollups.ts';
import { type RollupShare, shareOfCoordinators, shareOfInstance } from './share.ts';

const never = new AbortController().signal;
const cluster = { environment: 'test', zone: 'embedded' };
/** Waits are shorter. */
const env: Env = {
  ...realEnv,
  clock: {
    ...realEnv.clock,
    sleep: (millis, signal) => realEnv.clock.sleep(millis / 50, signal),
  },
};

const sets = ruleSetsOf([
  1n,
  {
    rollupRules: [
      {
        name: 'all',
        filter: 'app:*',
        transforms: [{ rollup: { metricName: 'all', groupBy: ['app'], aggregations: ['Sum'] } }],
        storagePolicies: [{ resolution: '1m', retention: '720h' }],
      },
    ],
  },
]);

const ofAll = shareOfCoordinators(cluster, { placement: null, modRevision: 0 })!;

function namespaces() {
  const attributes = { resolutionDuration: '1m' };
  let all = registryOf([
    namespaceOfAddRequest({
      name: 'samples',
      options: {
        flushEnabled: true,
        retentionOptions: {
          retentionPeriodDuration: '48h',
          blockSizeDuration: '2h',
          // Windows of so long ago are made when the first process starts.
          bufferPastDuration: '10m',
        },
      },
    }),
    namespaceOfAddRequest({
      name: 'minutes',
      options: {
        flushEnabled: true,
        retentionOptions: { retentionPeriodDuration: '720h', blockSizeDuration: '24h' },
        aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
      },
    }),
  ]);
  for (const name of ['samples', 'minutes']) {
    all = advanceStaging(all, name, 'READY', realEnv.clock.nowNanos());
  }
  return all;
}

class Process implements AsyncDisposable {
  readonly metrics: Metrics = new Metrics();
  readonly rollups: Rollups;
  fetches = 0;
  fails = false;
  share: RollupShare | null = ofAll;

  /** @param aheadNanos of the machine's clock, which storage nodes know better */
  constructor(kv: MemoryKv, aheadNanos = 0n) {
    const nowNanos = (): bigint => realEnv.clock.nowNanos() + aheadNanos;
    const view = { isLoaded: true, awaitsApproval: false, namespaces: namespaces(), placement: {} };
    const session = {
      formatLevel: 4,
      fetch: async () => {
        this.fetches += 1;
        if (this.fails) throw new TsdbError('UNAVAILABLE', 'no majority');
        return { bundle: emptyBundle, exhaustive: true, warnings: [] };
      },
      write: () => assert.fail('there is nothing to write'),
    };
    this.rollups = new Rollups({
      kv,
      cluster,
      env: { ...env, clock: { ...env.clock, nowNanos } },
      time: { earliestNanos: () => realEnv.clock.nowNanos() },
      log: silentLog,
      topology: { view },
      session,
      rules: {
        get known() {
          return { sets, knownNanos: realEnv.clock.nowNanos() };
        },
      },
      idScheme: 'quoted',
      metrics: rollupMetrics(this.metrics),
      share: () => this.share,
      shareCount: () => 1,
    } as unknown as RollupsOptions).start();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.rollups[Symbol.asyncDispose]();
  }

  async says(line: RegExp): Promise<boolean> {
    return line.test(await this.metrics.text());
  }

  leads(): Promise<boolean> {
    return this.says(/^tsdb_rollups_leader 1$/m);
  }
}

async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (await isSo()) return;
    await realEnv.clock.sleep(20, never);
  }
  assert.fail(`not in time: ${what}`);
}

test('one process makes rollups, and another one when that ends; what fails is tried again', async () => {
  await using kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  await using first = new Process(kv);
  first.fails = true;
  await until('it has failed', () => first.says(/rollup_failures_total [2-9]/));
  assert.ok(await first.leads(), 'it goes on');
  first.fails = false;
  await until('it makes windows', () => first.says(/rollup_windows_total [1-9]/));
  await using second = new Process(kv);
  await realEnv.clock.sleep(300, never);
  assert.deepEqual([await first.leads(), await second.leads(), second.fetches], [true, false, 0]);
  await first[Symbol.asyncDispose]();
  await until('the second one leads', () => second.leads());
  await until('it looks at rows', () => second.fetches > 0);
  const prefix = '_kv/test/embedded/tsdb.rollups/';
  const { items } = await kv.list(prefix, never);
  assert.deepEqual(
    items.map(({ key }) => key.slice(prefix.length)),
    ['final/60000000000:2592000000000000', 'leader'],
  );
});

test('windows are due and final by the clocks of storage nodes, not by one that is ahead of them', async () => {
  await using kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  await using process = new Process(kv, 3_600_000_000_000n);
  await until('it makes windows', () => process.says(/rollup_windows_total [1-9]/));
  const policy = { resolutionNanos: 60_000_000_000n, retentionNanos: 2_592_000_000_000_000n };
  const finalEnd = await new RollupMarks(kv, cluster).read(policy, ofAll, never);
  assert.ok(finalEnd! < realEnv.clock.nowNanos());
});

test('who is asked to resign lets another one lead', async () => {
  await using kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  await using first = new Process(kv);
  await until('the first one leads', () => first.leads());
  await using second = new Process(kv);
  await first.rollups.resign();
  assert.ok(!first.rollups.leads);
  await until('the second one leads', () => second.leads());
  assert.ok(!(await first.says(/rollup_failures_total [1-9]/)));
});

test('aggregators take rollups over from coordinators, each shard set its share, and give them back', async () => {
  await using kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const store = new PlacementStore(kv, cluster, realEnv.random, aggregatorService);
  await using coordinator = new Process(kv);
  await until('coordinators make windows', () => coordinator.says(/rollup_windows_total [1-9]/));
  const instances = ['a', 'b', 'c', 'd'].map((id) => ({
    id,
    isolationGroup: id,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:6000`,
    hostname: id,
    port: 6000,
    shardSetId: 0,
    debugPort: 0,
  }));
  await store.create(initMirrored(instances, { numShards: 8, replicaFactor: 2 }), never);
  await using follower = new AggregatorsFollower({ kv, cluster, env, log: silentLog }).start();
  await until('the placement is known', () => follower.known?.placement !== null);
  const known = follower.known!;
  coordinator.share = shareOfCoordinators(cluster, known);
  assert.equal(coordinator.share, null);
  const processes = instances.map(({ id }) => {
    const process = new Process(kv);
    process.share = shareOfInstance(cluster, known, id);
    return process;
  });
  const leaders = async (): Promise<string> => {
    const lead = await Promise.all(processes.map((process) => process.leads()));
    return instances.flatMap(({ id }, i) => (lead[i] === true ? id : [])).join('');
  };
  await until('each set has a leader', async () => /^[ab][cd]$/.test(await leaders()));
  assert.ok(!(await coordinator.leads()));
  const policyKey = '_kv/test/embedded/tsdb.rollups/final/60000000000:2592000000000000';
  const marksOf = async () => {
    const { items } = await kv.list(policyKey, never);
    return items.map(({ key, value }) => [
      key.slice(policyKey.length),
      Buffer.from(value).toString(),
    ]);
  };
  const [[, first]] = (await marksOf()) as [[string, string]];
  const { finalEndNanos } = JSON.parse(first) as { finalEndNanos: string };
  await until('they go on from there', async () => {
    const ends = await Promise.all(
      processes.map((process) => process.says(/rollup_lag_seconds\{namespace="minutes"\} \d/)),
    );
    return ends.filter((has) => has).length === 2;
  });
  const marks = new RollupMarks(kv, cluster);
  const policy = { resolutionNanos: 60_000_000_000n, retentionNanos: 2_592_000_000_000_000n };
  assert.equal(await marks.read(policy, processes[0]!.share!, never), BigInt(finalEndNanos));

  for (const process of processes) await process[Symbol.asyncDispose]();
  await store.delete(never);
  await until('there are none', () => follower.known?.placement === null);
  coordinator.share = shareOfCoordinators(cluster, follower.known!);
  await until('coordinators make them', () => coordinator.leads());
});

/** Which process makes the rollups of a cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { type MemoryKv, MemoryKvStore } from '#cluster/kv/memory.ts';
import { advanceStaging } from '#cluster/namespaces/changes.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { namespaceOfAddRequest } from '#cluster/namespaces/request.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { rollupMetrics } from './metrics.ts';
import { Rollups, type RollupsOptions } from './rollups.ts';

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

  constructor(kv: MemoryKv) {
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
      env,
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
    } as unknown as RollupsOptions).start();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.rollups[Symbol.asyncDispose]();
  }

  async says(line: RegExp): Promise<boolean> {
    return line.test(await this.metrics.text());
  }

  leads(): Promise<boolean> {
    return this.says(/^tsdb_coordinator_rollups_leader 1$/m);
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

/**
 * A real process with samples and two aggregated namespaces: these are filled from what is there, and when samples are past
 * retention queries go on with windows, without a seam (docs/AGGREGATION.md). Twenty seconds: samples are in filesets ten
 * after the last one came, windows and expiry a tick later each.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rulesOfFile } from '#cluster/aggregation_rules/sets/file.ts';
import { withRules } from '#cluster/aggregation_rules/sets/set.ts';
import { RuleSetStore } from '#cluster/aggregation_rules/sets/store.ts';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { call, createLocalDatabase, eventually, namespaceReady, NodeServer } from './process.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-resolutions-'));
const server = await NodeServer.create({ folder, settings: ['tick: {minimumInterval: 1s}'] });
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

const hour = 3_600;
const step = 60;
/** An hour before the end of the last half day whose blocks are closed: windows are made by half days. */
const end = (Math.floor((Date.now() / 1000 / hour - 2.5) / 12) * 12 - 1) * hour;
const start = end - 30 * hour;
/** What is before is read from windows once samples are kept for less. */
const shortened = 20 * hour;

/** A gauge, and a counter that begins again now and then. */
const valueOf = (name: string, at: number): number => {
  const i = (at - start) / step;
  return name === 'gauge' ? ((i * 7919) % 1009) - 300 : (i % 700) * 3 + 1;
};

const names = ['gauge', 'counter'] as const;

async function answerOf(query: string, parameters: string): Promise<any> {
  const path = `${server.url}/api/v1/${parameters.includes('step=') ? 'query_range' : 'query'}`;
  const answer = await call('GET', `${path}?query=${encodeURIComponent(query)}&${parameters}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

/** By time: the only series of the answer. */
async function valuesOf(query: string, from: number, to: number): Promise<Map<number, number>> {
  const { data } = await answerOf(query, `start=${from}&end=${to}&step=${hour}`);
  assert.ok(data.result.length <= 1);
  return new Map(
    (data.result[0]?.values ?? []).map(([at, value]: [number, string]) => [at, Number(value)]),
  );
}

async function countOf(name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${server.ports.metrics}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN);
}

/** Values of the samples in (from, to]. */
function samples(name: string, from: number, to: number): number[] {
  const first = Math.max(start, Math.floor(from / step) * step + step);
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, i) =>
    valueOf(name, first + i * step),
  );
}

/** What functions give over windows, worked out from samples: of ranges whose ends are those of windows. */
const expected: Record<string, (name: string, from: number, to: number) => number> = {
  max_over_time: (...of) => Math.max(...samples(...of)),
  min_over_time: (...of) => Math.min(...samples(...of)),
  sum_over_time: (...of) => samples(...of).reduce((sum, value) => sum + value, 0),
  count_over_time: (...of) => samples(...of).length,
  avg_over_time: (...of) => {
    const all = samples(...of);
    return all.reduce((sum, value) => sum + value, 0) / all.length;
  },
  last_over_time: (...of) => samples(...of).at(-1)!,
};

/** Has rules of gauges hold from times on that are long past: an API of rules changes none of these. */
async function holdRules(changes: readonly (readonly [seconds: number, ...types: string[]])[]) {
  await using kv = openEtcdKv({
    endpoints: [`127.0.0.1:${server.ports.kv}`],
    env: realEnv,
    log: silentLog,
  });
  const store = new RuleSetStore(kv, { environment: 'default_env', zone: 'embedded' });
  const storagePolicies = [{ resolution: '5m', retention: '720h' }];
  for (const [seconds, ...aggregations] of changes) {
    const rule = { name: 'gauges', filter: '__name__:gauge', aggregations, storagePolicies };
    const file = { mappingRules: aggregations.length === 0 ? [] : [rule] };
    const moment = {
      cutoverNanos: BigInt(seconds) * 1_000_000_000n,
      nowMillis: realEnv.clock.nowMillis(),
      by: '',
      newId: () => 'gauges',
    };
    await store.update(
      'default',
      (set) => withRules(set, rulesOfFile(file, ''), moment),
      new AbortController().signal,
    );
  }
}

test('what was written before is in windows, and graphs go on with them when samples are gone', async () => {
  await server.start();
  const { url } = server;
  await createLocalDatabase(server, 'default', { coldWritesEnabled: true });
  const longer = { retentionOptions: { retentionPeriodDuration: '72h' } };
  const put = await call('PUT', `${url}/api/v1/services/tsdb/namespace`, {
    name: 'default',
    options: longer,
  });
  assert.equal(put.status, 200, put.text);
  const series = names.map((name) => ({
    tags: [{ name: '__name__', value: name }],
    samples: Array.from({ length: (end - start) / step + 1 }, (_, i) => ({
      timestampMillis: (start + i * step) * 1000,
      value: valueOf(name, start + i * step),
    })),
  }));
  const written = await call(
    'POST',
    `${url}/api/v1/compat/remote/write`,
    encodeRemoteWrite(series),
  );
  assert.ok(written.status < 300, written.text);
  for (const [name, resolutionDuration, retentionPeriodDuration] of [
    ['fine', '5m', '720h'],
    ['coarse', '1h', '2160h'],
  ]) {
    const added = await call('POST', `${url}/api/v1/services/tsdb/namespace`, {
      name,
      options: {
        flushEnabled: true,
        cleanupEnabled: true,
        retentionOptions: { retentionPeriodDuration, blockSizeDuration: '24h' },
        indexOptions: { enabled: true, blockSizeDuration: '24h' },
        aggregationOptions: {
          aggregations: [
            {
              aggregated: true,
              attributes: { resolutionDuration, downsampleOptions: { all: true } },
            },
          ],
        },
      },
    });
    assert.equal(added.status, 200, added.text);
    await namespaceReady(url, name!);
  }
  // Rows of closed blocks go to filesets, and of these windows are made.
  const least = names.length * ((end - start) / 300 + (end - start) / hour + 2);
  await eventually('windows are made', async () => {
    const [windows, failures] = [
      await countOf('tsdb_node_aggregation_windows_total'),
      await countOf('tsdb_node_aggregation_failures_total'),
    ];
    if (!(windows >= least))
      throw new Error(`${windows} of ${least} windows, ${failures} failures`);
    return true;
  });
  const [from, to] = [start + 8 * hour, end - hour];
  for (const [name, range] of names.flatMap(
    (each) =>
      [
        [each, hour],
        [each, 6 * hour],
      ] as const,
  )) {
    for (const [func, plain] of Object.entries(expected)) {
      const values = await valuesOf(`${func}(${name}[${range}s])`, from, to);
      for (const [at, value] of values) assert.equal(value, plain(name, at - range, at), func);
    }
  }
  const shorter = { retentionOptions: { retentionPeriodDuration: `${shortened}s` } };
  const cut = await call('PUT', `${url}/api/v1/services/tsdb/namespace`, {
    name: 'default',
    options: shorter,
  });
  assert.equal(cut.status, 200, cut.text);
  await eventually('samples are past retention', async () => {
    const headers = { 'TSDB-Metrics-Type': 'unaggregated' };
    const query = `${url}/api/v1/query?query=gauge&time=${from}`;
    const { data } = (await (await fetch(query, { headers })).json()) as any;
    return data.result.length === 0;
  });
  for (const [name, range] of names.flatMap(
    (each) =>
      [
        [each, hour],
        [each, 6 * hour],
      ] as const,
  )) {
    for (const [func, plain] of Object.entries(expected)) {
      const query = `${func}(${name}[${range}s])`;
      const values = await valuesOf(query, from, to);
      assert.equal(values.size, (to - from) / hour + 1, `${query}: a step of the graph is missing`);
      for (const [at, value] of values) {
        assert.equal(value, plain(name, at - range, at), `${query} at ${at}`);
      }
    }
  }
  const { headers } = await fetch(
    `${url}/api/v1/query_range?query=gauge&start=${from}&end=${to}&step=${hour}`,
  );
  assert.equal(headers.get('tsdb-namespaces'), 'default,fine');
  // A counter that began again inside a window loses nothing by it.
  const increase = await valuesOf('increase(counter[6h])', from, from + 4 * hour);
  assert.equal(increase.size, 5);
  for (const [at, value] of increase) {
    const all = samples('counter', at - 6 * hour - step, at);
    let sum = 0;
    for (let i = 1; i < all.length; i++) sum += all[i]! - (all[i]! < all[i - 1]! ? 0 : all[i - 1]!);
    assert.ok(Math.abs(value - sum) <= 1e-9 * sum, `increase at ${at} is ${value}, not ${sum}`);
  }
});

test('windows are read as the rules say that held when they began, after a start, too', async () => {
  const [first, second, third] = [4, 6, 8].map((hours) => start + hours * hour) as [
    number,
    number,
    number,
  ];
  const typeOf = (end: number): string => {
    const begin = end - 300;
    return begin < first ? 'Last' : begin < second ? 'Max' : begin < third ? 'Sum' : 'Last';
  };
  const plain = (end: number): number => {
    const rows = samples('gauge', end - 300, end);
    const type = typeOf(end);
    if (type === 'Max') return Math.max(...rows);
    return type === 'Sum' ? rows.reduce((a, b) => a + b, 0) : rows.at(-1)!;
  };
  const range = `start=${first - hour}&end=${third + hour}&step=300`;
  const check = async (): Promise<boolean> => {
    const { data } = await answerOf('gauge', range);
    const values: [number, string][] = data.result[0].values;
    assert.equal(values.length, (6 * hour) / 300 + 1);
    for (const [at, value] of values) assert.equal(Number(value), plain(at), `at ${at - first}`);
    return true;
  };
  await holdRules([[first, 'Max'], [second, 'Sum'], [third]]);
  await eventually('the rules are known', check);
  const ranged = await valuesOf('last_over_time(gauge[1h])', first, third);
  for (const [at, value] of ranged) assert.equal(value, samples('gauge', at - hour, at).at(-1)!);
  await server.program.stop();
  await server.start();
  await eventually('the same after a start', check);
});

test('windows stay over a start', async () => {
  const at = start + 12 * hour;
  const query = `max_over_time(gauge[6h])`;
  const before = await answerOf(query, `time=${at}`);
  await server.program.stop();
  await server.start();
  const again = await eventually('the same answer', async () => {
    const { data } = await answerOf(query, `time=${at}`);
    return data.result.length === 1 && data;
  });
  assert.deepEqual(again.result[0].value, before.data.result[0].value);
});

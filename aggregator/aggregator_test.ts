/** Aggregators over the services of a coordinator's test: what they make is read through its API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, testCluster, TestCoordinator } from '#coordinator/coordinator_testing.ts';
import { applyRules, makeAggregated } from '#coordinator/windows_testing.ts';
import { parseConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { connectGrpc } from '#lib/env/grpc.ts';
import { loadProto } from '#lib/env/proto.ts';
import { realEnv } from '#lib/env/real.ts';
import { newestFormats } from '#lib/format_level.ts';
import { type Log, silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { type Aggregator, startAggregator } from './aggregator.ts';

const never = new AbortController().signal;
const path = '/api/v1/services/m3aggregator/placement';

/** The real one, but waits between attempts are short. */
const env: Env = {
  ...realEnv,
  clock: {
    ...realEnv.clock,
    sleep: (millis, signal) => realEnv.clock.sleep(millis / 50, signal),
  },
};

/** What any of them warned of. */
const warnings: string[] = [];
const log: Log = { ...silentLog, warn: (_, message) => warnings.push(message) };

async function startOf(test: TestCoordinator, id: string, more = ''): Promise<Aggregator> {
  const text = `aggregator: {hostID: {resolver: config, value: ${id}}${more}}`;
  const config = parseConfig([{ path: 'test.yml', text }], 'aggregator', {}).aggregator!;
  const any = { host: '127.0.0.1', port: 0 };
  return startAggregator({
    config: { ...config, listenAddress: any, httpListenAddress: any, metricsListenAddress: any },
    id,
    env,
    log,
    kv: test.kv,
    cluster: testCluster,
    topology: test.topology,
    nodeOf: () => test.node,
    formats: newestFormats,
    metrics: new Metrics(),
  });
}

const instanceOf = (id: string, { grpc }: Aggregator): object => ({
  id,
  isolation_group: id[0],
  weight: 1,
  endpoint: `127.0.0.1:${grpc.port}`,
  hostname: id,
  port: grpc.port,
});

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (await isSo()) return;
    await realEnv.clock.sleep(25, never);
  }
  assert.fail(`not in time: ${what}`);
}

const askStatus = async ({ status }: Aggregator, what = 'status', method = 'GET') => {
  const answer = await fetch(`http://127.0.0.1:${status.port}/${what}`, { method });
  return { code: answer.status, json: (await answer.json()) as any };
};

const storagePolicies = [{ resolution: '1m', retention: '720h' }];
const ruleOf = (metricName: string, groupBy: string[], aggregations: string[]): object => ({
  name: metricName,
  filter: '__name__:requests app:*',
  transforms: [{ rollup: { metricName, groupBy, aggregations } }],
  storagePolicies,
});
const rules = {
  rollupRules: [ruleOf('by_app', ['app'], ['Sum']), ruleOf('all', [], ['Count', 'P90'])],
};

test('aggregators share the rollups of a cluster, and others go on when some are gone', async () => {
  await using test = await TestCoordinator.openReady();
  await makeAggregated(test, 'minutes', '1m', false);
  const ids = ['a0', 'b0', 'a1', 'b1'];
  const aggregators = new Map<string, Aggregator>();
  for (const id of ids) aggregators.set(id, await startOf(test, id));
  const of = (id: string): Aggregator => aggregators.get(id)!;
  try {
    assert.deepEqual(await askStatus(of('a0')), {
      code: 200,
      json: { status: { flushStatus: { electionState: 'follower', canLead: false } } },
    });
    const instances = ids.map((id) => instanceOf(id, of(id)));
    const body = { num_shards: 16, replication_factor: 2, instances };
    const init = await test.post(`${path}/init`, body);
    assert.equal(init.status, 200, init.text);

    const lastEnd = Math.floor(nowSeconds() / 60) * 60 - 120;
    const apps = Array.from({ length: 12 }, (_, app) => `app${app}`);
    for (const [i, app] of apps.entries()) {
      for (const pod of ['1', '2', '3']) {
        const samples = [0, 20, 40].map((before) => ({
          tags: { __name__: 'requests', app, pod },
          timestamp: lastEnd - before,
          value: 100 * (i + 1),
        }));
        assert.equal((await test.post('/api/v1/json/write', samples)).status, 200);
      }
    }
    await applyRules(test, rules);
    const at = async (query: string): Promise<Record<string, string>> => {
      const url = `/api/v1/query?query=${encodeURIComponent(query)}&time=${lastEnd}`;
      const { json, text } = await test.get(url);
      assert.equal(json.status, 'success', text);
      const result = json.data.result as { metric: Record<string, string>; value: string[] }[];
      return Object.fromEntries(
        result.map(({ metric, value }) => [metric['app'] ?? metric['agg'] ?? '', value[1]!]),
      );
    };
    await until('rollups are there', async () => {
      return (
        Object.keys(await at('by_app')).length === 12 && Object.keys(await at('all')).length === 2
      );
    });
    assert.deepEqual(warnings, [], 'each gives its parts');
    const wanted = Object.fromEntries(apps.map((app, i) => [app, String(9 * 100 * (i + 1))]));
    assert.deepEqual(await at('by_app'), wanted);
    const all = await at('all');
    assert.equal(all['.count'], String(9 * 12));
    assert.ok(Math.abs(Number(all['.p90']) / 1_100 - 1) < 0.011, String(all['.p90']));

    const leaders = async (): Promise<string[]> => {
      const states = await Promise.all(
        [...aggregators].map(async ([id, one]) => [id, (await askStatus(one)).json] as const),
      );
      return states.flatMap(([id, { status }]) => {
        assert.ok(status.flushStatus.canLead);
        return status.flushStatus.electionState === 'leader' ? [id] : [];
      });
    };
    await until('each shard set has a leader', async () => (await leaders()).length === 2);
    const [first, second] = await leaders();
    assert.notEqual(first![1], second![1], 'of different sets: a0 and b0, a1 and b1');
    const { host, port } = test.coordinator.metricsServer;
    const metrics = await (await fetch(`http://${host}:${port}/metrics`)).text();
    assert.match(metrics, /tsdb_rollups_leader 0/, 'coordinators make none');

    const resigned = await askStatus(of(first!), 'resign', 'POST');
    assert.deepEqual(resigned, { code: 200, json: { state: 'OK' } });
    await until('the other one leads', async () => {
      const now = await leaders();
      return now.length === 2 && !now.includes(first!);
    });
    // One pair is gone: the other one has its share after the placement says so.
    for (const id of ['a0', 'b0']) {
      await of(id)[Symbol.asyncDispose]();
      aggregators.delete(id);
    }
    await applyRules(test, { rollupRules: [ruleOf('by_app_again', ['app'], ['Max'])] });
    const removed = await test.post(`${path}/remove`, { instance_ids: ['a0', 'b0'] });
    assert.equal(removed.status, 200, removed.text);
    await until('rollups of new rules are there', async () => {
      return Object.keys(await at('by_app_again')).length === 12;
    });
  } finally {
    for (const one of aggregators.values()) await one[Symbol.asyncDispose]();
  }
});

test('rows that clients send to an aggregator are kept for rollups alone', async () => {
  await using test = await TestCoordinator.openReady();
  await makeAggregated(test, 'minutes', '1m', false);
  await using one = await startOf(test, 'a0');
  const body = { num_shards: 4, replication_factor: 1, instances: [instanceOf('a0', one)] };
  assert.equal((await test.post(`${path}/init`, body)).status, 200);
  const proto = loadProto(new URL('../lib/proto/aggregator.proto', import.meta.url));
  using client = connectGrpc({ target: `127.0.0.1:${one.grpc.port}`, answerBytesMax: 1 << 20 });
  const write = async (series: object[]): Promise<unknown[]> => {
    const request = proto.codec('tsdb.aggregator.v1.WriteRequest').encode({ series });
    const answer = await client.unary('/tsdb.aggregator.v1.Aggregator/Write', request, never);
    return proto.codec('tsdb.aggregator.v1.WriteResponse').decode(answer)['refused'] as unknown[];
  };
  const lastEnd = Math.floor(nowSeconds() / 60) * 60 - 120;
  const bytesOf = ({ buffer }: BigInt64Array | Float64Array) => new Uint8Array(buffer);
  const seriesOf = (app: string, values: readonly number[], name = 'requests') => ({
    tags: [
      { name: 'app', value: app },
      { name: '__name__', value: name },
    ],
    timestampsNanos: bytesOf(
      BigInt64Array.from(values, (_, i) => BigInt(lastEnd - 10 * i) * 1_000_000_000n),
    ),
    values: bytesOf(Float64Array.from(values)),
  });
  assert.deepEqual(await write([seriesOf('x', [1, 2, 3]), seriesOf('y', [5])]), []);
  const [old, bad] = [
    seriesOf('z', [1]),
    { ...seriesOf('x', [1, 1]), tags: [{ name: '', value: 'x' }] },
  ];
  old.timestampsNanos = bytesOf(BigInt64Array.of(1n));
  test.node.outcomeOf = (nanos) => (nanos === 1n ? rowOutcome.tooFarPast : rowOutcome.written);
  assert.deepEqual(await write([bad, seriesOf('x', [4]), old]), [
    { series: 0, rows: 2, reason: 'tag name is empty' },
    { series: 2, rows: 1, reason: 'datapoint too far in past' },
  ]);
  await assert.rejects(
    write([{ ...seriesOf('x', [1]), values: new Uint8Array(7) }]),
    /series\[0\]\.values: 7 bytes are no numbers of 8/,
  );
  await assert.rejects(
    write(Array.from({ length: 100_001 }, () => ({}))),
    /series: there are 100001 of 100000 at most/,
  );
  // Windows of that time are made after this.
  await applyRules(test, rules);
  const at = async (query: string) => {
    const url = `/api/v1/query?query=${encodeURIComponent(query)}&time=${lastEnd}`;
    const { json } = await test.get(url);
    return json.data.result.map(({ value }: { value: string[] }) => value[1]) as string[];
  };
  await until('rollups are made of them', async () => (await at('sum(by_app)'))[0] === '14');
  for (const query of ['requests', 'requests[5m]']) {
    assert.deepEqual(await at(query), [], 'which are not read as they are');
  }
});

test('an aggregator takes the names that it is told to, and the one that chooses rules', async () => {
  await using test = await TestCoordinator.openReady();
  await makeAggregated(test, 'minutes', '1m', false);
  const proto = loadProto(new URL('../lib/proto/aggregator.proto', import.meta.url));
  const refusedBy = async (one: Aggregator): Promise<unknown[]> => {
    using client = connectGrpc({ target: `127.0.0.1:${one.grpc.port}`, answerBytesMax: 1 << 20 });
    const bytes = new Uint8Array(8);
    const series = ['app', 'http.status', '__m3_namespace__', '__address__'].map((name) => ({
      tags: [
        { name: '__name__', value: 'requests' },
        { name, value: 'x' },
      ],
      timestampsNanos: new Uint8Array(
        BigInt64Array.of(BigInt(nowSeconds()) * 1_000_000_000n).buffer,
      ),
      values: bytes,
    }));
    const request = proto.codec('tsdb.aggregator.v1.WriteRequest').encode({ series });
    const answer = await client.unary('/tsdb.aggregator.v1.Aggregator/Write', request, never);
    const decoded = proto.codec('tsdb.aggregator.v1.WriteResponse').decode(answer);
    return (decoded['refused'] as { series: number }[]).map(({ series: place }) => place);
  };
  await using plain = await startOf(test, 'a0');
  assert.deepEqual(await refusedBy(plain), [1, 3]);
  await using utf8 = await startOf(test, 'a1', ', tagOptions: {nameValidation: utf8}');
  assert.deepEqual(await refusedBy(utf8), [3]);
});

test('what an aggregator is not asked for it refuses plainly', async () => {
  await using test = await TestCoordinator.open();
  await using one = await startOf(test, 'a0');
  assert.deepEqual(await askStatus(one, 'health'), { code: 200, json: { state: 'OK' } });
  await until(
    'it has read what it goes by',
    async () => (await askStatus(one, 'ready')).code === 200,
  );
  assert.equal((await askStatus(one, 'resign')).code, 405);
  const unknown = await askStatus(one, 'x');
  assert.deepEqual(
    [unknown.code, unknown.json.error],
    [404, 'no such path: /x: GET /health, GET /ready, GET /status, POST /resign'],
  );
});

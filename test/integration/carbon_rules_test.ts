/**
 * Rules of Carbon on a real process: nodes make the windows that storage-schemas.conf names for a path, and when its samples are
 * past retention Graphite reads them by the rule's step (docs/LINES.md). Twenty seconds, as of windows_test.ts.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { RuleHistory } from '#cluster/aggregation_rules/sets/set.ts';
import { RuleSetStore } from '#cluster/aggregation_rules/sets/store.ts';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { freePorts } from '../ports.ts';
import { call, createLocalDatabase, eventually, namespaceReady, NodeServer } from './process.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-carbon-rules-'));
const files = mkdtempSync(join(tmpdir(), 'tsdb-carbon-files-'));
const fileOf = (name: string, text: string): string => {
  const path = join(files, name);
  writeFileSync(path, text);
  return JSON.stringify(path);
};
const schemas = fileOf('schemas.conf', '[web]\npattern = ^web\\.\nretentions = 10m:60d\n');
const aggregation = fileOf(
  'aggregation.conf',
  '[sum]\npattern = \\.count$\naggregationMethod = sum\n',
);
const [carbonPort] = await freePorts(1);
const server = await NodeServer.create({
  folder,
  settings: ['tick: {minimumInterval: 1s}'],
  coordinatorSettings: [
    `carbon: {ingester: {listenAddress: "127.0.0.1:${carbonPort}", storageSchemas: ${schemas}, storageAggregation: ${aggregation}}}`,
  ],
});
after(async () => {
  await server.program.stop('SIGKILL');
  for (const each of [folder, files]) rmSync(each, { recursive: true, force: true });
});

const hour = 3_600;
const step = 60;
/** An hour before the end of the last half day whose blocks are closed: windows are made by half days. */
const end = (Math.floor((Date.now() / 1000 / hour - 2.5) / 12) * 12 - 1) * hour;
const start = end - 30 * hour;
const paths = ['web.a.count', 'web.a.load', 'db.count'];
const valueOf = (seconds: number): number => (((seconds - start) / step) * 7919) % 1009;

/** Values of the samples in (from, to]. */
const samples = (from: number, to: number): number[] =>
  Array.from({ length: (to - from) / step }, (_, i) => valueOf(from + (i + 1) * step));
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

async function send(): Promise<void> {
  const lines: string[] = [];
  for (let at = start; at <= end; at += step) {
    for (const path of paths) lines.push(`${path} ${valueOf(at)} ${at}\n`);
  }
  const socket = connect({ host: '127.0.0.1', port: carbonPort! });
  socket.end(lines.join(''));
  socket.resume();
  await once(socket, 'close');
}

/** Has the rules hold since ever, in the place of a minute after the start. */
async function holdSinceEver(): Promise<void> {
  await using kv = openEtcdKv({
    endpoints: [`127.0.0.1:${server.ports.kv}`],
    env: realEnv,
    log: silentLog,
  });
  const since = <R>(histories: readonly RuleHistory<R>[]): RuleHistory<R>[] =>
    histories.map(({ id, versions }) => ({
      id,
      versions: [{ ...versions.at(-1)!, cutoverNanos: 1n }],
    }));
  await new RuleSetStore(kv, { environment: 'default_env', zone: 'embedded' }).update(
    'default',
    (set) => {
      assert.equal(set.mappingRules.length, 2);
      return { ...set, version: set.version + 1, mappingRules: since(set.mappingRules) };
    },
    new AbortController().signal,
  );
}

async function addNamespace(name: string, resolutionDuration: string, days: number, all: boolean) {
  const attributes = { resolutionDuration, downsampleOptions: { all } };
  const added = await call('POST', `${server.url}/api/v1/services/tsdb/namespace`, {
    name,
    options: {
      flushEnabled: true,
      retentionOptions: { retentionPeriodDuration: `${24 * days}h`, blockSizeDuration: '24h' },
      indexOptions: { enabled: true, blockSizeDuration: '24h' },
      aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
    },
  });
  assert.equal(added.status, 200, added.text);
  await namespaceReady(server.url, name);
}

async function keepSamples(retentionPeriodDuration: string): Promise<void> {
  const put = await call('PUT', `${server.url}/api/v1/services/tsdb/namespace`, {
    name: 'default',
    options: { retentionOptions: { retentionPeriodDuration } },
  });
  assert.equal(put.status, 200, put.text);
}

type Rendered = Record<string, readonly (readonly [number | null, number])[]>;

async function rendered(from: number, until: number): Promise<Rendered> {
  const query = `format=json&target=*.**&from=${from - 1}&until=${until}`;
  const answer = await call('GET', `${server.url}/render?${query}`);
  assert.equal(answer.status, 200, answer.text);
  return Object.fromEntries(
    (answer.json as any[]).map(({ target, datapoints }) => [target, datapoints]),
  );
}

test('a path has the windows of its rule, and Graphite goes on with them by its step', async () => {
  await server.start();
  await createLocalDatabase(server, 'default', { coldWritesEnabled: true });
  await eventually('the rules are published', async () => {
    return (await call('GET', `${server.url}/r2/v1/namespaces/default`)).status === 200;
  });
  await holdSinceEver();
  await keepSamples('72h');
  await addNamespace('fine', '10m', 60, false);
  await addNamespace('coarse', '1h', 90, true);
  await send();
  const [from, until] = [start + hour, start + 4 * hour];
  const steps = (seconds: number): number[] =>
    Array.from({ length: (until - from) / seconds + 1 }, (_, i) => from + i * seconds);
  const expected = {
    'db.count': steps(hour).map((at) => [sum(samples(at, at + hour)), at]),
    'web.a.count': steps(600).map((at) => [sum(samples(at, at + 600)), at]),
    'web.a.load': steps(600).map((at) => [sum(samples(at, at + 600)) / 10, at]),
  };
  const windowsOf = async (): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${server.ports.metrics}/metrics`)).text();
    return Number(/^tsdb_node_aggregation_windows_total (\d+)/m.exec(text)?.[1]);
  };
  const least = (2 * (end - start)) / 600 + (end - start) / hour;
  await eventually('windows are made', async () => (await windowsOf()) >= least);
  await keepSamples('20h');
  await eventually('samples are past retention', async () => {
    const headers = { 'TSDB-Metrics-Type': 'unaggregated' };
    const query = `format=json&target=db.count&from=${from}&until=${until}&noNullPoints=1`;
    const answer = await fetch(`${server.url}/render?${query}`, { headers });
    return ((await answer.json()) as any[]).every(({ datapoints }) => datapoints.length === 0);
  });
  assert.deepEqual(await rendered(from, until), expected);
  // What storage-aggregation.conf says is about Graphite: others have the last value of a window.
  const query = encodeURIComponent('{__g0__="web",__g2__="count"}');
  const plain = await call('GET', `${server.url}/api/v1/query?query=${query}&time=${from}`);
  assert.equal(Number((plain.json as any).data.result[0].value[1]), valueOf(from));
  // No more than these: that of an hour is for what no rule names.
  assert.ok((await windowsOf()) < least + 100);
});

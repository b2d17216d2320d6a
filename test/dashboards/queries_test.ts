/**
 * Every query of the dashboards against a single node that has scraped itself: a real process, something of everything that it
 * can be sent, and its own metrics written into it as a scraper would have them. Ten seconds.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  encodeRemoteWrite,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import { type Histogram, resetHint } from '#engine/typed/histogram.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import { call, createLocalDatabase, eventually, NodeServer } from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { dashboards } from './dashboards.ts';
import { type Dashboard, expressionOf } from './grafana.ts';
import { aggregatorMetricNames, metricNamesOf, operatorMetricNames } from './known_metrics.ts';

/** Metrics that a healthy single node has no series of, so that queries of them are empty. */
const absent: Readonly<Record<string, string>> = {
  tsdb_coordinator_fetch_errors_total: 'storage answers every question of a healthy node',
  tsdb_coordinator_dropped_samples_total:
    'no rule drops anything: a rule holds minutes after it was written',
  tsdb_coordinator_ha_takeovers_total:
    'a replica is taken over after half a minute without rows of the first',
  tsdb_node_repair_failures_total: 'there is no other replica to compare with',
  tsdb_rollup_lag_seconds: 'no rule asks for rollups: a rule holds minutes after it was written',
};
/** Queries that are empty though all their metrics are there. */
const emptyQueries: Readonly<Record<string, string>> = {
  'cluster: Requests that failed': 'no request of a healthy node ends with 429 or 5xx',
};

const folder = mkdtempSync(join(tmpdir(), 'tsdb-dashboards-'));
const [statsdPort] = (await freePorts(1)) as [number];
const server = await NodeServer.create({
  folder,
  coordinatorSettings: [
    'haPairs: {enabled: true}',
    `statsd: {ingester: {listenAddress: "127.0.0.1:${statsdPort}", flushInterval: 1s}}`,
  ],
});
const job = 'tsdb';
const instance = `127.0.0.1:${server.ports.metrics}`;
const stepSeconds = 15;
const scrapes = 4;
let endSeconds = 0;
/** All names of series that were scraped. */
const scraped = new Set<string>();

const metricsText = async (): Promise<string> =>
  (await call('GET', `http://${instance}/metrics`)).text;

async function write(path: string, body: string | Uint8Array, status: number): Promise<void> {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const answer = await call('POST', `${server.url}${path}`, bytes);
  assert.equal(answer.status, status, `${path}: ${answer.text}`);
}

const tagsOf = (labels: Record<string, string>): SeriesToWrite['tags'] =>
  Object.entries(labels)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value }));

/** One observation of 1. */
const histogram: Histogram = {
  isFloat: false,
  schema: 0,
  hint: resetHint.unknown,
  zeroThreshold: 0,
  count: 1,
  zeroCount: 0,
  sumBits: bitsOfDouble(1),
  customBounds: Float64Array.of(),
  positive: { indexes: Int32Array.of(0), counts: Float64Array.of(1) },
  negative: { indexes: Int32Array.of(), counts: Float64Array.of() },
};

/** Makes the counters begin whose labels tell of something that happened. */
async function sendSomeOfEverything(): Promise<void> {
  const timestampMillis = Date.now();
  const samples = [{ timestampMillis, value: 1 }];
  const lateMillis = timestampMillis - 86_400_000;
  const exemplars = [timestampMillis, lateMillis].map((millis) => ({
    ...{ labels: [], value: 1, timestampMillis: millis },
  }));
  const ofReplica = (replica: string): SeriesToWrite => ({
    tags: tagsOf({ __name__: 'a', cluster: 'eu', __replica__: replica }),
    samples,
  });
  const withHistogram: SeriesToWrite = {
    ...{ tags: tagsOf({ __name__: 'h' }), samples: [] },
    histograms: [{ timestampMillis, histogram }],
  };
  const withExemplars = { tags: tagsOf({ __name__: 'e' }), samples, exemplars };
  const families = ['e', ''].map((name) => ({ name, type: 1, help: 'Some.', unit: '' }));
  for (const body of [
    encodeRemoteWrite([ofReplica('one')]),
    encodeRemoteWrite([ofReplica('other'), withHistogram, withExemplars], families),
  ]) {
    await write('/api/v1/compat/remote/write', body, 200);
  }
  await write('/api/v1/import/prometheus', `late 1 ${lateMillis}\n`, 400);
  const lines = connect({ host: '127.0.0.1', port: statsdPort });
  lines.end('web.requests:1|c\nqueue.length:17|g\nno line\n');
  lines.resume();
  await once(lines, 'close');
  for (const query of ['query?query=up', 'labels', 'series?match[]=up']) {
    assert.equal((await call('GET', `${server.url}/api/v1/${query}`)).status, 200);
  }
}

/** What a scraper makes of a text: every series gets its labels, and "up" says that it came. */
function asScraped(text: string, timestampMillis: number): string {
  const own = `job="${job}",instance="${instance}"`;
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const labelled = lines.map((line) => {
    const [, name, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)!;
    return `${name}{${labels === undefined ? '' : `${labels},`}${own}} ${value} ${timestampMillis}`;
  });
  return `${[...labelled, `up{${own}} 1 ${timestampMillis}`].join('\n')}\n`;
}

before(async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  const texts: string[] = [];
  for (let i = 0; i < scrapes; i++) {
    await sendSomeOfEverything();
    // Lines of statsd are counted when they are read.
    if (i === 0) {
      await eventually('lines of statsd are counted', async () =>
        /^tsdb_coordinator_statsd_refused_samples_total\{/m.test(await metricsText()),
      );
    }
    texts.push(await metricsText());
    await delay(500);
  }
  endSeconds = Math.floor(Date.now() / 1000);
  for (const [i, text] of texts.entries()) {
    const seconds = endSeconds - (scrapes - 1 - i) * stepSeconds;
    const body = asScraped(text, seconds * 1000);
    for (const [, name] of body.matchAll(/^(\w+)\{/gm)) scraped.add(name!);
    await write('/api/v1/import/prometheus', body, 204);
  }
});
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

interface Asked {
  /** "name of the dashboard: title of the panel". */
  readonly where: string;
  readonly legend: string;
  /** With variables. */
  readonly expression: string;
}

const asked = (dashboard: Dashboard): Asked[] =>
  dashboard.rows.flatMap(({ panels }) =>
    panels.flatMap(({ title, queries }) =>
      queries.map((query) => ({
        where: `${dashboard.name}: ${title}`,
        legend: query[0],
        expression: expressionOf(dashboard, query),
      })),
    ),
  );

/** As Grafana does: regular expressions for variables with several values, dots masked, ".*" for all that may lack a label. */
function substituted(text: string): string {
  const values: Readonly<Record<string, string>> = {
    namespace: '.*',
    cluster: '.*',
    job,
    instance: `(${instance.replaceAll('.', '\\\\.')})`,
    __rate_interval: '1m',
    __range: '5m',
  };
  return text.replace(/\$(\w+)/g, (_, name: string) => values[name]!);
}

/** All names that a query selects; fails when it is none. */
async function selectedBy({ where, expression }: Asked): Promise<Set<string>> {
  const query = encodeURIComponent(substituted(expression));
  const { status, json, text } = await call(
    'GET',
    `${server.url}/api/v1/parse_query?query=${query}`,
  );
  assert.equal(status, 200, `${where}: ${expression}: ${text}`);
  const names = new Set<string>();
  const walk = (part: any): void => {
    if (part === null || typeof part !== 'object') return;
    if (part.type === 'vectorSelector' || part.type === 'matrixSelector') names.add(part.name);
    for (const inner of Object.values(part)) walk(inner);
  };
  walk(json.data);
  assert.ok(names.size > 0, `${where}: ${expression}`);
  return names;
}

/** The labels of each series of the answer. */
async function seriesOf({ where, expression }: Asked): Promise<Record<string, string>[]> {
  const query = encodeURIComponent(substituted(expression));
  const times = `start=${endSeconds - stepSeconds}&end=${endSeconds}&step=${stepSeconds}`;
  const answer = await call('GET', `${server.url}/api/v1/query_range?query=${query}&${times}`);
  assert.equal(answer.status, 200, `${where}: ${expression}: ${answer.text}`);
  return answer.json.data.result.map(({ metric }: any) => metric);
}

const named = (name: string): Dashboard => dashboards.find((each) => each.name === name)!;

for (const name of ['cluster', 'node', 'coordinator']) {
  test(`every query of ${name}.json has an answer`, async () => {
    const served = metricNamesOf(await metricsText()).add('up');
    const wrong: string[] = [];
    for (const each of asked(named(name))) {
      const names = [...(await selectedBy(each))];
      for (const metric of names) {
        assert.ok(served.has(metric), `${each.where}: ${metric} is not served`);
        if (scraped.has(metric) === metric in absent) wrong.push(`${each.where}: ${metric}`);
      }
      const series = await seriesOf(each);
      for (const [, label] of each.legend.matchAll(/\{\{(\w+)\}\}/g)) {
        assert.ok(
          series.every((labels) => label! in labels),
          `${each.where}: no label ${label}`,
        );
      }
      const isEmpty = series.length === 0;
      const mayBeEmpty = names.some((metric) => metric in absent) || each.where in emptyQueries;
      if (isEmpty !== mayBeEmpty) wrong.push(`${each.where}: ${each.expression}`);
    }
    assert.deepEqual(wrong, [], 'has no series and no reason is given, or has one all the same');
  });
}

for (const [name, names] of [
  ['operator', operatorMetricNames],
  ['aggregator', aggregatorMetricNames],
] as const) {
  test(`every query of ${name}.json is PromQL, of metrics that are registered`, async () => {
    const registered = await names();
    for (const each of asked(named(name))) {
      for (const metric of await selectedBy(each)) {
        assert.ok(registered.has(metric), `${each.where}: ${metric}`);
      }
    }
  });
}

test('variables find job and instance, and are empty where labels are those of Kubernetes', async () => {
  for (const name of ['cluster', 'node', 'coordinator']) {
    for (const { of, from } of named(name).variables) {
      const query = `match[]=${encodeURIComponent(substituted(of))}`;
      const { status, json } = await call(
        'GET',
        `${server.url}/api/v1/label/${from}/values?${query}`,
      );
      assert.equal(status, 200, of);
      const expected = ({ job: [job], instance: [instance] } as Record<string, string[]>)[from];
      assert.deepEqual(json.data, expected ?? [], `${name}: ${from}`);
    }
  }
});

test('each reason why something is absent is still one', async () => {
  const all = ['cluster', 'node', 'coordinator'].flatMap((name) => asked(named(name)));
  const names = new Set((await Promise.all(all.map(selectedBy))).flatMap((each) => [...each]));
  for (const metric of Object.keys(absent)) assert.ok(names.has(metric), metric);
  const places = new Set(all.map(({ where }) => where));
  for (const place of Object.keys(emptyQueries)) assert.ok(places.has(place), place);
});

test('docs/M3_METRICS.md: what stands for metrics of M3 is PromQL, of metrics that exist', async () => {
  const known = new Set([
    ...metricNamesOf(await metricsText()),
    ...(await operatorMetricNames()),
    ...(await aggregatorMetricNames()),
  ]);
  const ofM3 = new Set<string>();
  const codesOf = (cell: string): string[] =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code!);
  for (const row of rowsOf('M3_METRICS.md')) {
    const [, theirs, ours, differs] = row as [string, string, string, string];
    for (const name of codesOf(theirs)) {
      assert.ok(!ofM3.has(name), `${name} stands twice`);
      ofM3.add(name);
    }
    const expressions = codesOf(ours);
    if (expressions.length === 0) assert.match(ours, /^(none, because \S+|the same$)/, theirs);
    for (const expression of expressions) {
      const names = await selectedBy({ where: theirs, legend: '', expression });
      for (const name of names) assert.ok(known.has(name), `${theirs}: ${name}`);
    }
    // A family may be named there by its name without an end.
    for (const name of codesOf(differs!)
      .join(' ')
      .match(/\b(tsdb|process|nodejs)_\w+/g) ?? []) {
      assert.ok(known.has(name) || known.has(`${name}_count`) || name === 'tsdb_io_cluster', name);
    }
  }
  assert.ok(ofM3.size > 250, 'seven dashboards');
});

/** Rows of the tables of a document that have three cells, without the heads. */
function rowsOf(document: string): string[][] {
  const text = readFileSync(join(import.meta.dirname, '../../docs', document), 'utf8');
  const lines = text.split('\n').filter((line) => /^\| (?!---|M3 )/.test(line));
  return lines.map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));
}

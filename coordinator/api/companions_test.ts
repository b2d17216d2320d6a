/** Exemplars and metadata through the API: written by remote write, and asked for as of Prometheus. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  type FamilyToWrite,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import { TsdbError } from '#lib/errors.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { realEnv } from '#lib/env/real.ts';
import { formatLevelFirst, typedRowsFormatLevel } from '#lib/format_level.ts';
import type { Tag } from '#lib/tags.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

const writePath = '/api/v1/compat/remote/write';
const v2 = { 'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' };
const written = 'x-prometheus-remote-write-exemplars-written';

const tagsOf = (tags: Record<string, string>): Tag[] =>
  Object.entries(tags).map(([name, value]) => ({ name, value }));

function seriesOf(
  tags: Record<string, string>,
  millis: number,
  exemplars: readonly (readonly [labels: Record<string, string>, value: number, millis: number])[],
): SeriesToWrite {
  return {
    tags: tagsOf(tags),
    samples: [{ timestampMillis: millis, value: 1 }],
    exemplars: exemplars.map(([labels, value, timestampMillis]) => ({
      labels: tagsOf(labels),
      value,
      timestampMillis,
    })),
  };
}

const dataOf = ({ status, json, text }: TestAnswer): any => {
  assert.equal(status, 200, text);
  return json.data;
};

async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (await isSo()) return;
    await realEnv.clock.sleep(25, new AbortController().signal);
  }
  assert.fail(`not in time: ${what}`);
}

/** Both companions are made by the first of what they hold. */
async function openWithCompanions(settings?: string): Promise<TestCoordinator> {
  const coordinator = await TestCoordinator.openReady(settings);
  const first = [seriesOf({ __name__: 'first' }, 0, [[{}, 1, 0]])];
  const families = [{ name: 'first', type: 1, help: '', unit: '' }];
  await coordinator.post(writePath, encodeRemoteWrite(first, families));
  await until('both companions are ready', () =>
    ['_exemplars', '_metadata'].every(
      (name) => coordinator.topology.view.namespaces.get(name)?.options.stagingStatus === 'READY',
    ),
  );
  return coordinator;
}

test('the first exemplars wait for the namespace that is made for them', async () => {
  await using coordinator = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const odd = seriesOf({ 'b-d': 'x', __name__: 'odd' }, millis, [[{}, 1, millis]]);
  const good = [1, 2].map((i) =>
    seriesOf({ __name__: 'first', i: `${i}` }, millis, [[{ i: `${i}` }, i, millis]]),
  );
  await coordinator.post(writePath, encodeRemoteWrite([odd, ...good]));
  const path = `/api/v1/query_exemplars?query=${encodeURIComponent('{__name__=~".+"}')}`;
  const wanted = [1, 2].map((i) => ({
    seriesLabels: { __name__: 'first', i: `${i}` },
    exemplars: [{ labels: { i: `${i}` }, value: `${i}`, timestamp: millis / 1000 }],
  }));
  let found: unknown = null;
  await until('they are there', async () => {
    found = dataOf(await coordinator.get(path));
    return (found as unknown[]).length > 0;
  });
  assert.deepEqual(found, wanted);
});

test('exemplars of both versions are stored once and answered by series, in order', async () => {
  await using coordinator = await openWithCompanions();
  const millis = nowSeconds() * 1000;
  const trace = { trace_id: 'äö', span_id: '2' };
  const body = [
    seriesOf({ __name__: 'latency_bucket', job: 'b', le: '1' }, millis, [
      [trace, 0.5, millis - 1],
      [{}, 0, millis - 5000],
    ]),
    seriesOf({ __name__: 'latency_bucket', job: 'a', le: '1' }, millis, [
      [trace, 0.25, millis],
      [{ trace_id: 'x' }, 0.25, millis],
      [trace, Number.POSITIVE_INFINITY, millis],
    ]),
    seriesOf({ __name__: 'other' }, millis, [[trace, 7, millis]]),
  ];
  const answer = await coordinator.post(writePath, encodeRemoteWriteV2(body), v2);
  assert.deepEqual([answer.status, answer.headers[written]], [204, '6'], answer.text);
  // Sent again, in the other version.
  assert.equal((await coordinator.post(writePath, encodeRemoteWrite(body))).status, 200);

  const asked = (query: string, more = ''): Promise<TestAnswer> =>
    coordinator.get(`/api/v1/query_exemplars?query=${encodeURIComponent(query)}${more}`);
  const seconds = millis / 1000;
  const labels = { span_id: '2', trace_id: 'äö' };
  const b = {
    seriesLabels: { __name__: 'latency_bucket', job: 'b', le: '1' },
    exemplars: [
      { labels: {}, value: '0', timestamp: seconds - 5 },
      { labels, value: '0.5', timestamp: (millis - 1) / 1000 },
    ],
  };
  const a = {
    seriesLabels: { __name__: 'latency_bucket', job: 'a', le: '1' },
    exemplars: [
      { labels, value: '0.25', timestamp: seconds },
      { labels: { trace_id: 'x' }, value: '0.25', timestamp: seconds },
      { labels, value: '+Inf', timestamp: seconds },
    ],
  };
  const quantile = 'histogram_quantile(0.9, sum by (le) (rate(latency_bucket[5m]))) > 0';
  assert.deepEqual(dataOf(await asked(quantile)), [a, b]);
  assert.deepEqual(dataOf(await asked('latency_bucket{job="b"} or latency_bucket{job="b"}')), [b]);
  const early = `&start=${seconds - 10}&end=${seconds - 0.002}`;
  const [cut] = dataOf(await asked('latency_bucket', early));
  assert.deepEqual(cut, { ...b, exemplars: b.exemplars.slice(0, 1) });
  assert.deepEqual(dataOf(await asked('nothing')), []);
  assert.equal((await asked('1 + 1')).status, 204);
  // Samples are as they were, and read from their own namespace.
  const { result } = dataOf(await coordinator.get(`/api/v1/query?query=other&time=${seconds}`));
  assert.equal(result[0].value[1], '1');
  assert.deepEqual(dataOf(await coordinator.get('/api/v1/label/trace_id/values')), []);
});

test('bad exemplars are named in version 2, and no failure of theirs is one of their samples', async () => {
  await using coordinator = await openWithCompanions('{exemplars: {maxPerSecond: 1}}');
  const millis = nowSeconds() * 1000;
  const bad = [
    seriesOf({ __name__: 'up' }, millis, [
      [{ a: 'x'.repeat(128) }, 1, millis],
      [{ a: 'x' }, 1, millis],
    ]),
  ];
  const answer = await coordinator.post(writePath, encodeRemoteWriteV2(bad), v2);
  assert.deepEqual([answer.status, answer.headers[written]], [400, '1']);
  assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '1');
  assert.match(
    answer.json.error,
    /exemplar of {__name__="up"}: labels .* more than 128 characters/,
  );
  assert.equal((await coordinator.post(writePath, encodeRemoteWrite(bad))).status, 200);

  // The budget of a minute.
  const many = Array.from({ length: 100 }, (_, i) => [{ i: `${i}` }, i, millis] as const);
  const rest = await coordinator.post(
    writePath,
    encodeRemoteWriteV2([seriesOf({ __name__: 'up' }, millis, many)]),
    v2,
  );
  assert.equal(rest.status, 204);
  assert.ok(Number(rest.headers[written]) < 60, String(rest.headers[written]));
});

test('exemplars that nodes do not take fail no sample', async () => {
  await using coordinator = await openWithCompanions();
  const millis = nowSeconds() * 1000;
  coordinator.node.outcomeOf = (nanos) =>
    nanos % 1_000_000n === 0n ? rowOutcome.written : rowOutcome.resourceExhausted;
  const body = encodeRemoteWriteV2([
    seriesOf({ __name__: 'up' }, millis, [[{ a: 'b' }, 1, millis]]),
  ]);
  const answer = await coordinator.post(writePath, body, v2);
  assert.deepEqual([answer.status, answer.headers[written]], [204, '0'], answer.text);
  assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '1');
});

test('nothing is made for exemplars and metadata before an upgrade is finished', async () => {
  const formats = { level: () => typedRowsFormatLevel - 1 };
  await using coordinator = await TestCoordinator.openReady('{}', formats);
  coordinator.node.formatLevelWritten = formatLevelFirst;
  const millis = nowSeconds() * 1000;
  const body = encodeRemoteWrite(
    [seriesOf({ __name__: 'up' }, millis, [[{}, 1, millis]])],
    [{ name: 'up', type: 2, help: '', unit: '' }],
  );
  assert.equal((await coordinator.post(writePath, body)).status, 200);
  assert.deepEqual([...coordinator.topology.view.namespaces.keys()], ['default']);
  assert.deepEqual(dataOf(await coordinator.get('/api/v1/query_exemplars?query=up')), []);
  assert.deepEqual(dataOf(await coordinator.get('/api/v1/metadata')), {});
});

test('metadata of both versions is answered by family', async () => {
  await using coordinator = await openWithCompanions();
  const families: FamilyToWrite[] = [
    { name: 'requests', type: 1, help: 'How many "requests".\nAll.', unit: 'requests' },
    { name: 'requests', type: 1, help: 'How many, in other words.', unit: '' },
    { name: 'size', type: 4, help: 'ä'.repeat(3000), unit: '' },
    { name: 'odd', type: 99, help: '', unit: '' },
    { name: '', type: 1, help: 'Of nothing.', unit: '' },
  ];
  await coordinator.post(writePath, encodeRemoteWrite([], families));
  const said = { type: 3, help: 'Durations.', unit: 'seconds' };
  const series = ['duration_bucket', 'duration_sum', 'duration_count'].map((name) => ({
    ...seriesOf({ __name__: name }, nowSeconds() * 1000, []),
    metadata: said,
  }));
  assert.equal((await coordinator.post(writePath, encodeRemoteWriteV2(series), v2)).status, 204);
  const metadataOf = async (parameters = ''): Promise<any> =>
    dataOf(await coordinator.get(`/api/v1/metadata${parameters}`));
  await until('all is written', async () => Object.keys(await metadataOf()).length >= 4);
  const all = await metadataOf();
  assert.deepEqual(Object.keys(all), ['duration', 'odd', 'requests', 'size']);
  const duration = { type: 'histogram', unit: 'seconds', help: 'Durations.' };
  assert.deepEqual(all.duration, [duration]);
  assert.deepEqual(all.odd, [{ type: 'unknown', unit: '', help: '' }]);
  assert.equal(all.requests.length, 2);
  assert.equal(all.size[0].help, 'ä'.repeat(2048), 'cut at a character');
  assert.deepEqual(await metadataOf('?metric=duration'), { duration: [duration] });
  assert.deepEqual(await metadataOf('?metric=none'), {});
  assert.deepEqual(Object.keys(await metadataOf('?limit=2')), ['duration', 'odd']);
  assert.deepEqual(await metadataOf('?limit=0'), {});
  assert.equal((await metadataOf('?limit_per_metric=1')).requests.length, 1);

  const targets = async (parameters: string): Promise<any> =>
    dataOf(await coordinator.get(`/api/v1/targets/metadata${parameters}`));
  assert.deepEqual(await targets('?metric=duration'), [{ target: {}, ...duration }]);
  assert.deepEqual(await targets('?limit=1'), [{ target: {}, metric: 'duration', ...duration }]);
  // Targets are without labels, and some selectors take those.
  for (const [selector, count] of [
    ['{job="x"}', 0],
    ['{job=~".+"}', 0],
    ['{job!~".*"}', 0],
    ['{job=~"x?",a!="b"}', 1],
    ['{job!~"x",a=""}', 1],
    ['{}', 1],
  ] as const) {
    const found = await targets(`?limit=1&match_target=${encodeURIComponent(selector)}`);
    assert.equal(found.length, count, selector);
  }
  const wrong = await coordinator.get('/api/v1/targets/metadata?match_target=sum(up)');
  assert.equal(wrong.status, 400);
  assert.match(wrong.json.error, /match_target.*expected type vector selector/);

  // What is known already costs no write.
  const before = coordinator.node.writeCount;
  await coordinator.post(writePath, encodeRemoteWrite([], families.slice(0, 4)));
  await realEnv.clock.sleep(50, new AbortController().signal);
  assert.equal(coordinator.node.writeCount, before);
});

test('metadata that could not be written is written when it is sent again', async () => {
  await using coordinator = await openWithCompanions();
  const families = [{ name: 'requests', type: 1, help: 'How many.', unit: '' }];
  coordinator.node.failure = new TsdbError('UNAVAILABLE', 'away');
  assert.equal((await coordinator.post(writePath, encodeRemoteWrite([], families))).status, 200);
  await realEnv.clock.sleep(300, new AbortController().signal);
  coordinator.node.failure = null;
  await until('it is there', async () => {
    await coordinator.post(writePath, encodeRemoteWrite([], families));
    return 'requests' in dataOf(await coordinator.get('/api/v1/metadata'));
  });
});

test('nobody but coordinators makes companions', async () => {
  await using coordinator = await openWithCompanions();
  const add = await coordinator.post('/api/v1/services/tsdb/namespace', {
    name: '_exemplars',
    options: {},
  });
  assert.equal(add.status, 400);
  assert.match(add.json.error, /name is reserved .*: _exemplars/);
  const create = { type: 'local', namespaceName: '_metadata' };
  assert.equal((await coordinator.post('/api/v1/database/create', create)).status, 400);
});

test('exemplars and metadata of OpenMetrics are stored as those of remote writes', async () => {
  await using coordinator = await openWithCompanions();
  const now = nowSeconds();
  const text = [
    '# HELP latency_seconds How long, \\"really\\".\\n',
    '# TYPE latency_seconds histogram',
    '# UNIT latency_seconds seconds',
    `latency_seconds_bucket{job="a",none="",le="1"} 3 ${now} # {trace_id="x"} 0.5 ${now - 2}.25`,
    `latency_seconds_bucket{job="a",none="",le="+Inf"} 4 ${now} # {} 7`,
    `latency_seconds_count{job="a",none=""} 4 ${now}`,
    `latency_seconds_sum{job="a",none=""} 9 ${now}`,
    '# TYPE calls counter',
    'calls_total 5 # {span_id="1",a="b"} 1',
    '# EOF',
    '',
  ].join('\n');
  const headers = { 'Content-Type': 'application/openmetrics-text' };
  const path = `/api/v1/import/prometheus?timestamp=${now}500`;
  assert.equal((await coordinator.post(path, Buffer.from(text), headers)).status, 204);
  const query = encodeURIComponent('{__name__=~"latency.*|calls.*"}');
  let found: any[] = [];
  await until('exemplars are there', async () => {
    found = dataOf(await coordinator.get(`/api/v1/query_exemplars?query=${query}`));
    return found.length === 3;
  });
  const bucket = (le: string) => ({ __name__: 'latency_seconds_bucket', job: 'a', le });
  assert.deepEqual(found, [
    {
      seriesLabels: { __name__: 'calls_total' },
      exemplars: [{ labels: { a: 'b', span_id: '1' }, value: '1', timestamp: now + 0.5 }],
    },
    {
      seriesLabels: bucket('+Inf'),
      exemplars: [{ labels: {}, value: '7', timestamp: now }],
    },
    {
      seriesLabels: bucket('1'),
      exemplars: [{ labels: { trace_id: 'x' }, value: '0.5', timestamp: now - 1.75 }],
    },
  ]);
  await until('metadata are there', async () => {
    const { calls, latency_seconds: latency } = dataOf(await coordinator.get('/api/v1/metadata'));
    if (latency === undefined) return false;
    const [type, unit] = ['histogram', 'seconds'];
    assert.deepEqual(latency, [{ type, help: 'How long, "really".\n', unit }]);
    assert.deepEqual(calls, [{ type: 'counter', help: '', unit: '' }]);
    return true;
  });
});

test("metadata of Prometheus' text are stored, also of a body with bad lines", async () => {
  await using coordinator = await openWithCompanions();
  const text = '# HELP m What it is.\n# TYPE m gauge\nm 1\n# TYPE "n o" counter\nnone of these\n';
  const answer = await coordinator.post('/api/v1/import/prometheus', Buffer.from(text));
  assert.equal(answer.status, 400, answer.text);
  await until('metadata are there', async () => {
    const { m, 'n o': other } = dataOf(await coordinator.get('/api/v1/metadata'));
    if (m === undefined) return false;
    assert.deepEqual(m, [{ type: 'gauge', help: 'What it is.', unit: '' }]);
    assert.deepEqual(other, [{ type: 'counter', help: '', unit: '' }]);
    return true;
  });
});

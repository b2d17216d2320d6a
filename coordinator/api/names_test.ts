/** Names beyond letters, digits and underscores, from a write to every way to read them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
} from '#engine/write_decoder/remote_write_testing.ts';
import { changedRuleSet } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { RuleSetStore } from '#cluster/aggregation_rules/sets/store.ts';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, TestCoordinator, testCluster } from '../coordinator_testing.ts';

const v2 = { 'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' };
const utf8 = '{tagOptions: {nameValidation: utf8}}';

const tagsOf = (labels: Record<string, string>) =>
  Object.entries(labels).map(([name, value]) => ({ name, value }));

const seriesOf = (labels: Record<string, string>, value: number) => ({
  tags: tagsOf(labels),
  samples: [{ timestampMillis: (nowSeconds() - 30) * 1000, value }],
});

test('with nameValidation utf8 names may be any text, in all formats of writes', async () => {
  await using test = await TestCoordinator.openReady(utf8);
  const path = '/api/v1/compat/remote/write';
  const first = { __name__: 'http.requests', 'http.status': '200' };
  const second = { __name__: 'http.requests', größe: 'groß', 'z 😀': 'x' };
  const third = { __name__: 'http.requests', 'http.status': '500' };
  const written = [
    await test.post(path, encodeRemoteWrite([seriesOf(first, 1)])),
    await test.post(path, encodeRemoteWriteV2([seriesOf(second, 2)]), v2),
    await test.post('/api/v1/json/write', {
      tags: third,
      timestamp: nowSeconds() - 30,
      value: 3,
    }),
  ];
  assert.deepEqual(
    written.map(({ status, text }) => [status, text]),
    [
      [200, ''],
      [204, ''],
      [200, ''],
    ],
  );
  const ask = async (query: string) => {
    const answer = await test.post('/api/v1/query', new URLSearchParams({ query }).toString());
    assert.equal(answer.status, 200, answer.text);
    return answer.json.data.result.map(({ metric, value }: any) => [metric, value[1]]);
  };
  assert.deepEqual(await ask('{"http.requests", "http.status"="200"}'), [[first, '1']]);
  assert.deepEqual(await ask('sum by ("http.status") ({"http.requests", "z 😀"=""})'), [
    [{ 'http.status': '200' }, '1'],
    [{ 'http.status': '500' }, '3'],
  ]);
  const labels = await test.get('/api/v1/labels');
  assert.deepEqual(labels.json.data, ['__name__', 'größe', 'http.status', 'z 😀']);
  for (const name of ['http.status', 'U__http_2e_status', encodeURIComponent('http.status')]) {
    const values = await test.get(`/api/v1/label/${name}/values`);
    assert.deepEqual(values.json.data, ['200', '500'], name);
  }
  for (const name of ['U__z_20__1f600_', encodeURIComponent('z 😀')]) {
    assert.deepEqual((await test.get(`/api/v1/label/${name}/values`)).json.data, ['x'], name);
  }
  const series = await test.get('/api/v1/series?match[]={"größe"="groß"}');
  assert.deepEqual(series.json.data, [second]);
  const reserved = await test.post('/api/v1/json/write', {
    tags: { __address__: 'x' },
    timestamp: nowSeconds(),
    value: 1,
  });
  assert.match(reserved.json.error, /begin with "__" are reserved: "__address__"/);
});

test('without it such names are refused, and what is beside them is written', async () => {
  await using test = await TestCoordinator.openReady();
  const body = encodeRemoteWrite([
    seriesOf({ __name__: 'up', 'http.status': '200' }, 1),
    seriesOf({ __name__: 'dotted.name', job: 'a' }, 2),
  ]);
  const answer = await test.post('/api/v1/compat/remote/write', body);
  assert.equal(answer.status, 400);
  assert.match(
    answer.json.error,
    /^1 of 2 samples were refused, the others were written: .*tag name does not match \[a-zA-Z_\]\[a-zA-Z0-9_\]\*: "http\.status"/,
  );
  const found = await test.get('/api/v1/series?match[]={job="a"}');
  assert.deepEqual(found.json.data, [{ __name__: 'dotted.name', job: 'a' }]);
});

test('the one reserved name that chooses rules is written like others, and chooses them', async () => {
  await using test = await TestCoordinator.openReady();
  const chosen = { __name__: 'up', __m3_namespace__: 'other', app: 'a' };
  const write = async (): Promise<void> => {
    const body = encodeRemoteWrite([
      seriesOf({ __name__: 'up', app: 'a' }, 1),
      seriesOf(chosen, 2),
    ]);
    const answer = await test.post('/api/v1/compat/remote/write', body);
    assert.equal(answer.status, 200, answer.text);
  };
  await write();
  const found = await test.get('/api/v1/series?match[]={__m3_namespace__="other"}');
  assert.deepEqual(found.json.data, [chosen]);
  // Of another set than that of series that name none; it holds since ever.
  const file = { mappingRules: [{ name: 'all', filter: 'app:*', drop: true }] };
  const never = new AbortController().signal;
  await new RuleSetStore(test.kv, testCluster).update(
    'other',
    (set) => changedRuleSet(set, [1n, file], () => '1'),
    never,
  );
  const dropped = async (): Promise<boolean> => {
    await write();
    const { host, port } = test.coordinator.metricsServer;
    const metrics = await (await fetch(`http://${host}:${port}/metrics`)).text();
    return /tsdb_coordinator_dropped_samples_total\{kept="nothing"\} [1-9]/.test(metrics);
  };
  for (let attempt = 0; !(await dropped()); attempt++) {
    assert.ok(attempt < 400, 'rows of the set are dropped');
    await realEnv.clock.sleep(25, never);
  }
});

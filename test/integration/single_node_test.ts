/** The quick start of the README, by the interface alone, on a real process with its defaults. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { call, createLocalDatabase, NodeServer } from './process.ts';
import { remoteWriteBody } from './remote_write_body.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-single-'));
const server = await NodeServer.create({ folder });
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
const now = Math.floor(Date.now() / 1000);

test('the quick start: create, wait, ready, write, query', async () => {
  await server.start();
  const none = await call('GET', `${server.url}/api/v1/services/tsdb/placement`);
  assert.equal(none.status, 404);
  assert.equal(none.json.status, 'error');

  await createLocalDatabase(server, 'default');
  const placement = await call('GET', `${server.url}/api/v1/services/tsdb/placement`);
  assert.deepEqual(Object.keys(placement.json.placement.instances), ['tsdb_local']);
  assert.equal(placement.json.placement.numShards, 64);
  assert.equal(placement.json.placement.replicaFactor, 1);
  assert.equal(placement.json.version, 2);

  for (const [age, value] of [
    [20, 3347.26],
    [10, 5347.26],
    [0, 7347.26],
  ] as const) {
    const written = await call('POST', `${server.url}/api/v1/json/write`, {
      tags: { __name__: 'third_avenue', city: 'new_york', checkout: '1' },
      timestamp: String(now - age),
      value,
    });
    assert.equal(written.status, 200, written.text);
  }
  const query = `query=third_avenue&start=${now - 60}&end=${now + 10}&step=10s`;
  for (const method of ['GET', 'POST']) {
    const answer = await call(method, `${server.url}/api/v1/query_range?${query}`);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.status, 'success');
    assert.equal(answer.json.data.resultType, 'matrix');
    const [series] = answer.json.data.result;
    assert.deepEqual(series.metric, {
      __name__: 'third_avenue',
      city: 'new_york',
      checkout: '1',
    });
    assert.equal(series.values.at(-1)[1], '7347.26');
  }
  const filtered = await call(
    'POST',
    `${server.url}/api/v1/query_range?${query.replace('third_avenue', encodeURIComponent('third_avenue > 6000'))}`,
  );
  assert.ok(
    filtered.json.data.result[0].values.every(([, value]: [number, string]) => +value > 6000),
  );
});

test('labels, values and series know what was written', async () => {
  const labels = await call('GET', `${server.url}/api/v1/labels`);
  assert.deepEqual(labels.json.data, ['__name__', 'checkout', 'city']);
  const values = await call('GET', `${server.url}/api/v1/label/city/values`);
  assert.deepEqual(values.json.data, ['new_york']);
  const series = await call(
    'GET',
    `${server.url}/api/v1/series?match[]=${encodeURIComponent('{city=~"new.*"}')}`,
  );
  assert.deepEqual(series.json.data, [
    { __name__: 'third_avenue', checkout: '1', city: 'new_york' },
  ]);
});

test('a bad row is named and does not take the good ones with it', async () => {
  const body = remoteWriteBody([
    { labels: { __name__: 'good', a: '1' }, samples: [{ timestampMillis: now * 1000, value: 1 }] },
    { labels: { __name__: 'bad', '9': 'x' }, samples: [{ timestampMillis: now * 1000, value: 1 }] },
    {
      labels: { __name__: 'old' },
      samples: [{ timestampMillis: (now - 86_400) * 1000, value: 1 }],
    },
  ]);
  const answer = await call('POST', `${server.url}/api/v1/compat/remote/write`, body);
  assert.equal(answer.status, 400);
  assert.match(answer.json.error, /"9"/);
  assert.match(answer.json.error, /too far in past/);
  const good = await call('GET', `${server.url}/api/v1/query?query=good`);
  assert.equal(good.json.data.result[0].value[1], '1');
});

test('the node answers on its own JSON interface', async () => {
  const url = `http://127.0.0.1:${server.ports.httpCluster}`;
  const written = await call('POST', `${url}/writetagged`, {
    namespace: 'default',
    id: 'foo',
    tags: [
      { name: '__name__', value: 'user_login' },
      { name: 'city', value: 'new_york' },
    ],
    datapoint: { timestamp: now, value: 42.123456789 },
  });
  assert.equal(written.status, 200, written.text);
  const answer = await call('POST', `${url}/query`, {
    namespace: 'default',
    query: { regexp: { field: 'city', regexp: 'new_.*' } },
    rangeStart: now - 3600,
    rangeEnd: now + 10,
  });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json.exhaustive, true);
  const foo = answer.json.results.find((result: { id: string }) => result.id === 'foo');
  assert.deepEqual(foo.datapoints, [{ timestamp: now, value: 42.123456789 }]);
});

test('the process says who it is', () => {
  assert.equal(
    readFileSync(join(folder, 'data', 'tsdb.pid'), 'utf8').trim(),
    String(server.program.pid),
  );
  const title = readFileSync(`/proc/${server.program.pid}/comm`, 'utf8').trim();
  assert.match(title, /^tsdb-node/);
});

test('everything is there after a stop by SIGTERM and a new start', async () => {
  assert.equal(await server.program.stop('SIGTERM'), 0);
  await server.start();
  const answer = await call('GET', `${server.url}/api/v1/query?query=third_avenue&time=${now + 1}`);
  assert.equal(answer.json.data.result[0].value[1], '7347.26');
  const version = await call('GET', `${server.url}/api/v1/services/tsdb/placement`);
  assert.equal(version.json.version, 2);
});

test('service metrics are scraped from their own port', async () => {
  const metrics = await call('GET', `http://127.0.0.1:${server.ports.metrics}/metrics`);
  assert.equal(metrics.status, 200);
  assert.match(metrics.text, /^tsdb_/m);
});

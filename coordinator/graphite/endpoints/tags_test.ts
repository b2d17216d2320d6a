import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';

async function opened(): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady();
  const rows = ['a', 'b', 'c'].map((host) => ({
    tags: { __name__: 'cpu', host, rack: 'r1' },
    timestamp: nowSeconds(),
    value: 1,
  }));
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  return test;
}

test('an answer that a limit has cut says so', async () => {
  await using test = await opened();
  for (const path of ['findSeries?expr=name=cpu', 'host?']) {
    const whole = await test.get(`/tags/${path}`);
    assert.equal(whole.status, 200, whole.text);
    assert.equal(whole.headers['tsdb-results-limited'], undefined, path);
    const cut = await test.get(`/tags/${path}&seriesLimit=1&requireExhaustive=false`);
    assert.equal(cut.status, 200, cut.text);
    const limited = String(cut.headers['tsdb-results-limited']);
    assert.match(limited, /^max_fetch_series_limit_applied\b/, path);
  }
});

test('values of a tag that answers leave out are in no list', async () => {
  await using test = await opened();
  const headers = { 'M3-Restrict-By-Tags-JSON': '{"strip":["rack"]}' };
  for (const [path, whole, left] of [
    [
      '/tags/rack',
      { id: 1, tag: 'rack', values: [{ id: 1, value: 'r1', count: 3 }] },
      { id: 1, tag: 'rack', values: [] },
    ],
    ['/tags/autoComplete/values?tag=rack', ['r1'], []],
    ['/tags/autoComplete/tags', ['host', 'name', 'rack'], ['host', 'name']],
  ] as const) {
    assert.deepEqual((await test.get(path)).json, whole);
    const answer = await test.get(path, headers);
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json, left, path);
  }
  const host = await test.get('/tags/host', headers);
  assert.equal(host.json.values.length, 3);
});

test('tags that the conditions have already are not offered again', async () => {
  await using test = await opened();
  for (const [query, tags] of [
    ['expr=rack=r1', ['host', 'name']],
    ['expr=rack=r1&expr=name=cpu', ['host']],
    ['expr=rack=r1&tagPrefix=h', ['host']],
    ['', ['host', 'name', 'rack']],
  ] as const) {
    assert.deepEqual((await test.get(`/tags/autoComplete/tags?${query}`)).json, tags, query);
  }
});

test('lists that are told in parts have each entry once, in order', async () => {
  await using test = await TestCoordinator.openReady();
  const hosts = Array.from({ length: 10_003 }, (_, i) => `h${String(i).padStart(5, '0')}`);
  const rows = hosts.map((host) => ({
    tags: { __name__: 'cpu', host },
    timestamp: nowSeconds(),
    value: 1,
  }));
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  assert.deepEqual((await test.get('/tags/host')).json, {
    id: 1,
    tag: 'host',
    values: hosts.map((value, i) => ({ id: i + 1, value, count: 1 })),
  });
  assert.deepEqual(
    (await test.get('/tags/findSeries?expr=name=cpu')).json,
    hosts.map((host) => `cpu;host=${host}`),
  );
  assert.deepEqual((await test.get('/tags/findSeries?expr=name=nothing')).json, []);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

async function opened(): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady();
  const timestamp = nowSeconds();
  const rows = [
    { __name__: 'cpu', host: 'a', zone: 'east' },
    { __name__: 'cpu', host: 'b' },
    { __name__: 'memory', host: 'a', job: 'node "1"' },
  ].map((tags) => ({ tags, timestamp, value: 1 }));
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  return test;
}

const match = (...selectors: string[]): string =>
  new URLSearchParams(selectors.map((selector) => ['match[]', selector])).toString();

test('labels gives names, of all series or of those that match', async () => {
  await using test = await opened();
  const names = async (parameters = ''): Promise<unknown> =>
    (await test.get(`/api/v1/labels?${parameters}`)).json;
  assert.deepEqual(await names(), {
    status: 'success',
    data: ['__name__', 'host', 'job', 'zone'],
  });
  assert.deepEqual(await names(match('cpu{zone=""}')), {
    status: 'success',
    data: ['__name__', 'host'],
  });
  assert.deepEqual(await names(match('cpu{zone=""}', 'memory')), {
    status: 'success',
    data: ['__name__', 'host', 'job'],
  });
  const form = await test.post('/prometheus/api/v1/labels', match('memory'));
  assert.deepEqual(form.json.data, ['__name__', 'host', 'job']);
});

test('label values gives the values of one label', async () => {
  await using test = await opened();
  const values = async (path: string): Promise<unknown> => (await test.get(path)).json.data;
  assert.deepEqual(await values('/api/v1/label/__name__/values'), ['cpu', 'memory']);
  assert.deepEqual(await values(`/api/v1/label/host/values?${match('memory')}`), ['a']);
  assert.deepEqual(await values('/api/v1/label/nothing/values'), []);
});

test('series gives the labels of series that match, and needs a selector', async () => {
  await using test = await opened();
  const answer = await test.get(`/api/v1/series?${match('memory', '{zone="east"}')}`);
  assert.equal(answer.status, 200);
  assert.deepEqual(
    new Set(answer.json.data.map((one: object) => JSON.stringify(one))),
    new Set([
      JSON.stringify({ __name__: 'memory', host: 'a', job: 'node "1"' }),
      JSON.stringify({ __name__: 'cpu', host: 'a', zone: 'east' }),
    ]),
  );
  const missing = await test.get('/api/v1/series');
  assert.equal(missing.status, 400);
  assert.match(missing.json.error, /match\[\]/);
  assert.equal((await test.get(`/api/v1/series?${match('{')}`)).status, 400);
});

test('limit cuts lists of labels and series, and says so', async () => {
  await using test = await opened();
  for (const path of ['/api/v1/labels?limit=1', `/api/v1/series?limit=1&${match('cpu')}`]) {
    const answer = await test.get(path);
    assert.equal(answer.json.data.length, 1);
    assert.deepEqual(answer.json.warnings, ['results truncated due to limit']);
    assert.equal(answer.headers['tsdb-results-limited'], 'max_fetch_series_limit_applied');
  }
});

test('the earliest and latest times of Prometheus and of its clients are bounds like others', async () => {
  await using test = await TestCoordinator.openReady();
  const row = { tags: { __name__: 'm' }, timestamp: nowSeconds(), value: 1 };
  assert.equal((await test.post('/api/v1/json/write', row)).status, 200);
  for (const [start, end] of [
    ['-292273086-05-16T16:47:06Z', '292277025-08-18T07:12:54.999999999Z'],
    ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z'],
    ['-62135596800', '253402300799'],
  ]) {
    const answer = await test.get(`/api/v1/series?match[]=m&start=${start}&end=${end}`);
    assert.deepEqual(answer.json, { status: 'success', data: [{ __name__: 'm' }] });
  }
});

test('labels of a time that is to come are none, unless the end is before the start', async () => {
  await using test = await opened();
  const start = nowSeconds() + 10_000_000;
  assert.equal((await test.get(`/api/v1/labels?start=${start}`)).status, 200);
  const wrong = await test.get(`/api/v1/labels?start=${start}&end=${start - 1}`);
  assert.equal(wrong.status, 400);
});

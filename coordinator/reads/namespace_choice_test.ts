/** Namespaces that a request chooses by hand, through the API of a coordinator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { makeWindows } from '../windows_testing.ts';

const hour = 3_600;
const tags = [
  { name: '__name__', value: 'm' },
  { name: 'host', value: 'a' },
];

/** Windows of an hour that nodes have made, 20 days ago, and samples of the last two hours. */
async function filled(test: TestCoordinator): Promise<{ oldSeconds: number; fullSeconds: number }> {
  const fullSeconds = Math.floor(nowSeconds() / hour) * hour;
  const oldSeconds = fullSeconds - 480 * hour;
  const endNanos = BigInt(oldSeconds) * 1_000_000_000n;
  await makeWindows(test, [{ tags, windows: [{ endNanos, last: 7, max: 9 }] }]);
  const rows = [
    [fullSeconds - 1_800, 5],
    [fullSeconds - 1_200, 3],
    [fullSeconds, 4],
    [fullSeconds + 1, 100],
  ].map(([timestamp, value]) => ({ tags: { __name__: 'm', host: 'a' }, timestamp, value }));
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  return { oldSeconds, fullSeconds };
}

async function valueAt(
  test: TestCoordinator,
  query: string,
  seconds: number,
  headers: Record<string, string>,
): Promise<string | undefined> {
  const path = `/api/v1/query?query=${encodeURIComponent(query)}&time=${seconds}`;
  const { status, json, text } = await test.get(path, headers);
  assert.equal(status, 200, text);
  return json.data.result[0]?.value[1];
}

test('a policy that is chosen is read from its windows, those that nodes have not made are made of samples', async () => {
  await using test = await TestCoordinator.openReady();
  const { oldSeconds, fullSeconds } = await filled(test);
  const chosen = { 'M3-Metrics-Type': 'aggregated', 'M3-Storage-Policy': '1h:720h' };
  const several = { 'TSDB-Restrict-By-Storage-Policies': '1h:30d' };
  for (const headers of [chosen, several]) {
    assert.equal(await valueAt(test, 'm', oldSeconds, headers), '7');
    assert.equal(await valueAt(test, 'max_over_time(m[4h])', oldSeconds, headers), '9');
    // Not of the sample a second later, which is in the next window.
    assert.equal(await valueAt(test, 'm', fullSeconds + 5, headers), '4');
    assert.equal(await valueAt(test, 'max_over_time(m[4h])', fullSeconds, headers), '5');
    assert.equal(await valueAt(test, 'count_over_time(m[4h])', fullSeconds, headers), '3');
  }
  assert.equal(await valueAt(test, 'm', fullSeconds + 5, {}), '100');
  const samples = { 'M3-Metrics-Type': 'unaggregated' };
  assert.equal(await valueAt(test, 'm', oldSeconds, {}), '7');
  assert.equal(await valueAt(test, 'm', oldSeconds, samples), undefined);
  const values = await test.get('/api/v1/label/host/values', samples);
  assert.deepEqual(values.json.data, ['a']);
});

test('an answer names the namespaces that were read, and how many series of each kind', async () => {
  await using test = await TestCoordinator.openReady();
  const { oldSeconds, fullSeconds } = await filled(test);
  const headersOf = async (path: string): Promise<(string | string[] | undefined)[]> => {
    const { headers } = await test.get(`/api/v1/${path}`);
    return ['namespaces', 'unaggregated-series-count', 'aggregated-series-count'].map((name) => {
      assert.equal(headers[`m3-${name}`], headers[`tsdb-${name}`]);
      return headers[`tsdb-${name}`];
    });
  };
  assert.deepEqual(await headersOf(`query?query=m&time=${fullSeconds}`), ['default', '1', '0']);
  assert.deepEqual(await headersOf(`query?query=m&time=${oldSeconds}`), ['coarse', '0', '1']);
  const range = `start=${oldSeconds}&end=${fullSeconds}`;
  const both = ['coarse,default', '1', '1'];
  assert.deepEqual(await headersOf(`query_range?query=m&${range}&step=3600`), both);
  assert.deepEqual(await headersOf(`series?match[]=m&${range}`), both);
  assert.deepEqual(await headersOf(`labels?${range}`), ['coarse,default', '0', '0']);
  assert.deepEqual(await headersOf('query?query=1'), [undefined, undefined, undefined]);
});

test('policies that are not there, and headers that make no sense, are refused with the reason', async () => {
  await using test = await TestCoordinator.openReady();
  await makeWindows(test, []);
  const policies = 'Restrict-By-Storage-Policies';
  for (const [headers, reason] of [
    [{ 'M3-Metrics-Type': 'aggregated' }, /Storage-Policy: missing/],
    [{ 'M3-Metrics-Type': 'other' }, /neither unaggregated nor aggregated: other/],
    [{ 'M3-Storage-Policy': '1h:720h' }, /Metrics-Type: aggregated alone/],
    [{ [`M3-${policies}`]: '5m:60d' }, /has 5m0s:1440h0m0s; there is 1h0m0s:720h0m0s/],
    [{ [`M3-${policies}`]: '5m' }, /no resolution:retention such as 5m:60d: 5m/],
    [{ [`M3-${policies}`]: 'x:60d' }, /resolution/],
    [{ [`M3-${policies}`]: '1h:720h', 'M3-Metrics-Type': 'aggregated' }, /given, too/],
    [{ [`M3-${policies}`]: '1h:720h;'.repeat(100) }, /more than 64 policies: 101/],
    [{ 'Storage-Policy': '1h:720h' }, /its name is TSDB-Storage-Policy or M3-Storage-Policy/],
    [{ 'metrics-type': 'aggregated' }, /header Metrics-Type: its name is TSDB-Metrics-Type/],
  ] as const) {
    for (const path of ['query?query=m', 'labels', 'series?match[]=m']) {
      const { status, json } = await test.get(`/api/v1/${path}`, { ...headers });
      assert.equal(status, 400, path);
      assert.match(json.error, reason);
    }
  }
});

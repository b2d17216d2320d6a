/** Rollups of a cluster, made by its coordinators and read through the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { applyRules, makeAggregated } from '../windows_testing.ts';

const never = new AbortController().signal;

async function until<T>(what: string, ask: () => Promise<T | null>): Promise<T> {
  for (let attempt = 0; attempt < 400; attempt++) {
    const found = await ask();
    if (found !== null) return found;
    await realEnv.clock.sleep(25, never);
  }
  assert.fail(`not in time: ${what}`);
}

const storagePolicies = [{ resolution: '1m', retention: '720h' }];
const rules = {
  mappingRules: [{ name: 'noise', filter: 'app:b', drop: true }],
  rollupRules: [
    {
      name: 'total',
      filter: '__name__:requests app:*',
      transforms: [
        { transform: { type: 'Increase' } },
        {
          rollup: {
            metricName: '{{ .MetricName }}_by_app',
            groupBy: ['app'],
            aggregations: ['Sum'],
          },
        },
        { transform: { type: 'Add' } },
      ],
      storagePolicies,
    },
    {
      name: 'numbers',
      filter: '__name__:requests app:*',
      transforms: [{ rollup: { metricName: 'rows', groupBy: [], aggregations: ['Count', 'Max'] } }],
      storagePolicies,
    },
  ],
};

test('rollups are made of samples and of what rules drop, and are found beside what they are of', async () => {
  await using test = await TestCoordinator.openReady();
  await makeAggregated(test, 'minutes', '1m', false);
  // Windows that have ended long enough ago to be made at once, and not so long ago as to be taken for final.
  const lastEnd = Math.floor(nowSeconds() / 60) * 60 - 120;
  const firstEnd = lastEnd - 240;
  for (const [app, pod] of ['a1', 'a2', 'b1'] as const) {
    for (let seconds = firstEnd - 100, value = 10; seconds <= lastEnd; seconds += 20) {
      const tags = { __name__: 'requests', app, pod };
      const answer = await test.post('/api/v1/json/write', { tags, timestamp: seconds, value });
      assert.equal(answer.status, 200, answer.text);
      value += app === 'a' ? 1 : 5;
    }
  }
  await applyRules(test, rules);
  const at = async (query: string): Promise<Record<string, string>> => {
    const path = `/api/v1/query?query=${encodeURIComponent(query)}&time=${lastEnd}`;
    const { json, text } = await test.get(path);
    assert.equal(json.status, 'success', text);
    return Object.fromEntries(
      json.data.result.map(
        ({ metric, value }: { metric: Record<string, string>; value: string[] }) => [
          metric['app'] ?? metric['agg'] ?? '',
          value[1],
        ],
      ),
    );
  };
  await until('rollups are there', async () => {
    return Object.keys(await at('requests_by_app')).length === 2 ? true : null;
  });
  // Three rows a minute: of each of the two pods of a 1 more, of the pod of b 5.
  assert.deepEqual(await at('increase(requests_by_app[4m])'), { a: '24', b: '60' });
  assert.deepEqual(await at('rows'), {
    '.count': '9',
    '.upper': String((await maxOf(test, lastEnd)) ?? ''),
  });
  assert.deepEqual(await at('sum_over_time(rows{agg=".count"}[4m])'), { '.count': '36' });
  assert.deepEqual(await at('count_over_time(rows{agg=".count"}[4m])'), { '.count': '4' });
  assert.deepEqual(await at('max_over_time(rows{agg=".count"}[4m])'), { '.count': '9' });
  const path = `/api/v1/query?query=rows%7Bagg%3D%22.count%22%7D%5B4m%5D&time=${lastEnd}`;
  const [range] = (await test.get(path)).json.data.result;
  const ends = [180, 120, 60, 0].map((back) => [lastEnd - back, '9']);
  assert.deepEqual(range.values, ends, 'a range that is the answer has them too');
  const names = await test.get('/api/v1/label/__name__/values');
  assert.deepEqual(names.json.data, ['requests', 'requests_by_app', 'rows']);
  const { host, port } = test.coordinator.metricsServer;
  const metrics = await (await fetch(`http://${host}:${port}/metrics`)).text();
  assert.match(metrics, /tsdb_rollups_leader 1/);
  assert.match(metrics, /tsdb_rollup_rows_total [1-9]/);
});

async function maxOf(test: TestCoordinator, seconds: number): Promise<number | null> {
  const path = `/api/v1/query?query=${encodeURIComponent('max(max_over_time(requests[1m]))')}&time=${seconds}`;
  const { json } = await test.get(path);
  return json.data.result[0]?.value[1] ?? null;
}

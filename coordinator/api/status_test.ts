import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeService, StatisticsRequest, StatisticsResponse } from '#cluster/node/service.ts';
import { TestCoordinator } from '../coordinator_testing.ts';
import { makeAggregated } from '../windows_testing.ts';

const none = new Uint32Array(0);
const row = (name: string, count: number, value = '') => ({ name, value, count, sketch: none });

/** A coordinator over a node with these numbers; keeps what the node was asked. */
async function opened(asked: StatisticsRequest[] = []): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady();
  const answer: StatisticsResponse = {
    seriesCount: 7,
    nameCount: 2,
    pairCount: 5,
    valuesByName: [row('host', 3)],
    seriesByName: [row('__name__', 7)],
    seriesByPair: [row('__name__', 4, 'up')],
    seriesByMetric: [row('up', 4)],
    bytesByName: [row('host', 900)],
    nameSketch: none,
    pairSketch: none,
    openBlocks: 9,
    startNanos: 1_700_000_000_000_000_000n,
    endNanos: 1_700_007_200_000_000_000n,
    created: 10,
    removed: 3,
    createdLastHour: 2,
    removedLastHour: 1,
    shards: Uint32Array.from({ length: 64 }, (_, shard) => shard),
  };
  const node: NodeService = test.node;
  node.statistics = async (request) => {
    asked.push(request);
    return answer;
  };
  return test;
}

test('status/tsdb answers with cardinality in the form of Prometheus', async () => {
  const asked: StatisticsRequest[] = [];
  await using test = await opened(asked);
  const { status, json } = await test.get('/api/v1/status/tsdb');
  assert.equal(status, 200);
  assert.deepEqual(json, {
    status: 'success',
    data: {
      headStats: {
        numSeries: 7,
        numLabelPairs: 5,
        chunkCount: 9,
        minTime: 1_700_000_000_000,
        maxTime: 1_700_007_200_000,
      },
      seriesCountByMetricName: [{ name: 'up', value: 4 }],
      labelValueCountByLabelName: [{ name: 'host', value: 3 }],
      memoryInBytesByLabelName: [{ name: 'host', value: 900 }],
      seriesCountByLabelValuePair: [{ name: '__name__=up', value: 4 }],
      numLabelNames: 2,
      seriesCountByLabelName: [{ name: '__name__', value: 7 }],
      churn: {
        seriesCreated: 10,
        seriesRemoved: 3,
        seriesCreatedLastHour: 2,
        seriesRemovedLastHour: 1,
      },
    },
  });
  const { namespace, limit, metricName, shards, withSketches } = asked[0]!;
  assert.deepEqual(
    [namespace, limit, metricName, shards, withSketches],
    ['default', 10, '__name__', null, false],
  );
});

test('status/tsdb takes a limit, and refuses what is none by name', async () => {
  const asked: StatisticsRequest[] = [];
  await using test = await opened(asked);
  assert.equal((await test.get('/prometheus/api/v1/status/tsdb?limit=1000')).status, 200);
  assert.equal(asked[0]!.limit, 1000);
  for (const limit of ['0', '-1', '1001', 'ten', '1e3']) {
    const { status, json } = await test.get(`/api/v1/status/tsdb?limit=${limit}`);
    assert.equal(status, 400);
    assert.equal(json.error, `limit: not a whole number from 1 to 1000: ${limit}`);
  }
});

test('status/tsdb is about the namespace that is named, whatever it has', async () => {
  const asked: StatisticsRequest[] = [];
  await using test = await opened(asked);
  await makeAggregated(test, 'coarse', '1h', true);
  assert.equal((await test.get('/api/v1/status/tsdb?namespace=coarse')).status, 200);
  assert.equal(asked[0]!.namespace, 'coarse');
  const { status, json } = await test.get('/api/v1/status/tsdb?namespace=fine');
  assert.equal(status, 400);
  assert.equal(json.error, 'namespace: none of those that are READY (coarse, default): fine');
});

test('status/tsdb is not available while no replica gives it', async () => {
  await using test = await opened();
  const node: NodeService = test.node;
  delete node.statistics;
  const { status, json } = await test.get('/api/v1/status/tsdb');
  assert.equal(status, 503);
  assert.match(json.error, /no replica answers for 64 shards: .*: its version gives no statistics/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

const path = '/api/v1/compat/remote/write';
const settings = '{haPairs: {enabled: true}}';
const v2 = { 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' };

function seriesOf(labels: Record<string, string>, seconds: number, value: number): SeriesToWrite {
  return {
    tags: Object.entries(labels)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, value]) => ({ name, value })),
    samples: [{ timestampMillis: 1000 * seconds, value }],
  };
}

const ofPair = (replica: string, name = 'up', cluster = 'eu'): Record<string, string> => ({
  __name__: name,
  __replica__: replica,
  cluster,
});

/** ID and values of each series that has rows. */
function stored(test: TestCoordinator): Record<string, number[]> {
  const all: Record<string, number[]> = {};
  for (const { id, rows } of test.node.seriesOf('default')) {
    if (rows.size === 0) continue;
    all[id] = [...rows.values()].map(
      (bits) => new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0]!,
    );
  }
  return all;
}

async function metricOf(test: TestCoordinator, name: string): Promise<number> {
  const { port } = test.coordinator.metricsServer;
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.split(' ')[1]);
}

test('of two replicas one is taken, without its label; rows of the other count as written', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const now = nowSeconds();
  for (const [replica, value] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
    ['b', 4],
  ] as const) {
    const body = encodeRemoteWriteV2([
      seriesOf(ofPair(replica), now + value, value),
      seriesOf(ofPair(replica, 'down'), now + value, value),
    ]);
    const answer = await test.post(path, body, v2);
    assert.equal(answer.status, 204, answer.text);
    assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '2');
  }
  assert.deepEqual(stored(test), {
    '{__name__="down",cluster="eu"}': [1, 3],
    '{__name__="up",cluster="eu"}': [1, 3],
  });
  assert.equal(
    await metricOf(test, 'tsdb_coordinator_ha_deduplicated_samples_total{cluster="eu"}'),
    4,
  );
  assert.equal(
    await metricOf(test, 'tsdb_coordinator_written_samples_total{format="remote_write_v2"}'),
    4,
  );
});

test('a body may have several clusters, and series of none', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const now = nowSeconds();
  const write = (...series: SeriesToWrite[]) => test.post(path, encodeRemoteWrite(series));
  const first = await write(
    seriesOf(ofPair('a'), now, 1),
    seriesOf(ofPair('b', 'up', 'us'), now, 2),
    seriesOf({ __name__: 'up', cluster: 'none' }, now, 3),
  );
  assert.equal(first.status, 200, first.text);
  const second = await write(
    seriesOf(ofPair('b'), now + 1, 4),
    seriesOf(ofPair('b', 'up', 'us'), now + 1, 5),
    seriesOf({ __name__: 'up', cluster: 'none' }, now + 1, 6),
  );
  assert.equal(second.status, 200, second.text);
  assert.deepEqual(stored(test), {
    '{__name__="up",cluster="eu"}': [1],
    '{__name__="up",cluster="us"}': [2, 5],
    '{__name__="up",cluster="none"}': [3, 6],
  });
  const lonely = await write(seriesOf({ __name__: 'up', __replica__: 'a' }, now, 7));
  assert.equal(lonely.status, 400);
  assert.match(lonely.text, /reserved: \\?"__replica__/);
});

test('without the setting a replica is refused, with its name', async () => {
  await using test = await TestCoordinator.openReady();
  const answer = await test.post(path, encodeRemoteWrite([seriesOf(ofPair('a'), nowSeconds(), 1)]));
  assert.equal(answer.status, 400);
  assert.match(answer.text, /__replica__.*coordinator\.haPairs\.enabled takes those of pairs/);
});

test('labels of other names', async () => {
  await using test = await TestCoordinator.openReady(
    '{haPairs: {enabled: true, clusterLabel: team, replicaLabel: prometheus}}',
  );
  const now = nowSeconds();
  for (const prometheus of ['x', 'y']) {
    const series = seriesOf({ __name__: 'up', team: 't', prometheus }, now, 1);
    assert.equal((await test.post(path, encodeRemoteWrite([series]))).status, 200);
  }
  assert.deepEqual(stored(test), { '{__name__="up",team="t"}': [1] });
});

test('a bad series, or a cluster too many, takes none of the good rows with it', async () => {
  await using test = await TestCoordinator.openReady('{haPairs: {enabled: true, maxClusters: 1}}');
  const now = nowSeconds();
  const broken = { ...seriesOf(ofPair('a', 'broken'), now, 1) };
  const body = encodeRemoteWrite([
    seriesOf(ofPair('a'), now, 1),
    { ...broken, tags: [...broken.tags, { name: 'x', value: 'WRONG' }] },
    seriesOf({ __name__: 'plain' }, now, 2),
  ]);
  // A byte that no UTF-8 has, in a body that snappy keeps as it is.
  const at = Buffer.from(body).indexOf('WRONG');
  assert.ok(at > 0);
  body[at] = 0xff;
  const first = await test.post(path, body);
  assert.equal(first.status, 400, first.text);
  const second = await test.post(
    path,
    encodeRemoteWrite([
      seriesOf(ofPair('a'), now + 1, 3),
      seriesOf(ofPair('a', 'up', 'us'), now + 1, 4),
      seriesOf({ __name__: 'plain' }, now + 1, 5),
    ]),
  );
  assert.equal(second.status, 400);
  assert.match(
    second.text,
    /1 of 3 samples.*more clusters of Prometheus than coordinator\.haPairs\.maxClusters: us/,
  );
  assert.deepEqual(stored(test), {
    '{__name__="plain"}': [2, 5],
    '{__name__="up",cluster="eu"}': [1, 3],
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '#lib/metrics.ts';
import { ClusterMetrics, unseenFigures } from './cluster_metrics.ts';
import { specOf, World } from './world_testing.ts';

test('each cluster is told by its conditions, shards and pods, as long as it is there', async () => {
  const world = new World();
  const metrics = new Metrics();
  const clusters = new ClusterMetrics(metrics);
  world.onPass = (key, figures) => clusters.note(key, figures);
  world.restartOperator();
  world.addCluster(specOf({ etcd: { snapshots: {} } }));
  await world.settle();
  world.broken.add('c-a-0');
  await world.advance();
  await world.reconcile();
  const text = await metrics.text();
  const own = 'namespace="default",cluster="c"';
  for (const line of [
    `tsdb_operator_cluster_condition{${own},condition="Ready"} 0`,
    `tsdb_operator_cluster_condition{${own},condition="Available"} 1`,
    `tsdb_operator_cluster_condition{${own},condition="Stalled"} 0`,
    `tsdb_operator_cluster_shards{${own},state="AVAILABLE"} 36`,
    `tsdb_operator_cluster_shards{${own},state="INITIALIZING"} 0`,
    `tsdb_operator_cluster_pods{${own},component="node",ready="true"} 2`,
    `tsdb_operator_cluster_pods{${own},component="node",ready="false"} 1`,
  ]) {
    assert.ok(text.includes(`${line}\n`), line);
  }
  assert.match(text, /tsdb_operator_cluster_pass_timestamp_seconds\{[^}]*\} 1\d{9}/);
  const asked = Date.parse('2026-01-01T00:00:00Z') / 1000;
  const snapshot = `tsdb_operator_cluster_etcd_snapshot_timestamp_seconds{${own}}`;
  assert.ok(text.includes(`${snapshot} ${asked}\n`), 'asked for, and not taken yet');
  await world.deleteCluster();
  await world.reconcile();
  assert.doesNotMatch(await metrics.text(), /cluster="c"/);
});

test('what is known of a cluster that cannot be looked at stays, but for its conditions', async () => {
  const metrics = new Metrics();
  const clusters = new ClusterMetrics(metrics);
  const pass = 'tsdb_operator_cluster_pass_timestamp_seconds{namespace="n",cluster="c"}';
  const stalled = 'tsdb_operator_cluster_condition{namespace="n",cluster="c",condition="Stalled"}';
  const condition = {
    type: 'Stalled',
    status: 'True',
    reason: 'NotObserved',
    message: '',
  } as const;
  const unseen = unseenFigures([{ ...condition, lastTransitionTime: '', observedGeneration: 1 }]);
  clusters.note('n/c', unseen);
  const never = await metrics.text();
  assert.ok(never.includes(`${pass} 0\n`), 'never seen is longer ago than any alert waits');
  assert.ok(never.includes(`${stalled} 1\n`));
  clusters.note('n/c', { ...unseenFigures([]), passUnixSeconds: 17 });
  clusters.note('n/c', unseen);
  const text = await metrics.text();
  assert.ok(text.includes(`${pass} 17\n`) && text.includes(`${stalled} 1\n`), text);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '#lib/metrics.ts';
import { ClusterMetrics } from './cluster_metrics.ts';
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

/** Who listens where. */
import assert from 'node:assert/strict';
import { clusterName, namespace, operatorHome } from '../install.ts';
import { say } from '../kube.ts';
import { listenersOf } from '../ports.ts';
import { type Ending, ownLabel, ready, type Scenario, type Stage } from './scenario.ts';

const expected: Readonly<Record<string, readonly string[]>> = {
  node: ['any:9000', 'any:9001', 'any:9002', 'any:9003', 'any:9005', 'loopback:9004'],
  coordinator: ['any:7201', 'any:7203'],
  etcd: ['any:2379', 'any:2380', 'any:2381'],
};

async function listeners(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  for (const { metadata, status } of await kube.list('pods', namespace, ownLabel(clusterName))) {
    if (status.phase === 'Succeeded') continue;
    const found = listenersOf(metadata.name);
    say(`  ${metadata.name}: ${found.join(' ')}`);
    const component: string = metadata.labels['tsdb.io/component'];
    assert.deepEqual(found, expected[component], metadata.name);
  }
  const selector = 'app.kubernetes.io/name=tsdb-operator';
  for (const { metadata } of await kube.list('pods', (await operatorHome(kube))!, selector)) {
    assert.deepEqual(listenersOf(metadata.name), ['any:8080'], metadata.name);
  }
  return { calls: [] };
}

export const addresses: readonly Scenario[] = [
  {
    name: 'ports',
    what: 'each process listens where the table of docs/OPERATOR.md says',
    millisMax: 300_000,
    run: listeners,
  },
];

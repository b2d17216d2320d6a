import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configKeySections } from '#lib/config/keys.ts';
import type { ComponentConfig, TsdbCluster } from '../resource/tsdb_cluster.ts';
import { specOf } from '../world_testing.ts';
import { configProblems } from './config.ts';

type Json = any;

function problemsOf(component: 'node' | 'coordinator', config: ComponentConfig): string[] {
  const nodes = component === 'node' ? { nodes: { replicasPerGroup: 1, config } } : {};
  const coordinator = component === 'coordinator' ? { coordinator: { config } } : {};
  const cluster = { spec: specOf({ ...nodes, ...coordinator }) } as TsdbCluster;
  return configProblems(cluster, component);
}

/** {a: {b: value}} of 'a.b'; entries of lists are 'a[]'. */
function nested(path: string, value: unknown): Json {
  const [first, ...rest] = path.split('.');
  const inside = rest.length === 0 ? value : nested(rest.join('.'), value);
  return first!.endsWith('[]') ? { [first!.slice(0, -2)]: [inside] } : { [first!]: inside };
}

test('settings of the processes are taken in the words of their files', () => {
  assert.deepEqual(problemsOf('node', { commitlog: { sync: 'interval', flushEvery: '2s' } }), []);
  assert.deepEqual(
    problemsOf('coordinator', { limits: { perQuery: { maxFetchedSeries: 1 } } }),
    [],
  );
  assert.deepEqual(problemsOf('node', {}), []);
});

test('what a process would not take is said in its words, by the field of the resource', () => {
  assert.deepEqual(problemsOf('node', { commitlog: { sync: 'never' }, typo: 1 }), [
    'nodes.config.commitlog.sync: must be one of always, interval: "never"',
    'nodes.config.typo: unknown key',
  ]);
  const limits = { maxWriteBodyBytes: '2MiB', maxWriteBytesInFlight: '1MiB' };
  assert.deepEqual(problemsOf('coordinator', { limits }), [
    'coordinator.config.limits.maxWriteBytesInFlight: must be at least maxWriteBodyBytes, 2MiB: "1MiB"',
  ]);
  const deep = JSON.parse(`${'{"a":'.repeat(70)}1${'}'.repeat(70)}`);
  assert.deepEqual(problemsOf('node', deep), ['nodes.config is nested too deeply or too large']);
});

test('variables are refused: the operator does not know those of the pod', () => {
  const [problem] = problemsOf('node', { memoryMax: '${MEMORY:1GiB}' });
  assert.match(problem!, /variables of the environment/);
});

for (const [section, component] of [
  ['db', 'node'],
  ['coordinator', 'coordinator'],
] as const) {
  test(`every address, and every way to etcd, of ${component}s is the operator's`, () => {
    const { keys } = configKeySections().find(({ name }) => name === section)!;
    const paths = keys
      .filter(({ type }) => type === 'address' || /→ (discovery|config|service)/.test(type))
      .map(({ path }) => path);
    const all = [...paths, 'metrics.prometheus.listenAddress', 'discovery'];
    assert.ok(all.length >= 4, 'the keys are found');
    for (const path of all) {
      const [problem] = problemsOf(component, nested(path, {}));
      assert.match(problem ?? '', /is set by the operator$/, path);
    }
  });
}

test("who a node is and where its data are is the operator's, also in the sections of clients", () => {
  for (const path of ['hostID.resolver', 'filesystem.filePathPrefix', 'client.config.discovery']) {
    assert.match(problemsOf('node', nested(path, 'x'))[0] ?? '', /is set by the operator$/, path);
  }
  const path = 'clusters[].client.config.service';
  assert.match(problemsOf('coordinator', nested(path, {}))[0] ?? '', /is set by the operator$/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configKeySections } from '#lib/config/schema/keys.ts';
import type { ComponentConfig, TsdbCluster } from '../resource/tsdb_cluster.ts';
import { specOf } from '../world_testing.ts';
import { configProblems, queryMillisMax } from './config.ts';

type Json = any;

function problemsOf(component: 'node' | 'coordinator', config: ComponentConfig): readonly string[] {
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

test('what is too large is refused before it is read, and says by how much', () => {
  const many = Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`k${at}`, 1]));
  const tooMany = ['coordinator.config is too large: at most 1000 values are taken'];
  assert.deepEqual(problemsOf('coordinator', many), tooMany);
  assert.deepEqual(problemsOf('coordinator', { lists: Array.from({ length: 999 }, () => []) }), [
    ...tooMany,
  ]);
  const [few] = problemsOf('coordinator', { lists: Array.from({ length: 998 }, () => []) });
  assert.equal(few, 'coordinator.config.lists: unknown key');
  const [long] = problemsOf('node', { hostname: 'a'.repeat(33_000) });
  assert.match(long!, /^nodes.config is too large: its text has 330\d\d bytes of at most 32768$/);
  // Its lines are indented.
  const [deep] = problemsOf('node', JSON.parse(`${'{"a":'.repeat(900)}1${'}'.repeat(900)}`));
  assert.match(deep!, /^nodes.config is too large: its text has \d+ bytes of at most 32768$/);
});

test('the same text is read once, whatever else changes', () => {
  const config = { commitlog: { sync: 'never' } };
  const problems = problemsOf('node', config);
  assert.equal(problemsOf('node', structuredClone(config)), problems);
  assert.deepEqual(problemsOf('node', { commitlog: { sync: 'interval' } }), []);
  assert.equal(problemsOf('node', config), problems);
  for (let at = 0; at < 300; at++) problemsOf('node', { typo: at });
  assert.notEqual(problemsOf('node', config), problems, 'it is not kept for ever');
});

test('how long a query may take is that of the settings, where these can be read', () => {
  const millisOf = (config: ComponentConfig): number =>
    queryMillisMax({ spec: specOf({ coordinator: { config } }) } as TsdbCluster);
  assert.equal(millisOf({ query: { timeout: '77s' } }), 77_000);
  const unset = millisOf({});
  assert.equal(millisOf({ query: { timeout: '77s' }, typo: 1 }), unset);
  assert.equal(queryMillisMax({ spec: specOf() } as TsdbCluster), unset);
});

test('no key stands for what the operator sets', () => {
  const hidden = JSON.parse('{"__proto__": {"hostID": {"resolver": "config", "value": "x"}}}');
  assert.deepEqual(problemsOf('node', hidden), ['nodes.config.__proto__: unknown key']);
  const deeper = JSON.parse('{"filesystem": {"__proto__": {"filePathPrefix": "/tmp"}}}');
  assert.deepEqual(problemsOf('node', deeper), ['nodes.config.filesystem.__proto__: unknown key']);
});

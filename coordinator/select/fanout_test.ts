/** Which of several ready namespaces is read, through the API of a coordinator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { readableNamespace } from './fanout.ts';

const { signal } = new AbortController();

async function makeReady(test: TestCoordinator, name: string, retentionTime: string) {
  await test.post('/api/v1/database/create', { namespaceName: name, retentionTime });
  await test.post('/api/v1/namespace/ready', { name });
  await test.topology.until(
    ({ namespaces }) => namespaces.get(name)?.options.stagingStatus === 'READY',
    signal,
  );
}

interface Answers {
  /** Values of the label `in`. */
  readonly read: readonly string[];
  /** Series of a query over the last minutes. */
  readonly queried: readonly string[];
  readonly warnings: readonly string[];
}

/** What the answers of all kinds of queries have. */
async function answers(test: TestCoordinator): Promise<Answers> {
  const read = new Set<string>();
  const queried = new Set<string>();
  const warnings = new Set<string>();
  for (const path of ['query?query=m', 'series?match[]=m', 'label/in/values', 'labels']) {
    const { status, json, text } = await test.get(`/api/v1/${path}`);
    assert.equal(status, 200, text);
    for (const warning of json.warnings ?? []) warnings.add(warning);
    if (path.startsWith('label/')) for (const value of json.data) read.add(value);
    if (path.startsWith('query')) for (const { metric } of json.data.result) queried.add(metric.in);
  }
  return { read: [...read].sort(), queried: [...queried].sort(), warnings: [...warnings] };
}

test('what was written before a longer namespace was made ready is found, and what is in both once', async () => {
  await using test = await TestCoordinator.open();
  const create = { type: 'local', namespaceName: 'short', retentionTime: '12h' };
  await test.post('/api/v1/database/create', create);
  await test.markAvailable();
  await makeReady(test, 'short', '12h');
  const write = async (name: string, value: number) => {
    const row = { tags: { __name__: 'm', in: name }, timestamp: nowSeconds() - 60, value };
    const answer = await test.post('/api/v1/json/write', row);
    assert.equal(answer.status, 200, answer.text);
  };
  await write('before', 1);
  await makeReady(test, 'long', '240h');
  await write('since', 2);
  // Since when long has every row is not known, so both are asked.
  assert.deepEqual([...test.node.namespaces.keys()].sort(), ['long', 'short']);
  const all = { read: ['before', 'since'], queried: ['before', 'since'], warnings: [] };
  assert.deepEqual(await answers(test), all);
  const sums = await test.get('/api/v1/query?query=sum(count_over_time(m[5m]))');
  assert.equal(sums.json.data.result[0].value[1], '2', 'no row counts twice');
  const limited = await test.get('/api/v1/query?query=m&limit=1', { 'Limit-Max-Series': '1' });
  assert.ok(limited.status === 400 || limited.json.data.result.length === 1, limited.text);
});

test('a namespace that has every row of the range is asked alone', async () => {
  await using test = await TestCoordinator.open();
  await test.post('/api/v1/database/create', {
    type: 'local',
    namespaceName: 'short',
    retentionTime: '12h',
  });
  await test.markAvailable();
  await makeReady(test, 'short', '12h');
  await makeReady(test, 'long', '240h');
  const asked: string[] = [];
  const fetch = test.node.fetch.bind(test.node);
  test.node.fetch = (request, until) => {
    asked.push(request.namespace);
    return fetch(request, until);
  };
  // The first one has had every row.
  await test.get('/api/v1/query?query=m');
  assert.deepEqual(asked.splice(0), ['short']);
  const end = nowSeconds();
  const day = `start=${end - 86_400}&end=${end}&step=3600`;
  await test.get(`/api/v1/query_range?query=m&${day}`);
  assert.deepEqual(asked.splice(0).sort(), ['long', 'short']);
  // Once the nodes have said what they know, and the time has come that was promised.
  test.node.namespacesRevision = test.topology.view.namespacesRevision;
  test.node.lineageId = test.topology.view.lineageId;
  await test.topology.until(
    ({ namespaces }) => namespaces.get('long')?.completeSinceNanos !== undefined,
    signal,
  );
  const later = nowSeconds() + 3_600;
  await test.get(`/api/v1/query?query=m&time=${later}`);
  assert.deepEqual(asked.splice(0), ['short']);
  await test.get(`/api/v1/query_range?query=m&${day}`);
  assert.deepEqual(asked.splice(0).sort(), ['long', 'short']);
});

test('readableNamespace() takes the longest retention, and the first of equals', () => {
  const of = (name: string, retentionNanos: bigint) => ({ name, retentionNanos, schemas: null });
  const namespaces = [of('b', 1n), of('c', 2n), of('a', 2n)];
  assert.equal(readableNamespace(namespaces).name, 'c');
  assert.throws(() => readableNamespace([]), { code: 'UNAVAILABLE' });
});

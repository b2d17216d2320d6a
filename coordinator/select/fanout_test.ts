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

/** Names of the namespaces that the answers of all kinds of queries come from, and warnings. */
async function answers(test: TestCoordinator): Promise<[read: string[], warnings: string[]]> {
  const read = new Set<string>();
  const warnings = new Set<string>();
  for (const path of ['query?query=m', 'series?match[]=m', 'label/in/values', 'labels']) {
    const { status, json, text } = await test.get(`/api/v1/${path}`);
    assert.equal(status, 200, text);
    for (const warning of json.warnings ?? []) warnings.add(warning);
    if (path.startsWith('label/')) for (const value of json.data) read.add(value);
  }
  return [[...read], [...warnings]];
}

test('of equal namespaces the one that was made ready first is read, and the answer says so', async () => {
  await using test = await TestCoordinator.open();
  const create = { type: 'local', namespaceName: 'second', retentionTime: '12h' };
  await test.post('/api/v1/database/create', create);
  await test.markAvailable();
  await test.post('/api/v1/namespace/ready', { name: 'second' });
  // Each namespace gets a row that the one before it did not.
  const write = async (name: string) => {
    const row = { tags: { __name__: 'm', in: name }, timestamp: nowSeconds(), value: 1 };
    const answer = await test.post('/api/v1/json/write', row);
    assert.equal(answer.status, 200, answer.text);
  };
  await test.topology.until(({ namespaces }) => namespaces.size === 1, signal);
  await test.topology.until(
    ({ namespaces }) => namespaces.get('second')?.options.stagingStatus === 'READY',
    signal,
  );
  await write('second');
  assert.deepEqual(await answers(test), [['second'], []]);
  await makeReady(test, 'first', '12h');
  assert.deepEqual(await answers(test), [
    ['second'],
    ['namespace second was read: it was made ready before first of the same retention'],
  ]);
  await makeReady(test, 'third', '12h');
  const update = { retentionOptions: { retentionPeriodDuration: '12h' } };
  await test.send('PUT', '/api/v1/namespace', JSON.stringify({ name: 'second', options: update }));
  assert.deepEqual(await answers(test), [
    ['second'],
    ['namespace second was read: it was made ready before first and third of the same retention'],
  ]);
  await makeReady(test, 'long', '24h');
  await write('all');
  assert.deepEqual(await answers(test), [['all'], []]);
});

test('readableNamespace() takes the longest retention, and the first of equals', () => {
  const of = (name: string, retentionNanos: bigint) => ({ name, retentionNanos, schemas: null });
  const namespaces = [of('b', 1n), of('c', 2n), of('a', 2n)];
  assert.equal(readableNamespace(namespaces).name, 'c');
  assert.throws(() => readableNamespace([]), { code: 'UNAVAILABLE' });
});

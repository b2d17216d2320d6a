/**
 * Deletion of series, truncation and deletion of namespaces on a real process, with kills in
 * between.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  call,
  createLocalDatabase,
  eventually,
  namespaceReady,
  NodeServer,
  shardsAvailable,
} from './process.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-deletion-'));
const server = await NodeServer.create({ folder });
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
const now = Math.floor(Date.now() / 1000);

async function write(job: string, count: number, value: number): Promise<void> {
  const rows = Array.from({ length: count }, (_, i) => ({
    tags: { __name__: 'up', job },
    timestamp: now - i,
    value,
  }));
  const answer = await call('POST', `${server.url}/api/v1/json/write`, rows);
  assert.equal(answer.status, 200, answer.text);
}

/** Samples of each job: how many, and the value of the newest. */
async function jobs(): Promise<Record<string, [count: number, value: number]>> {
  return eventually('an answer', async () => {
    const query = encodeURIComponent('up[10m]');
    const answer = await call('GET', `${server.url}/api/v1/query?query=${query}&time=${now + 1}`);
    if (answer.status !== 200) throw new Error(answer.text);
    const found: Record<string, [number, number]> = {};
    for (const { metric, values } of answer.json.data.result) {
      found[metric.job] = [values.length, Number(values.at(-1)[1])];
    }
    return found;
  });
}

async function labelled(): Promise<readonly string[]> {
  return (await call('GET', `${server.url}/api/v1/label/job/values`)).json.data;
}

async function remove(selector: string, more = ''): Promise<void> {
  const url = `${server.url}/api/v1/admin/tsdb/delete_series`;
  const response = await fetch(`${url}?match[]=${encodeURIComponent(selector)}${more}`, {
    method: 'POST',
  });
  assert.equal(response.status, 204, await response.text());
  assert.equal(response.headers.get('tsdb-unconfirmed-instances'), null);
}

async function killAndStart(): Promise<void> {
  await server.program.stop('SIGKILL');
  await server.start();
  await shardsAvailable(server.url);
}

async function flush(): Promise<void> {
  const answer = await call('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {});
  assert.equal(answer.status, 200, answer.text);
}

test('series are deleted for good, in memory and files, and what is written again stays', async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  for (const job of ['a', 'b', 'c']) await write(job, 100, 1);
  await flush();
  await write('a', 50, 2);
  await remove('{job="a"}');
  await remove('up{job=~"b|x"}', `&start=${now - 9}&end=${now}`);
  assert.deepEqual(await jobs(), { b: [90, 1], c: [100, 1] });
  await killAndStart();
  assert.deepEqual(await jobs(), { b: [90, 1], c: [100, 1] });
  await write('a', 5, 3);
  assert.deepEqual(await jobs(), { a: [5, 3], b: [90, 1], c: [100, 1] });
  await killAndStart();
  assert.deepEqual(await jobs(), { a: [5, 3], b: [90, 1], c: [100, 1] });
});

test('clean_tombstones rewrites the files, and names vanish that have nothing left', async () => {
  await remove('{job="c"}');
  const cleaned = await fetch(`${server.url}/api/v1/admin/tsdb/clean_tombstones`, {
    method: 'PUT',
  });
  assert.equal(cleaned.status, 204, await cleaned.text());
  assert.deepEqual(await labelled(), ['a', 'b']);
  await killAndStart();
  assert.deepEqual(await labelled(), ['a', 'b']);
  assert.deepEqual(await jobs(), { a: [5, 3], b: [90, 1] });
});

test('bad requests are refused with a reason', async () => {
  const url = `${server.url}/api/v1/admin/tsdb/delete_series`;
  for (const [query, reason] of [
    ['', /missing required parameter: match\[\]/],
    ['?match[]={}', /at least one non-empty matcher/],
    ['?match[]=up&start=5&end=4', /end timestamp must not be before start time/],
    ['?match[]=up&start=x', /start/],
  ] as const) {
    const answer = await call('POST', url + query);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.error, reason);
  }
  const unknown = await call('POST', `${url}?match[]=up&namespace=none`);
  assert.equal(unknown.status, 404, unknown.text);
  assert.equal((await call('GET', `${url}?match[]=up`)).status, 405);
});

test('a truncation takes all that was written before it, also over a kill, and nothing after it', async () => {
  await write('filed', 10, 1);
  await flush();
  await write('logged', 10, 1);
  for (const port of [server.ports.httpCluster, server.ports.httpNode]) {
    const answer = await call('POST', `http://127.0.0.1:${port}/truncate`, {
      namespace: 'default',
    });
    assert.equal(answer.status, 200, answer.text);
    if (port === server.ports.httpCluster) assert.ok(answer.json.numSeries >= 4, answer.text);
    assert.deepEqual(await jobs(), {});
    await write('logged', 3, 9);
    assert.deepEqual(await jobs(), { logged: [3, 9] });
  }
  await killAndStart();
  assert.deepEqual(await jobs(), { logged: [3, 9] });
  const unknown = await call('POST', `http://127.0.0.1:${server.ports.httpCluster}/truncate`, {
    namespace: 'none',
  });
  assert.equal(unknown.status, 404, unknown.text);
});

test('a namespace that is made again does not show the data of the one before it', async () => {
  await write('old', 100, 1);
  await flush();
  await write('older', 100, 1);
  const at = `${server.url}/api/v1/services/tsdb/namespace`;
  assert.equal((await call('DELETE', `${at}/default`)).status, 200);
  await server.program.stop('SIGKILL');
  await server.start();
  await eventually('files are removed', async () => !existsSync(join(folder, 'data/data/default')));
  await createLocalDatabase(server, 'default');
  assert.deepEqual(await jobs(), {});
  await write('new', 10, 4);
  await flush();
  // Deleted and made again at once, perhaps before the node has seen that it was gone.
  await call('DELETE', `${at}/default`);
  await createLocalDatabase(server, 'default');
  await eventually('the old data are gone', async () => Object.keys(await jobs()).length === 0);
  await write('newer', 10, 5);
  assert.deepEqual(await jobs(), { newer: [10, 5] });
  await killAndStart();
  assert.deepEqual(await jobs(), { newer: [10, 5] });
  const left = readdirSync(join(folder, 'data/data'));
  assert.ok(
    left.every((name) => !name.startsWith('.removed')),
    left.join(),
  );
});

test('a retention that changes takes effect on the running node', async () => {
  const at = `${server.url}/api/v1/services/tsdb/namespace`;
  const options = {
    bootstrapEnabled: true,
    flushEnabled: true,
    writesToCommitLog: true,
    cleanupEnabled: true,
    snapshotEnabled: true,
    coldWritesEnabled: true,
    retentionOptions: {
      retentionPeriodDuration: '1h',
      blockSizeDuration: '1m',
      bufferFutureDuration: '10s',
      bufferPastDuration: '10s',
    },
    indexOptions: { enabled: true, blockSizeDuration: '1m' },
  };
  assert.equal((await call('DELETE', `${at}/default`)).status, 200);
  const added = await call('POST', at, { name: 'short', options });
  assert.equal(added.status, 200, added.text);
  await namespaceReady(server.url, 'short');
  const row = (seconds: number, job: string) => ({
    tags: { __name__: 'up', job },
    timestamp: Math.floor(Date.now() / 1000) - seconds,
    value: 1,
  });
  const writeOne = (seconds: number, job: string) =>
    call('POST', `${server.url}/api/v1/json/write`, row(seconds, job));
  assert.equal((await writeOne(1800, 'half an hour')).status, 200);
  assert.equal((await writeOne(30, 'half a minute')).status, 200);
  assert.equal((await writeOne(7200, 'two hours')).status, 400);
  const retain = async (period: string) => {
    const update = { retentionOptions: { retentionPeriodDuration: period } };
    const answer = await call('PUT', at, { name: 'short', options: update });
    assert.equal(answer.status, 200, answer.text);
  };
  await retain('3h');
  await eventually('older rows are taken', async () => {
    return (await writeOne(7200, 'two hours')).status === 200;
  });
  await flush();
  await retain('10m');
  await eventually('what is older expires', async () => {
    const names = await labelled();
    return names.length === 1 && names[0] === 'half a minute';
  });
  assert.equal((await writeOne(1800, 'half an hour')).status, 400);
  await killAndStart();
  await eventually('only what is younger is loaded', async () => {
    return (await labelled()).join() === 'half a minute';
  });
});

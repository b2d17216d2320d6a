/** Limits changed on a running process, by the API and as docs/OPERATIONS.md says with etcdctl. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { toolOrSkip } from '../tools.ts';
import { call, createLocalDatabase, eventually, NodeServer } from './process.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-limits-'));
const server = await NodeServer.create({ folder });
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
const etcdctl = toolOrSkip('etcdctl', 'limits are not set by etcdctl');

const operations = readFileSync(join(import.meta.dirname, '../../docs/OPERATIONS.md'), 'utf8');

const query = () => fetch(`${server.url}/api/v1/query?query=up`);
const set = (body: object) => call('POST', `${server.url}/api/v1/kvstore`, body);

test('a limit of queries takes effect at once, and goes when its key goes', async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  assert.equal((await query()).status, 200);
  const key = 'tsdb.query.limits';
  const value = { maxRecentlyQueriedSeriesBlocks: { forceExceeded: true } };
  const dry = await set({ key, value });
  assert.deepEqual(dry.json, { key, old: null, new: value, version: 0 });
  assert.equal((await query()).status, 200);
  assert.equal((await set({ key, value, commit: true })).json.version, 1);
  const refused = await eventually('queries are refused', async () => {
    const answer = await query();
    return answer.status === 429 ? answer : null;
  });
  assert.equal(refused.headers.get('retry-after'), '5');
  assert.match(await refused.text(), /query aborted due to forced limit: name=series-blocks/);
  const removed = await set({ key, value: null, commit: true });
  assert.deepEqual(removed.json.old, value);
  await eventually('queries are taken again', async () => (await query()).status === 200);
  assert.equal((await set({ key: 'tsdb.none', value: 1 })).status, 400);
});

test('the examples of docs/OPERATIONS.md are taken', async () => {
  const examples = [...operations.matchAll(/api\/v1\/kvstore -d '([^']+)'/g)];
  assert.equal(examples.length, 3);
  for (const [, body] of examples) {
    const answer = await set(JSON.parse(body!) as object);
    assert.equal(answer.status, 200, answer.text);
  }
});

test('etcdctl sets a limit, and a bad value is named in the log and not used', async () => {
  if (etcdctl === null) return;
  const put = (...words: string[]) =>
    execFileSync(etcdctl, ['--endpoints', `127.0.0.1:${server.ports.kv}`, ...words]);
  const [, path, value] = /^etcdctl put (\S+) (\S+)$/m.exec(operations)!;
  put('put', path!, value!);
  await eventually('the limit is taken', async () =>
    server.program.log().includes(`"value":"${value}"`),
  );
  put('put', path!, 'a lot');
  await eventually('the value is named', async () =>
    /ignoring the value of a limit/.test(server.program.log()),
  );
  assert.match(server.program.log(), /max-outstanding-read-requests","value":"a lot"/);
  assert.equal((await query()).status, 200);
});

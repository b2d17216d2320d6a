import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HttpServer, httpRequest } from '#lib/env/http.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { type DumpedParts, serveDebug } from './debug_server.ts';

const { signal: never } = new AbortController();

/** How far the clock of the servers is ahead of the machine's. */
let aheadMillis = 0;
const clock = {
  ...realEnv.clock,
  monotonicMillis: () => realEnv.clock.monotonicMillis() + aheadMillis,
};

const open = (): Promise<HttpServer> =>
  serveDebug({
    host: '127.0.0.1',
    port: 0,
    allowedHosts: null,
    env: { ...realEnv, clock },
    log: silentLog,
    metrics: new Metrics(),
    node: {} as DumpedParts,
  });

async function get(
  server: HttpServer,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  signal: AbortSignal = never,
) {
  const url = `http://127.0.0.1:${server.port}${path}`;
  const request = { method: 'GET', headers, responseBytesMax: 50_000_000 };
  const { body, ...answer } = await httpRequest(url, request, signal);
  return { ...answer, text: Buffer.from(body).toString() };
}

test('there is one profile of a kind at a time, and the others are told when to come', async () => {
  await using server = await open();
  for (const kind of ['profile', 'heap']) {
    const path = `/debug/pprof/${kind}?seconds=0.6`;
    const answers = await Promise.all(Array.from({ length: 40 }, () => get(server, path)));
    const taken = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status === 429);
    assert.deepEqual([taken.length, refused.length], [1, 39], kind);
    for (const { headers, text } of refused) {
      assert.equal(headers['retry-after'], '31');
      assert.match(text, /"error":"one (?:CPU|heap) profile at a time/);
    }
    const short = `/debug/pprof/${kind}?seconds=0.01`;
    const soon = await get(server, short);
    assert.deepEqual([soon.status, soon.headers['retry-after']], [429, '30']);
    aheadMillis += 30_000;
    assert.equal((await get(server, short)).status, 200);
  }
});

test('a CPU and a heap profile may be taken at the same time', async () => {
  await using server = await open();
  const paths = ['/debug/pprof/profile?seconds=0.2', '/debug/pprof/heap?seconds=0.2'];
  const answers = await Promise.all(paths.map((path) => get(server, path)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  );
});

test('who leaves a profile leaves its place', { timeout: 20_000 }, async () => {
  await using server = await open();
  const leaves = new AbortController();
  const left = get(server, '/debug/pprof/profile?seconds=300', {}, leaves.signal);
  const path = '/debug/pprof/profile?seconds=0.01';
  let next = await get(server, path);
  while (next.status === 200) next = await get(server, path);
  assert.ok(Number(next.headers['retry-after']) > 290);
  leaves.abort(new Error('left'));
  await assert.rejects(left, /left/);
  while (next.status === 429) {
    aheadMillis += 1_000;
    next = await get(server, path);
  }
  assert.equal(next.status, 200);
});

test('pages of other sites start no profiles and no dumps', async () => {
  await using server = await open();
  const page = { 'Sec-Fetch-Site': 'cross-site' };
  for (const path of [
    '/debug/pprof/profile?seconds=1',
    '/debug/pprof/heap?seconds=1',
    '/debug/dump',
    // The path of a URL is this one's end.
    '//x/debug/dump',
    '/x/../debug/dump',
  ]) {
    const { status, text } = await get(server, path, page);
    assert.equal(status, 403, path);
    assert.match(text, /^\{"status":"error","error":"GET requests of a web page of another origin/);
  }
  assert.equal((await get(server, '/metrics', page)).status, 200);
  const named = await get(server, '/metrics', { Host: 'evil.example.com' });
  assert.equal(named.status, 421);
});

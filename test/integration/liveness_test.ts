/**
 * What the probes of Kubernetes and its way to end pods rely on, with real processes: a process
 * answers while it replays its log and while etcd is away, and answers what it has accepted before
 * it ends.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { after, test } from 'node:test';
import { freePorts } from '../ports.ts';
import { createLocalDatabase, eventually, NodeServer } from './process.ts';
import { remoteWriteBody } from './remote_write_body.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-liveness-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Of the probes that the operator sets. */
const probeMillisMax = 10_000;

async function probe(url: string): Promise<{ status: number; millis: number; text: string }> {
  const start = performance.now();
  const answer = await fetch(url, { signal: AbortSignal.timeout(probeMillisMax) });
  const body = await answer.text();
  return { status: answer.status, millis: performance.now() - start, text: body };
}

test('a node that replays its log is alive, and not ready', async () => {
  const server = await NodeServer.create({ folder: join(folder, 'replay') });
  await server.start();
  await createLocalDatabase(server, 'default');
  const nowMillis = Date.now();
  for (let body = 0; body < 40; body++) {
    const series = Array.from({ length: 5_000 }, (_, index) => ({
      labels: { __name__: 'replayed', series: String(body * 5_000 + index) },
      samples: [{ timestampMillis: nowMillis, value: index }],
    }));
    const answer = await fetch(`${server.url}/api/v1/compat/remote/write`, {
      method: 'POST',
      body: remoteWriteBody(series),
      headers: { 'content-encoding': 'snappy', 'content-type': 'application/x-protobuf' },
    });
    assert.equal(answer.status, 200, await answer.text());
  }
  await server.program.stop('SIGKILL');
  server.program.start();
  const node = `http://127.0.0.1:${server.ports.httpNode}`;
  const end = performance.now() + 60_000;
  let replaying = 0;
  let slowestMillis = 0;
  let isReady = false;
  while (!isReady) {
    assert.ok(performance.now() < end, 'it becomes ready');
    const alive = await probe(`${node}/health`).catch(() => null);
    if (alive === null) {
      assert.equal(replaying, 0, 'who has answered once goes on answering');
      continue;
    }
    assert.equal(alive.status, 200);
    slowestMillis = Math.max(slowestMillis, alive.millis);
    const ready = await probe(`${node}/bootstrappedinplacementornoplacement`);
    isReady = ready.status === 200;
    if (!isReady) replaying += JSON.parse(alive.text).bootstrapped === false ? 1 : 0;
  }
  assert.ok(replaying > 0, 'it was asked while it replayed');
  assert.ok(slowestMillis < probeMillisMax / 2, `it took ${slowestMillis} ms to answer`);
  assert.match(server.program.log(), /"rows":200000,/);
  assert.equal(await server.program.stop(), 0);
});

test('a node and a coordinator are alive without etcd', async () => {
  const [etcd] = await freePorts(1);
  const server = await NodeServer.create({
    folder: join(folder, 'alone'),
    etcdEndpoint: `127.0.0.1:${etcd}`,
    hostId: 'alone',
  });
  server.program.start();
  const urls = [
    `http://127.0.0.1:${server.ports.httpNode}/health`,
    `http://127.0.0.1:${server.ports.coordinator}/health`,
    `http://127.0.0.1:${server.ports.metrics}/metrics`,
  ];
  for (const url of urls) await eventually(url, async () => (await probe(url)).status === 200);
  // Longer than any call to etcd is waited for.
  await delay(6_000);
  for (const url of urls) assert.equal((await probe(url)).status, 200);
  // Whether it is in a placement nobody has told it.
  const readiness = `http://127.0.0.1:${server.ports.httpNode}/bootstrappedinplacementornoplacement`;
  assert.equal((await probe(readiness)).status, 503);
  await server.program.stop();
});

test('a coordinator that is told to end answers what it has accepted, and takes no more', async () => {
  const server = await NodeServer.create({ folder: join(folder, 'stop') });
  await server.start();
  const begun = request(`${server.url}/api/v1/query`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'content-length': 11 },
  });
  const answered = once(begun, 'response');
  begun.write('query=');
  await delay(200);
  const stopped = server.program.stop();
  await eventually('nobody else is let in', async () => {
    try {
      await fetch(`${server.url}/health`);
      return false;
    } catch {
      return true;
    }
  });
  // Longer than a server is given to end by default.
  await delay(6_000);
  begun.end('1%2B1');
  const [answer] = await answered;
  assert.equal(answer.statusCode, 200);
  assert.match(await text(answer), /"2"/);
  assert.equal(await stopped, 0);
});

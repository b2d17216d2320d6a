import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { freePorts } from '#test/ports.ts';
import type { Told } from '../ingest/streams/told.ts';
import { Places } from '../http/places.ts';
import { Target } from './target.ts';

test('what waits for a target has a limit, and is gone with it', async () => {
  let requests = 0;
  // Answers nothing.
  const server = createServer(() => {
    requests += 1;
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const stop = new AbortController();
  try {
    const { port } = server.address() as AddressInfo;
    const counts: Record<string, number> = {};
    const told: string[] = [];
    const counter = {
      increase: (by = 1, { result = 'retries' }: Record<string, string> = {}) => {
        counts[result] = (counts[result] ?? 0) + by;
      },
    };
    const target = new Target(
      {
        config: {
          requestsMax: 2,
          timeoutMillis: 60_000,
          backoff: { firstMillis: 1, factor: 2 },
          retriesMax: 0,
          targets: [],
        },
        target: {
          url: `http://somebody:secret@127.0.0.1:${port}/write?token=secret`,
          method: 'POST',
          headers: {},
          retries: false,
          share: null,
        },
        env: realEnv,
        metrics: { bodies: counter, retries: counter } as never,
        shadows: new Places(1),
        told: {
          note: (name: string, _: number, reason: string) => told.push(`${name}: ${reason}`),
        } as unknown as Told,
      },
      stop.signal,
    );
    const bytes = new Uint8Array(20 << 20);
    for (let i = 0; i < 5; i++) target.take({ bytes, version: 1, headers: {} });
    assert.equal(target.heldBytes, 60 << 20);
    assert.deepEqual(counts, { dropped: 2 });
    assert.deepEqual(
      new Set(told),
      new Set([`127.0.0.1:${port}/write: more waits for it than is kept`]),
    );
    // Small ones still have room.
    target.take({ bytes: bytes.subarray(0, 1_000), version: 1, headers: {} });
    assert.deepEqual(counts, { dropped: 2 });
    while (requests < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    stop.abort(new Error('the process ends'));
    while (target.heldBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    // What ends with the process is no failure of the target.
    assert.deepEqual(counts, { dropped: 6 });
    target.take({ bytes: bytes.subarray(0, 1_000), version: 1, headers: {} });
    assert.deepEqual([counts, target.heldBytes], [{ dropped: 7 }, 0]);
  } finally {
    stop.abort();
    server.closeAllConnections();
    server.close();
  }
});

test('what may be secret of an address is not in the log', async () => {
  const told: string[] = [];
  const counts: string[] = [];
  const counter = {
    increase: (_: number, { result = 'retries' }: Record<string, string>) => counts.push(result),
  };
  // Nobody listens there.
  const [port] = (await freePorts(1)) as [number];
  const target = new Target(
    {
      config: {
        requestsMax: 2,
        timeoutMillis: 5_000,
        backoff: { firstMillis: 1, factor: 2 },
        retriesMax: 1,
        targets: [],
      },
      target: {
        url: `http://somebody:secret@127.0.0.1:${port}/write?token=secret`,
        method: 'POST',
        headers: { Authorization: 'secret' },
        retries: true,
        share: null,
      },
      env: realEnv,
      metrics: { bodies: counter, retries: counter } as never,
      told: {
        note: (name: string, _: number, reason: string) => told.push(`${name}: ${reason}`),
      } as unknown as Told,
      shadows: new Places(1),
    },
    new AbortController().signal,
  );
  target.take({ bytes: new Uint8Array(10), version: 1, headers: {} });
  while (target.heldBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual(counts, ['retries', 'failed']);
  assert.match(told[0]!, /ECONNREFUSED/);
  assert.ok(!told.join().includes('secret'), told.join());
});

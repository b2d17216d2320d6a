/** What the embedded store and its clients do when its process is killed. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import type { Kv, WatchBatch } from '#cluster/kv/kv.ts';
import { RevisionCompacted } from '#cluster/kv/kv.ts';
import { TsdbError } from '#lib/errors.ts';
import { connectGrpc } from '#lib/env/grpc.ts';
import { realEnv } from '#lib/env/real.ts';
import { type Log, silentLog } from '#lib/log.ts';
import { freePort, startEmbedded, untilAnswered } from './kv_suite_servers.ts';

const never = new AbortController().signal;
const bytes = (text: string) => new TextEncoder().encode(text);
const put = (key: string, value: string) => ({ kind: 'put', key, value: bytes(value) }) as const;
const open = (endpoint: string): Kv =>
  openEtcdKv({ endpoints: [endpoint], env: realEnv, log: silentLog });

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-kill-'));
  try {
    await run(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

suite('a store that is killed', { concurrency: true }, () => {
  test('everything acknowledged before kill -9 is there after it, five times in a row', () =>
    inFolder(async (folder) => {
      const acknowledged = new Map<string, number>();
      for (let round = 0; round < 5; round += 1) {
        await using server = await startEmbedded(folder);
        await using kv = open(server.endpoint);
        const { items } = await kv.list('k/', never);
        const found = new Map(items.map((item) => [item.key, item.modRevision]));
        for (const [key, revision] of acknowledged) assert.equal(found.get(key), revision, key);
        let answers = 0;
        const enough = Promise.withResolvers<void>();
        const writer = async (name: number) => {
          for (let index = 0; ; index += 1) {
            const key = `k/${round}/${name}/${index}`;
            const { revision } = await kv.transact([], [put(key, 'x'.repeat(500))], never);
            acknowledged.set(key, revision);
            answers += 1;
            if (answers === 100) enough.resolve();
          }
        };
        const writers = Array.from({ length: 8 }, (_, name) => writer(name).catch(() => {}));
        await enough.promise;
        await server.kill();
        await Promise.all(writers);
      }
      assert(acknowledged.size >= 500);
    }));

  test('a watch goes on after the last batch when the store was killed and came back', () =>
    inFolder(async (folder) => {
      const port = await freePort();
      const seen: string[] = [];
      const revisions: number[] = [];
      const stop = new AbortController();
      await using kv = open(`127.0.0.1:${port}`);
      const waiting: { count: number; done: () => void }[] = [];
      const untilSeen = (count: number) =>
        new Promise<void>((done) => {
          waiting.push({ count, done });
          check();
        });
      const check = () => {
        for (const { count, done } of waiting) if (seen.length >= count) done();
      };
      const watching = (async () => {
        for await (const batch of kv.watch('k/', 1, stop.signal)) {
          for (const event of batch.events) {
            assert(event.kind === 'put');
            revisions.push(event.item.modRevision);
            if (!seen.includes(event.item.key)) seen.push(event.item.key);
          }
          check();
        }
      })();
      const expected: string[] = [];
      for (let round = 0; round < 3; round += 1) {
        await using _server = await startEmbedded(folder, port);
        await untilAnswered(`127.0.0.1:${port}`);
        for (let index = 0; index < 5; index += 1) {
          const key = `k/${round}/${index}`;
          // The client may still hold the connection to the process that was killed.
          await untilDone(() => kv.transact([], [put(key, 'x')], never));
          if (!expected.includes(key)) expected.push(key);
        }
        await untilSeen(expected.length);
      }
      stop.abort();
      await watching;
      assert.deepEqual(seen, expected);
      // Each revision once, in order, and none left out.
      assert.deepEqual(
        revisions,
        revisions.map((_, index) => index + 2),
      );
    }));

  test('a watch tells once that the store is away, and once that it is back', () =>
    inFolder(async (folder) => {
      const port = await freePort();
      const told: string[] = [];
      const tell = (_fields: object, message: string): void => void told.push(message);
      const log: Log = { ...silentLog, info: tell, warn: tell };
      const endpoint = `127.0.0.1:${port}`;
      await using kv = openEtcdKv({ endpoints: [endpoint], env: realEnv, log });
      const seen: string[] = [];
      const watching = async (): Promise<void> => {
        for await (const { events } of kv.watch('k/', 1, never)) {
          for (const event of events) if (event.kind === 'put') seen.push(event.item.key);
        }
      };
      const untilSeen = async (key: string): Promise<void> => {
        while (!seen.includes(key)) await delay(20);
      };
      for (const key of ['k/1', 'k/2', 'k/3']) {
        await using server = await startEmbedded(folder, port);
        await untilAnswered(endpoint);
        if (key === 'k/1') watching().catch(() => {});
        await untilDone(() => kv.transact([], [put(key, 'x')], never));
        await untilSeen(key);
        await server.kill();
        // It is tried again several times.
        if (key !== 'k/3') await delay(1000);
      }
      const [interrupted, back] = ['watch was interrupted; resuming', 'watch goes on'];
      assert.deepEqual(told.slice(0, 4), [interrupted, back, interrupted, back]);
    }));

  test('a watch whose place was compacted while it was cut off says so', () =>
    inFolder(async (folder) => {
      const port = await freePort();
      await using kv = open(`127.0.0.1:${port}`);
      const first = Promise.withResolvers<WatchBatch>();
      const watching = (async () => {
        for await (const batch of kv.watch('k/', 1, never)) first.resolve(batch);
      })();
      watching.catch(() => {});
      {
        await using _server = await startEmbedded(folder, port);
        await untilDone(() => kv.transact([], [put('k/1', 'x')], never));
        await first.promise;
      }
      const other = await freePort();
      {
        await using server = await startEmbedded(folder, other);
        await using writer = open(server.endpoint);
        await writer.transact([], [put('k/2', 'x')], never);
        const { revision } = await writer.transact([], [put('k/3', 'x')], never);
        using raw = connectGrpc({ target: server.endpoint, answerBytesMax: 1_000 });
        await raw.unary('/etcdserverpb.KV/Compact', Uint8Array.of(8, revision), never);
      }
      await using _server = await startEmbedded(folder, port);
      await assert.rejects(watching, (error) => error instanceof RevisionCompacted);
    }));

  test('a lease is lost when the store is away for longer than it lives, and kept when shorter', () =>
    inFolder(async (folder) => {
      const port = await freePort();
      const endpoint = `127.0.0.1:${port}`;
      await using kv = open(endpoint);
      const server = await startEmbedded(folder, port);
      await untilAnswered(endpoint);
      const long = await untilDone(() => kv.lease(30, never));
      const short = await kv.lease(1, never);
      const write = { ...put('k', 'x'), leaseId: long.id };
      await kv.transact([], [write], never);
      assert.equal(short.lost.aborted, false);
      await server.kill();
      // On a busy machine it is lost before the process has ended.
      if (!short.lost.aborted) {
        await new Promise((resolve) => short.lost.addEventListener('abort', resolve));
      }
      assert(short.lost.reason instanceof TsdbError);
      await using _again = await startEmbedded(folder, port);
      await untilAnswered(endpoint);
      assert.equal((await untilDone(() => kv.get('k', never)))!.leaseId, long.id);
      assert.equal(long.lost.aborted, false);
    }));

  test('calls go to the endpoint that answers', () =>
    inFolder(async (folder) => {
      await using server = await startEmbedded(folder);
      const dead = [`127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
      const endpoints = [...dead, `http://${server.endpoint}`];
      await using kv = openEtcdKv({ endpoints, env: realEnv, log: silentLog });
      const { revision } = await kv.transact([], [put('k', 'x')], never);
      assert.equal((await kv.get('k', never))!.modRevision, revision);
      await using nowhere = openEtcdKv({ endpoints: dead, env: realEnv, log: silentLog });
      const isUnavailable = (error: unknown) =>
        error instanceof TsdbError && error.code === 'UNAVAILABLE';
      await assert.rejects(nowhere.get('k', never), isUnavailable);
      await assert.rejects(nowhere.transact([], [put('k', 'y')], never), isUnavailable);
    }));
});

async function untilDone<Answer>(task: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await task();
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'UNAVAILABLE')) throw error;
      await realEnv.clock.sleep(20, never);
    }
  }
}

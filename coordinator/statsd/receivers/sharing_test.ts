/** Several listeners of statsd that share series: whatever comes to whom, and whoever comes and goes, counts are whole. */
import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { statsdPrefix } from '#cluster/kv/keys.ts';
import type { KeyValue } from '#cluster/kv/kv.ts';
import { type MemoryKv, MemoryKvStore } from '#cluster/kv/memory.ts';
import { parseConfig } from '#lib/config/config.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import type { StreamFormat } from '../../ingest/line_formats.ts';
import { listenStatsd, type StatsdListener } from '../listener.ts';
import { statsdMetrics } from '../series/metrics.ts';

const flushMillis = 100;
const never = new AbortController().signal;
const name = { environment: 'test', zone: 'embedded' };

interface Row {
  readonly series: string;
  readonly value: number;
  readonly millis: number;
  /** The coordinator that wrote it. */
  readonly by: number;
}

interface Coordinator {
  readonly listener: StatsdListener;
  readonly kv: MemoryKv;
}

/** Coordinators over one store, which write to one list. */
class Cluster implements AsyncDisposable {
  readonly rows: Row[] = [];
  readonly #store = new MemoryKvStore({ clock: realEnv.clock });
  readonly #all: (Coordinator | null)[] = [];
  readonly #socket: Socket = createSocket('udp4');
  readonly #more: string;

  constructor(more = '') {
    this.#more = more;
  }

  async add(): Promise<number> {
    const by = this.#all.length;
    const kv = this.#store.client();
    const sharing = '{listenAddress: "127.0.0.1:0", advertiseAddress: "127.0.0.1:0"}';
    const ingester = `{listenAddress: "127.0.0.1:0", flushInterval: ${flushMillis}ms, sharing: ${sharing}${this.#more}}`;
    const text = `coordinator: {statsd: {ingester: ${ingester}}}`;
    const config = parseConfig([{ path: 'test.yml', text }], 'coordinator', {}).coordinator!
      .statsd!;
    const metrics = new Metrics();
    const state = { connectionCount: 0, seriesCount: 0, memberCount: 0, waitingBytes: 0 };
    const of = Object.fromEntries(Object.keys(state).map((name) => [name, () => 0]));
    const listener = await listenStatsd(
      {
        config,
        streams: { write: (_: StreamFormat, chunks) => this.#write(by, chunks) },
        env: realEnv,
        log: silentLog,
        metrics: statsdMetrics(metrics, of as Record<keyof typeof state, () => number>),
        sharing: {
          kv,
          cluster: name,
          times: { leaseSeconds: 1, leadMillis: 700 },
        },
      },
      never,
    );
    this.#all.push({ listener, kv });
    return by;
  }

  async leave(by: number): Promise<void> {
    const { listener } = this.#all[by]!;
    this.#all[by] = null;
    // What the system still has of packets is lost with a socket.
    await sleep(20);
    await listener[Symbol.asyncDispose]();
  }

  /** The store does not hear of it any longer; it goes on. */
  async cutOff(by: number): Promise<void> {
    await this.#all[by]!.kv[Symbol.asyncDispose]();
  }

  /** One that runs is no longer, or again, registered. */
  async setRegistered(registered: KeyValue, isThere: boolean): Promise<void> {
    await using kv = this.#store.client();
    const { key, value } = registered;
    const operation = isThere
      ? ({ kind: 'put', key, value } as const)
      : ({ kind: 'delete', key } as const);
    await kv.transact([], [operation], never);
  }

  async registered(): Promise<readonly KeyValue[]> {
    await using kv = this.#store.client();
    const { items } = await kv.list(statsdPrefix(name), never);
    return items.filter(({ key }) => key.includes('registered'));
  }

  /** To one of those that are there. */
  send(lines: string, to: number): Promise<void> {
    const there = this.#all.filter((one) => one !== null);
    const { udpPort } = there[to % there.length]!.listener;
    return new Promise((resolve, reject) => {
      this.#socket.send(lines, udpPort!, '127.0.0.1', (error) =>
        error === null ? resolve() : reject(error),
      );
    });
  }

  async whenShared(count: number): Promise<void> {
    const there = () => this.#all.flatMap((one) => (one === null ? [] : [one.listener]));
    while (there().some(({ memberCount }) => memberCount !== count)) await sleep(10);
  }

  async #write(by: number, chunks: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const chunk of chunks) {
      for (const line of Buffer.from(chunk).toString().trimEnd().split('\n')) {
        const [series, value, millis] = line.split(' ') as [string, string, string];
        this.rows.push({ series, value: Number(value), millis: Number(millis), by });
      }
    }
  }

  /** Rows of each series in the order of their times. */
  bySeries(): Map<string, Row[]> {
    const all = Map.groupBy(this.rows, ({ series }) => series);
    for (const rows of all.values()) rows.sort((a, b) => a.millis - b.millis);
    return all;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    for (const [by, one] of this.#all.entries()) if (one !== null) await this.leave(by);
  }
}

/** As Prometheus has it: a lower value is one that began anew. */
function increase(rows: readonly Row[]): number {
  let sum = 0;
  for (const [i, { value }] of rows.entries()) {
    const before = rows[i - 1]?.value ?? 0;
    sum += value < before ? value : value - before;
  }
  return sum;
}

/** Counts are as they should be in the end; what is wrong stays wrong. */
async function counted(
  cluster: Cluster,
  expected: Readonly<Record<string, number>>,
): Promise<void> {
  const counts = (): Record<string, number> => {
    const all = cluster.bySeries();
    const names = Object.keys(expected);
    return Object.fromEntries(names.map((name) => [name, increase(all.get(name) ?? [])]));
  };
  for (let waits = 0; waits < 100; waits++) {
    if (Object.entries(counts()).every(([name, count]) => count === expected[name])) break;
    await sleep(flushMillis);
  }
  // Nor is there more later.
  await sleep(2 * flushMillis);
  assert.deepEqual(counts(), expected);
}

test('each series is written by one coordinator, whoever was sent its lines', async () => {
  await using cluster = new Cluster();
  for (let i = 0; i < 3; i++) await cluster.add();
  await cluster.whenShared(3);
  const expected: Record<string, number> = {};
  for (let i = 0; i < 40; i++) {
    expected[`hits_${i}{dc="eu"}`] = 6;
    expected[`took_${i}_count`] = 12;
  }
  for (let round = 0; round < 6; round++) {
    for (let i = 0; i < 40; i++) {
      await cluster.send(`hits.${i}:1|c|#dc:eu\nusers.${i}:u${round}|s\ntook.${i}:1:2|ms`, round);
    }
  }
  await counted(cluster, expected);
  const writers = new Set<number>();
  for (const [series, rows] of cluster.bySeries()) {
    const [by, ...others] = new Set(rows.map((row) => row.by));
    assert.deepEqual(others, [], series);
    writers.add(by!);
  }
  assert.equal(writers.size, 3);
  // Members of a set are counted by one, whoever of them came where: in one window or the other.
  const members = cluster
    .bySeries()
    .get('users_0')!
    .map(({ value }) => value);
  assert.equal(
    members.reduce((sum, value) => sum + value, 0),
    6,
  );
});

test('while coordinators come and go nothing is counted twice or not at all', async () => {
  await using cluster = new Cluster();
  await cluster.add();
  await cluster.add();
  await cluster.whenShared(2);
  const stop = new AbortController();
  let sent = 0;
  const sending = (async () => {
    while (!stop.signal.aborted) {
      for (let i = 0; i < 50; i++) await cluster.send(`hits.${i}:1|c`, sent);
      sent += 1;
      await sleep(2);
    }
  })();
  await sleep(2 * flushMillis);
  await cluster.add();
  await cluster.whenShared(3);
  await sleep(2 * flushMillis);
  await cluster.add();
  await cluster.whenShared(4);
  await sleep(2 * flushMillis);
  await cluster.leave(0);
  await cluster.whenShared(3);
  await sleep(2 * flushMillis);
  await cluster.leave(2);
  await cluster.whenShared(2);
  stop.abort();
  await sending;
  const names = Array.from({ length: 50 }, (_, i) => `hits_${i}`);
  await counted(cluster, Object.fromEntries(names.map((name) => [name, sent])));
  for (const [series, rows] of cluster.bySeries()) {
    // Who writes it changes with who is there alone: four times.
    const writers = rows.map(({ by }) => by).filter((by, i, of) => by !== of[i - 1]);
    assert.ok(writers.length <= 5, `${series}: ${writers}`);
  }
});

test('one that the store has lost hears from the others that it keeps nothing any more', async () => {
  await using cluster = new Cluster();
  for (let i = 0; i < 3; i++) await cluster.add();
  await cluster.whenShared(3);
  const stop = new AbortController();
  let sent = 0;
  const sending = (async () => {
    while (!stop.signal.aborted) {
      for (let i = 0; i < 20; i++) await cluster.send(`hits.${i}:1|c`, sent);
      sent += 1;
      await sleep(5);
    }
  })();
  await sleep(2 * flushMillis);
  await cluster.cutOff(1);
  await cluster.whenShared(2);
  await sleep(2 * flushMillis);
  stop.abort();
  await sending;
  const names = Array.from({ length: 20 }, (_, i) => `hits_${i}`);
  await counted(cluster, Object.fromEntries(names.map((name) => [name, sent])));
});

test('lines for one that was away for a while and is back are taken again', async () => {
  await using cluster = new Cluster();
  await cluster.add();
  await cluster.add();
  await cluster.whenShared(2);
  let sent = 0;
  const send = async (rounds: number): Promise<void> => {
    for (const end = sent + rounds; sent < end; sent++) {
      for (let i = 0; i < 20; i++) await cluster.send(`hits.${i}:1|c`, sent);
      await sleep(20);
    }
  };
  await send(20);
  const [one] = await cluster.registered();
  await cluster.setRegistered(one!, false);
  await cluster.whenShared(1);
  await send(5);
  await cluster.setRegistered(one!, true);
  await cluster.whenShared(2);
  await send(5);
  const names = Array.from({ length: 20 }, (_, i) => `hits_${i}`);
  await counted(cluster, Object.fromEntries(names.map((series) => [series, sent])));
});

/**
 * Three coordinators, as processes with a real etcd, that share the series of statsd: one is killed and comes back, and every line
 * that was sent is counted once. It takes half a minute, for a lease has to end.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from '../ports.ts';
import { toolOrSkip } from '../tools.ts';
import {
  call,
  etcdOf,
  eventually,
  namespaceReady,
  NodeServer,
  Program,
  shardsAvailable,
} from './process.ts';

const etcdBinary = toolOrSkip('etcd', 'this integration test does not run');
const seriesCount = 60;
const flushMillis = 1_000;

if (etcdBinary !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-statsd-'));
  const ports = await freePorts(14);
  const { program: etcd, endpoint } = etcdOf(folder, etcdBinary, ports);
  const node = await NodeServer.create({
    folder: join(folder, 'n1'),
    etcdEndpoint: endpoint,
    hostId: 'n1',
    coordinator: false,
  });
  const coordinators = [0, 1, 2].map((index) => {
    const [api, metrics, statsd, sharing] = ports.slice(2 + 4 * index) as [
      number,
      number,
      number,
      number,
    ];
    const file = join(folder, `coordinator${index}.yml`);
    writeFileSync(
      file,
      `coordinator:
  listenAddress: 127.0.0.1:${api}
  metrics: {prometheus: {listenAddress: "127.0.0.1:${metrics}"}}
  discovery: {type: tsdb_cluster, tsdbCluster: {env: test, zone: embedded, endpoints: ["${endpoint}"]}}
  statsd:
    ingester:
      listenAddress: 127.0.0.1:${statsd}
      flushInterval: ${flushMillis}ms
      sharing: {listenAddress: "127.0.0.1:${sharing}", advertiseAddress: "127.0.0.1:${sharing}"}
`,
    );
    const args = ['coordinator/main.ts', '-f', file];
    const program = new Program(`coordinator${index}`, folder, process.execPath, args);
    return { program, url: `http://127.0.0.1:${api}`, statsd, metrics };
  });
  after(async () => {
    for (const { program } of [node, ...coordinators]) await program.stop('SIGKILL');
    await etcd.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const isReachable = async ({ url }: (typeof coordinators)[number]): Promise<boolean> =>
    (await fetch(`${url}/health`)).ok;
  const membersOf = async ({ metrics }: (typeof coordinators)[number]): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text();
    return Number(/^tsdb_coordinator_statsd_members (\d+)$/m.exec(text)![1]);
  };
  const shared = (among: typeof coordinators): Promise<true> =>
    eventually(`${among.length} share series`, async () => {
      const counts = await Promise.all(among.map(membersOf));
      return counts.every((count) => count === among.length);
    });
  let sent = 0;
  /** A line of each series to each of them. */
  const send = async (to: typeof coordinators): Promise<void> => {
    const lines = Array.from({ length: seriesCount }, (_, i) => `hits:1|c|#i:${i}\n`).join('');
    for (const { statsd } of to) {
      const socket = connect({ host: '127.0.0.1', port: statsd });
      socket.end(lines);
      socket.resume();
      await once(socket, 'close');
      sent += 1;
    }
  };
  /** What came of each series, as Prometheus has it: a lower value is one that began anew. */
  const increases = async (): Promise<number[]> => {
    const { json } = await call('GET', `${coordinators[0]!.url}/api/v1/query?query=hits[10m]`);
    const result = json.data.result as { values: [number, string][] }[];
    return result.map(({ values }) => {
      const numbers = values.map(([, value]) => Number(value));
      return numbers.reduce((sum, value, i) => {
        const before = numbers[i - 1] ?? 0;
        return sum + (value < before ? value : value - before);
      }, 0);
    });
  };
  const counted = (): Promise<true> =>
    eventually(`all ${sent} lines of each series are counted`, async () => {
      const counts = await increases();
      assert.ok(
        counts.every((count) => count <= sent),
        `${counts} of ${sent}`,
      );
      return counts.length === seriesCount && counts.every((count) => count === sent);
    });

  test('lines are counted once, whoever gets them and whoever is killed', async () => {
    etcd.start();
    for (const { program } of coordinators) program.start();
    await node.start();
    for (const one of coordinators) await eventually('it answers', () => isReachable(one));
    const [first, killed, third] = coordinators as [
      (typeof coordinators)[number],
      (typeof coordinators)[number],
      (typeof coordinators)[number],
    ];
    const { grpc } = node.ports;
    const created = await call('POST', `${first.url}/api/v1/placement/init`, {
      num_shards: 4,
      replication_factor: 1,
      instances: [
        {
          id: 'n1',
          isolation_group: 'group',
          zone: 'embedded',
          weight: 100,
          endpoint: `127.0.0.1:${grpc}`,
          hostname: '127.0.0.1',
          port: grpc,
        },
      ],
    });
    assert.equal(created.status, 200, created.text);
    await shardsAvailable(first.url);
    const database = { namespaceName: 'default', retentionTime: '12h' };
    const added = await call('POST', `${first.url}/api/v1/database/create`, database);
    assert.ok(added.status < 300, added.text);
    await namespaceReady(first.url, 'default');
    await shared(coordinators);

    await send(coordinators);
    await counted();
    // What a coordinator has not flushed dies with it: it has.
    await killed.program.stop('SIGKILL');
    for (let i = 0; i < 4; i++) {
      await send([first, third]);
      await delay(flushMillis / 2);
    }
    await shared([first, third]);
    await send([first, third]);
    await counted();
    killed.program.start();
    await eventually('it answers', () => isReachable(killed));
    await shared(coordinators);
    await send(coordinators);
    await counted();
    // One that is told to end leaves nothing behind.
    await send(coordinators);
    await killed.program.stop('SIGTERM');
    await shared([first, third]);
    await send([first, third]);
    await counted();
  });
}

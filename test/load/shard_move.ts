/**
 * A third of the rows of a cluster moves to a new storage node, as a whole and with kills (SIGKILL)
 * of the taker on the way: real processes, files and sockets. Bytes are counted where they pass, by a
 * proxy in front of each giver.
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { NodeClient } from '#cluster/node/client.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { shardOf } from '#lib/hashing/hash.ts';
import { versionAtMillis } from '#lib/hybrid_clock.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { encodeTags } from '#lib/tags.ts';
import {
  call,
  eventually,
  namespaceReady,
  NodeServer,
  shardsAvailable,
} from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { coordinatorProgram, etcdProgram } from './etcd_and_coordinator.ts';
import { ProcessUsage } from './process_usage.ts';

export interface ShardMoveOptions {
  readonly folder: string;
  readonly etcdBinary: string;
  readonly shards: number;
  readonly seriesCount: number;
  readonly rowsPerSeries: number;
  readonly intervalSeconds: number;
  readonly blockSeconds: number;
  readonly kills: number;
  /** Folder of the sources that the processes run; default: these. */
  readonly checkout?: string;
}

/** What one move took. */
export interface ShardMove {
  readonly kills: number;
  readonly seconds: number;
  readonly takerCpuSeconds: number;
  readonly giverCpuSeconds: number;
  /** At most, in memory. */
  readonly takerBytesMax: number;
  readonly giverBytesMax: number;
  /** That the giver sent, but for what it sends at rest. */
  readonly wireBytes: number;
  /** In filesets of the taker: chunks, and indexes beside them. */
  readonly chunkBytes: number;
  readonly indexBytes: number;
  readonly filesets: number;
  /** That a reader counts in the cluster after it. */
  readonly rows: number;
}

const namespace = 'move';
const replicas = 1;
const batchesAtOnce = 4;
const lookMillis = 20;
const restMillis = 2_000;
const moveMillisMax = 600_000;
const placementPath = '/api/v1/services/tsdb/placement';

/** Counts what a server sends through it. */
class CountingProxy {
  readonly port: number;
  readonly #server: Server;
  bytes = 0;
  onBytes: () => void = () => {};

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  static async open(target: number): Promise<CountingProxy> {
    const sockets = new Set<Socket>();
    const server = createServer((client) => {
      const upstream = connect(target, '127.0.0.1');
      for (const socket of [client, upstream]) {
        sockets.add(socket);
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('close', () => {
          sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      upstream.on('data', (data: Buffer) => {
        proxy.bytes += data.length;
        proxy.onBytes();
      });
      client.pipe(upstream);
      upstream.pipe(client);
    });
    server.unref();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new CountingProxy(server, (server.address() as { port: number }).port);
    return proxy;
  }

  close(): void {
    this.#server.close();
  }
}

interface Member {
  readonly id: string;
  readonly server: NodeServer;
  readonly proxy: CountingProxy;
}

/** Fills three nodes, moves what the third one has to a fourth, and that to a fifth with kills. */
export async function shardMoves(
  options: ShardMoveOptions,
  report: (line: string) => void,
): Promise<readonly ShardMove[]> {
  const { folder, etcdBinary, checkout } = options;
  const [client, peer, http, metrics] = (await freePorts(4)) as [number, number, number, number];
  const endpoint = `127.0.0.1:${client}`;
  const etcd = etcdProgram(folder, etcdBinary, [client, peer]);
  const url = `http://127.0.0.1:${http}`;
  const coordinator = coordinatorProgram({
    name: 'coordinator',
    folder,
    etcdEndpoint: endpoint,
    port: http,
    metricsPort: metrics,
  });
  const members: Member[] = [];
  const start = async (): Promise<Member> => {
    const id = `n${members.length + 1}`;
    const server = await NodeServer.create({
      folder: join(folder, id),
      etcdEndpoint: endpoint,
      hostId: id,
      coordinator: false,
      ...(checkout === undefined ? {} : { checkout }),
    });
    const member = { id, server, proxy: await CountingProxy.open(server.ports.grpc) };
    members.push(member);
    await server.start();
    return member;
  };
  try {
    etcd.start();
    coordinator.start();
    const first = [await start(), await start(), await start()];
    await eventually('the coordinator answers', async () => (await fetch(`${url}/health`)).ok);
    await change('POST', `${url}${placementPath}/init`, {
      num_shards: options.shards,
      replication_factor: replicas,
      instances: first.map(instanceOf),
    });
    await shardsAvailable(url);
    await makeNamespace(url, options);
    const began = performance.now();
    await fill(url, first, options);
    for (const { server } of first) {
      await change('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {});
    }
    report(`filled in ${((performance.now() - began) / 1000).toFixed(1)} s`);
    const fourth = await start();
    const whole = await move(url, first[2]!, fourth, 0, 0, options, report);
    await first[2]!.server.program.stop('SIGKILL');
    const fifth = await start();
    const killed = await move(url, fourth, fifth, options.kills, whole.wireBytes, options, report);
    return [whole, killed];
  } finally {
    for (const { server, proxy } of members) {
      await server.program.stop('SIGKILL');
      proxy.close();
    }
    await coordinator.stop('SIGKILL');
    await etcd.stop('SIGKILL');
    rmSync(join(folder, 'etcd'), { recursive: true, force: true });
  }
}

/** @param kills spread evenly over `bytesExpected` of the wire */
async function move(
  url: string,
  giver: Member,
  taker: Member,
  kills: number,
  bytesExpected: number,
  options: ShardMoveOptions,
  report: (line: string) => void,
): Promise<ShardMove> {
  const { proxy } = giver;
  const beforeRest = proxy.bytes;
  await delay(restMillis);
  const restBytesPerMilli = (proxy.bytes - beforeRest) / restMillis;
  const usage = new ProcessUsage();
  const look = () => {
    for (const { id, server } of [giver, taker]) usage.look(id, server.program.pid);
  };
  look();
  const cpuBefore = usage.all().get(giver.id)!.cpuSeconds;
  const takerBefore = usage.all().get(taker.id)!.cpuSeconds;
  const bytesBefore = proxy.bytes;
  const sent = () => proxy.bytes - bytesBefore;
  let killed = 0;
  let ending: Promise<unknown> = Promise.resolve();
  let isRestarting = false;
  proxy.onBytes = () => {
    const threshold = ((killed + 1) * bytesExpected) / (kills + 1);
    if (killed >= kills || isRestarting || sent() < threshold) return;
    killed += 1;
    isRestarting = true;
    look();
    ending = taker.server.program
      .stop('SIGKILL')
      .then(() => {
        report(`kill ${killed} after ${sent()} bytes: ${filesetsOf(taker).filesets} filesets`);
        return taker.server.start();
      })
      .then(() => {
        isRestarting = false;
      });
    ending.catch(() => {});
  };
  const began = performance.now();
  await change('POST', `${url}${placementPath}/replace`, {
    leaving_instance_ids: [giver.id],
    candidates: [instanceOf(taker)],
    force: true,
  });
  const end = began + moveMillisMax;
  for (;;) {
    if (performance.now() > end) throw new Error(`not moved within ${moveMillisMax} ms`);
    if (!isRestarting) look();
    const { status, json } = await call('GET', `${url}${placementPath}`);
    const instances = status === 200 ? json.placement.instances : {};
    const shards: { state: string; sourceId?: string }[] = instances[taker.id]?.shards ?? [];
    const isDone =
      instances[giver.id] === undefined &&
      shards.length > 0 &&
      shards.every(({ state }) => state === 'AVAILABLE');
    if (isDone) break;
    await delay(lookMillis);
  }
  const millis = performance.now() - began;
  proxy.onBytes = () => {};
  await ending;
  look();
  const used = usage.all();
  const rows = await rowsOf(url, options);
  return {
    kills: killed,
    seconds: millis / 1000,
    takerCpuSeconds: used.get(taker.id)!.cpuSeconds - takerBefore,
    giverCpuSeconds: used.get(giver.id)!.cpuSeconds - cpuBefore,
    takerBytesMax: used.get(taker.id)!.rssMaxBytes,
    giverBytesMax: used.get(giver.id)!.rssMaxBytes,
    wireBytes: Math.round(sent() - restBytesPerMilli * millis),
    ...filesetsOf(taker),
    rows,
  };
}

function filesetsOf({ server }: Member): Pick<ShardMove, 'chunkBytes' | 'indexBytes' | 'filesets'> {
  const folder = join(server.folder, 'data', 'data', namespace);
  const sizes = { chunkBytes: 0, indexBytes: 0, filesets: 0 };
  if (!existsSync(folder)) return sizes;
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const size = () => statSync(join(folder, name)).size;
    if (name.endsWith('-data.db')) sizes.chunkBytes += size();
    else if (/fileset.*-index\.db$/.test(name)) sizes.indexBytes += size();
    else if (name.endsWith('-checkpoint.db')) sizes.filesets += 1;
  }
  return sizes;
}

function instanceOf({ id, proxy }: Member): object {
  return {
    id,
    isolation_group: id,
    zone: 'embedded',
    weight: 100,
    endpoint: `127.0.0.1:${proxy.port}`,
    hostname: '127.0.0.1',
    port: proxy.port,
  };
}

async function change(method: string, url: string, body: object): Promise<void> {
  const { status, text } = await call(method, url, body);
  if (status !== 200) throw new Error(`${method} ${url}: ${status} ${text}`);
}

async function makeNamespace(url: string, { blockSeconds }: ShardMoveOptions): Promise<void> {
  await change('POST', `${url}/api/v1/services/tsdb/namespace`, {
    name: namespace,
    options: {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      snapshotEnabled: true,
      repairEnabled: false,
      coldWritesEnabled: true,
      retentionOptions: {
        retentionPeriodDuration: '240h',
        blockSizeDuration: `${blockSeconds}s`,
        bufferFutureDuration: '2m',
        bufferPastDuration: '10m',
        blockDataExpiry: true,
        blockDataExpiryAfterNotAccessPeriodDuration: '5m',
      },
      indexOptions: { enabled: true, blockSizeDuration: `${blockSeconds}s` },
      aggregationOptions: { aggregations: [{ aggregated: false }] },
    },
  });
  await namespaceReady(url, namespace);
}

/** Writes to each node the rows of its shards. */
async function fill(url: string, members: readonly Member[], options: ShardMoveOptions) {
  const { shards, seriesCount, rowsPerSeries, intervalSeconds } = options;
  const { json } = await call('GET', `${url}${placementPath}`);
  const { signal } = new AbortController();
  const endMillis = Math.floor(Date.now() / 60_000) * 60_000;
  for (const { id, server } of members) {
    const owned = new Set<number>(
      json.placement.instances[id].shards.map(({ id: shard }: { id: number }) => shard),
    );
    const tags = Array.from({ length: seriesCount }, (_, i) => encodeTags(tagsOf(i))).filter(
      (each) => owned.has(shardOf(seriesIdOf(idSchemeCode.quoted, each, noBytes)!, shards)),
    );
    using client = new NodeClient({ target: `127.0.0.1:${server.ports.grpc}` });
    const { placementVersion } = await client.health(signal);
    const builder = new BatchBuilder();
    const count = tags.length;
    const slots = new Uint32Array(count);
    const generations = new Uint32Array(count);
    const values = new Float64Array(count).fill(50);
    let random = 1;
    const send = async (row: number, referenceEpoch: string) => {
      const millis = endMillis - (rowsPerSeries - 1 - row) * intervalSeconds * 1000;
      for (let i = 0; i < count; i += 1) {
        random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
        values[i] = Math.min(100, Math.max(0, values[i]! + ((random >>> 24) % 5) - 2));
      }
      const times = new BigInt64Array(count).fill(BigInt(millis));
      builder.setRows(count, slots, generations, times, 1_000_000, values);
      const request = { namespace, placementVersion, referenceEpoch, batch: builder.finish() };
      const answer = await client.write(request, signal);
      if (answer.outcomes.length > 0) throw new Error('a row was refused');
      return answer;
    };
    builder.begin(versionAtMillis(endMillis));
    for (let i = 0; i < count; i += 1) {
      slots[i] = builder.addSeries(tags[i]!, idSchemeCode.quoted, noBytes);
    }
    const { references, referenceEpoch } = await send(0, '');
    for (let i = 0; i < count; i += 1) {
      slots[i] = references[2 * i]!;
      generations[i] = references[2 * i + 1]!;
    }
    for (let row = 1; row < rowsPerSeries; row += batchesAtOnce) {
      const answers = [];
      for (let i = row; i < Math.min(row + batchesAtOnce, rowsPerSeries); i += 1) {
        builder.begin(versionAtMillis(endMillis + i));
        answers.push(send(i, referenceEpoch));
      }
      await Promise.all(answers);
    }
  }
}

/** Rows of all nodes, as a reader counts them. */
async function rowsOf(url: string, options: ShardMoveOptions): Promise<number> {
  const seconds = (options.rowsPerSeries + 60) * options.intervalSeconds;
  const query = `sum(count_over_time(usage[${seconds}s]))`;
  return eventually('rows are counted', async () => {
    const { status, text, json } = await call(
      'GET',
      `${url}/api/v1/query?${new URLSearchParams({ query })}`,
    );
    if (status !== 200) throw new Error(text);
    return Number(json.data.result[0]?.value[1] ?? 0);
  });
}

const noBytes = new Uint8Array(0);

function tagsOf(i: number): { name: string; value: string }[] {
  const tags = [
    { name: '__name__', value: 'usage' },
    { name: 'hostname', value: `host_${i}` },
  ];
  for (const name of ['arch', 'datacenter', 'os', 'rack', 'region', 'service', 'team']) {
    tags.push({ name, value: `${name}-${i % 7}` });
  }
  return tags;
}

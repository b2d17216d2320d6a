/**
 * Exemplars and metadata in a cluster of three nodes with a real etcd: two coordinators make their namespaces at the same
 * time, either answers what came through the other one, and a killed node takes none of them along.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { encodeRemoteWriteV2 } from '#engine/write_decoder/remote_write_testing.ts';
import { toolOrSkip } from '../tools.ts';
import { freePorts } from '../ports.ts';
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
const seriesCount = 40;

if (etcdBinary !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-exemplars-cluster-'));
  const ports = await freePorts(6);
  const { program: etcd, endpoint } = etcdOf(folder, etcdBinary, ports);
  const nodes: NodeServer[] = [];
  for (const hostId of ['n1', 'n2', 'n3']) {
    const options = { folder: join(folder, hostId), etcdEndpoint: endpoint, hostId };
    nodes.push(await NodeServer.create({ ...options, coordinator: false }));
  }
  const coordinators = [0, 1].map((index) => {
    const [api, metrics] = [ports[2 + 2 * index]!, ports[3 + 2 * index]!];
    const file = join(folder, `coordinator${index}.yml`);
    writeFileSync(
      file,
      `coordinator:
  listenAddress: 127.0.0.1:${api}
  metrics: {prometheus: {listenAddress: "127.0.0.1:${metrics}"}}
  discovery: {type: tsdb_cluster, tsdbCluster: {env: test, zone: embedded, endpoints: ["${endpoint}"]}}
  clusters: [{client: {writeConsistencyLevel: majority, readConsistencyLevel: majority}}]
`,
    );
    const args = ['coordinator/main.ts', '-f', file];
    const program = new Program(`coordinator${index}`, folder, process.execPath, args);
    return { program, url: `http://127.0.0.1:${api}` };
  });
  const urls = coordinators.map(({ url }) => url);
  after(async () => {
    for (const { program } of [...nodes, ...coordinators]) await program.stop('SIGKILL');
    await etcd.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  /** One exemplar and the same metadata for each series. @returns exemplars that were written */
  const write = async (url: string, round: number): Promise<number> => {
    const millis = Date.now();
    const tag = (name: string, value: string) => ({ name, value });
    const body = encodeRemoteWriteV2(
      Array.from({ length: seriesCount }, (_, i) => ({
        tags: [tag('__name__', 'requests_total'), tag('i', `${i}`)],
        samples: [{ timestampMillis: millis, value: round }],
        exemplars: [
          { labels: [tag('trace_id', `${round}.${i}`)], value: round, timestampMillis: millis },
        ],
        metadata: { type: 1, help: 'How many.', unit: '' },
      })),
    );
    const response = await fetch(`${url}/api/v1/compat/remote/write`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' },
      body,
    });
    assert.equal(response.status, 204, await response.text());
    return Number(response.headers.get('x-prometheus-remote-write-exemplars-written'));
  };
  /** Traces that a coordinator answers, sorted. */
  const tracesOf = async (url: string): Promise<string[]> => {
    const { json, text, status } = await call(
      'GET',
      `${url}/api/v1/query_exemplars?query=requests_total`,
    );
    assert.equal(status, 200, text);
    const all = json.data as { exemplars: { labels: { trace_id: string } }[] }[];
    return all.flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels.trace_id)).sort();
  };
  const tracesOfRound = (round: number): string[] =>
    Array.from({ length: seriesCount }, (_, i) => `${round}.${i}`);

  test('two coordinators store and answer the same', async () => {
    etcd.start();
    for (const { program } of coordinators) program.start();
    // Nodes that cannot be asked when the first placement is made leave new formats to be finished by hand.
    await Promise.all(nodes.map((node) => node.start()));
    for (const url of urls) {
      await eventually('the coordinator answers', async () => (await fetch(`${url}/health`)).ok);
    }
    const created = await call('POST', `${urls[0]}/api/v1/placement/init`, {
      num_shards: 16,
      replication_factor: 3,
      instances: nodes.map(({ ports: { grpc } }, index) => ({
        id: `n${index + 1}`,
        isolation_group: `group-${index}`,
        zone: 'embedded',
        weight: 100,
        endpoint: `127.0.0.1:${grpc}`,
        hostname: '127.0.0.1',
        port: grpc,
      })),
    });
    assert.equal(created.status, 200, created.text);
    await shardsAvailable(urls[0]!);
    const database = { namespaceName: 'default', retentionTime: '48h' };
    const added = await call('POST', `${urls[0]}/api/v1/database/create`, database);
    assert.ok(added.status < 300, added.text);
    await namespaceReady(urls[0]!, 'default');

    const written: string[] = [];
    let round = 0;
    await eventually('both coordinators write exemplars', async () => {
      const rounds = urls.map((_, index) => round + index);
      round += urls.length;
      const counts = await Promise.all(urls.map((url, index) => write(url, rounds[index]!)));
      for (const [index, count] of counts.entries()) {
        if (count === seriesCount) written.push(...tracesOfRound(rounds[index]!));
      }
      return counts.every((count) => count === seriesCount);
    });
    const registry = (await call('GET', `${urls[1]}/api/v1/namespace`)).json.registry.namespaces;
    assert.deepEqual(Object.keys(registry).sort(), ['_exemplars', '_metadata', 'default']);
    for (const url of urls) {
      const found = await tracesOf(url);
      assert.equal(new Set(found).size, found.length, 'each one once');
      for (const trace of written) assert.ok(found.includes(trace), trace);
      await eventually('its metadata', async () => {
        // It comes again and again; what came before its namespace was there is left out.
        await write(url, round++);
        const { json } = await call('GET', `${url}/api/v1/metadata`);
        assert.deepEqual(json.data, {
          requests_total: [{ type: 'counter', unit: '', help: 'How many.' }],
        });
        return true;
      });
    }

    // With a node that is away, and without the coordinator that wrote.
    await nodes[2]!.program.stop('SIGKILL');
    const late = 1000;
    assert.equal(await write(urls[0]!, late), seriesCount);
    await coordinators[0]!.program.stop('SIGKILL');
    const found = await tracesOf(urls[1]!);
    for (const trace of [...written, ...tracesOfRound(late)]) {
      assert.ok(found.includes(trace), trace);
    }
    // Whoever was away has them from the others, or the majority has.
    nodes[2]!.program.start();
    await nodes[0]!.program.stop('SIGKILL');
    await eventually('the other majority answers', async () => {
      const again = await tracesOf(urls[1]!);
      return written.every((trace) => again.includes(trace));
    });
  });
}

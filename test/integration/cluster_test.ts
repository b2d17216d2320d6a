/**
 * Three storage nodes and a coordinator as processes on loopback with a real etcd, replication
 * factor 3: a node killed while writes and reads at majority go on, a fourth node added while
 * writes run, killed and started again, a page of a log zeroed; nothing acknowledged is missing.
 */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
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
import { remoteWriteBody } from './remote_write_body.ts';

const etcdBinary = toolOrSkip('etcd', 'this integration test does not run');
const seriesCount = 300;
/** What a disk loses at once. */
const pageBytes = 4096;

if (etcdBinary !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-cluster-'));
  const ports = (await freePorts(4)) as [number, number, number, number];
  const [, , coordinatorPort, metricsPort] = ports;
  const { program: etcd, endpoint } = etcdOf(folder, etcdBinary, ports);
  const nodes: NodeServer[] = [];
  for (const id of ['n1', 'n2', 'n3', 'n4']) {
    nodes.push(
      await NodeServer.create({
        folder: join(folder, id),
        etcdEndpoint: endpoint,
        hostId: id,
        coordinator: false,
      }),
    );
  }
  const url = `http://127.0.0.1:${coordinatorPort}`;
  writeFileSync(
    join(folder, 'coordinator.yml'),
    `coordinator:
  listenAddress: 127.0.0.1:${coordinatorPort}
  metrics: {prometheus: {listenAddress: "127.0.0.1:${metricsPort}"}}
  discovery: {type: tsdb_cluster, tsdbCluster: {env: test, zone: embedded, endpoints: ["${endpoint}"]}}
  clusters: [{client: {writeConsistencyLevel: majority, readConsistencyLevel: majority}}]
`,
  );
  const coordinator = new Program('coordinator', folder, process.execPath, [
    'coordinator/main.ts',
    '-f',
    join(folder, 'coordinator.yml'),
  ]);
  after(async () => {
    for (const { program } of nodes) await program.stop('SIGKILL');
    await coordinator.stop('SIGKILL');
    await etcd.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const instance = (index: number) => ({
    id: `n${index + 1}`,
    isolation_group: `group-${'abca'[index]}`,
    zone: 'embedded',
    weight: 100,
    endpoint: `127.0.0.1:${nodes[index]!.ports.grpc}`,
    hostname: '127.0.0.1',
    port: nodes[index]!.ports.grpc,
  });

  const begin = Date.now() - 5 * 60_000;
  let acknowledged = 0;
  let refusals = 0;
  let writing = true;
  const write = async () => {
    while (writing) {
      const body = remoteWriteBody(
        Array.from({ length: seriesCount }, (_, series) => ({
          labels: { __name__: 'whole', series: `${series}` },
          samples: [{ timestampMillis: begin + acknowledged * 20, value: acknowledged + series }],
        })),
      );
      const answer = await call('POST', `${url}/api/v1/compat/remote/write`, body);
      if (answer.status === 200) acknowledged++;
      else {
        refusals++;
        assert.ok([429, 503, 504].includes(answer.status), `${answer.status} ${answer.text}`);
      }
      await delay(5);
    }
  };
  const readWhole = async () => {
    const expected = acknowledged;
    const answer = await call('GET', `${url}/api/v1/query?query=whole[1h]`);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.data.result.length, seriesCount);
    for (const { metric, values } of answer.json.data.result) {
      for (let sample = 0; sample < expected; sample++) {
        assert.deepEqual(values[sample], [
          (begin + sample * 20) / 1000,
          String(sample + Number(metric.series)),
        ]);
      }
    }
  };

  /** Zeros a page in the middle of the longest file. */
  const zeroSector = (commitlogs: string): void => {
    const files = readdirSync(commitlogs).map((name) => join(commitlogs, name));
    const [path] = files.sort((a, b) => statSync(b).size - statSync(a).size) as [string];
    const bytes = readFileSync(path);
    const start = Math.floor(bytes.length / 2 / pageBytes) * pageBytes;
    writeFileSync(path, bytes.fill(0, start, start + pageBytes));
  };

  /** Every series counts once, whatever number of nodes have it and are up. */
  const countedOnce = async () => {
    const answer = await call('GET', `${url}/api/v1/status/tsdb`);
    assert.equal(answer.status, 200, answer.text);
    const { headStats, seriesCountByMetricName, labelValueCountByLabelName } = answer.json.data;
    assert.equal(headStats.numSeries, seriesCount);
    assert.equal(headStats.numLabelPairs, seriesCount + 1);
    assert.deepEqual(seriesCountByMetricName, [{ name: 'whole', value: seriesCount }]);
    assert.deepEqual(labelValueCountByLabelName, [
      { name: 'series', value: seriesCount },
      { name: '__name__', value: 1 },
    ]);
  };

  test('a cluster of three survives a killed node and takes a fourth while writes run', async () => {
    etcd.start();
    coordinator.start();
    for (const node of nodes.slice(0, 3)) node.program.start();
    await eventually('the coordinator answers', async () => (await fetch(`${url}/health`)).ok);
    const created = await call('POST', `${url}/api/v1/placement/init`, {
      num_shards: 32,
      replication_factor: 3,
      instances: [0, 1, 2].map(instance),
    });
    assert.equal(created.status, 200, created.text);
    assert.equal(created.json.version, 0);
    await shardsAvailable(url);
    const added = await call('POST', `${url}/api/v1/database/create`, {
      namespaceName: 'default',
      retentionTime: '48h',
    });
    assert.ok(added.status < 300, added.text);
    await namespaceReady(url, 'default');

    await eventually('the coordinator has compared its clock with those of the nodes', async () => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      const ahead = Number(/^tsdb_coordinator_clock_ahead_seconds (.*)$/m.exec(text)![1]);
      // A median is never the very same, and 0 is none.
      return ahead !== 0 && Math.abs(ahead) < 1;
    });

    const writer = write();
    await delay(1500);
    assert.ok(acknowledged > 0, 'writes are acknowledged');
    await readWhole();

    await nodes[2]!.program.stop('SIGKILL');
    await delay(1000);
    const whileDown = acknowledged;
    await delay(2000);
    assert.ok(acknowledged > whileDown, 'majority writes go on without the killed node');
    await readWhole();
    nodes[2]!.program.start();

    nodes[3]!.program.start();
    await eventually('the third node is bootstrapped again', async () => {
      const health = await call('GET', `http://127.0.0.1:${nodes[2]!.ports.httpNode}/bootstrapped`);
      return health.status === 200;
    });
    const add = await call('POST', `${url}/api/v1/placement`, { instances: [instance(3)] });
    assert.equal(add.status, 200, add.text);
    const placement = await shardsAvailable(url, 120_000);
    assert.ok(placement.instances['n4']!.shards.length > 0, 'the fourth node has shards');
    await readWhole();
    await countedOnce();

    await nodes[3]!.program.stop('SIGKILL');
    await delay(1000);
    await readWhole();
    nodes[3]!.program.start();
    await eventually('the fourth node is bootstrapped again', async () => {
      const health = await call('GET', `http://127.0.0.1:${nodes[3]!.ports.httpNode}/bootstrapped`);
      return health.status === 200;
    });
    writing = false;
    await writer;
    await nodes[0]!.program.stop('SIGKILL');
    await readWhole();
    await countedOnce();

    // What a bad sector took from the log of one is fetched before it counts.
    const data = join(nodes[0]!.folder, 'data');
    zeroSector(join(data, 'commitlogs'));
    const lacking = async () => {
      const { json } = await call('GET', `${url}/api/v1/services/tsdb/health`);
      const { instances } = json as { instances: Record<string, { blocksLacking?: number }> };
      return Object.entries(instances).map(([id, said]) => `${id} ${said.blocksLacking ?? 'away'}`);
    };
    // The coordinator tries who was away again after a second or two.
    await eventually('all but the killed one say what they lack', async () => {
      assert.deepEqual((await lacking()).sort(), ['n1 away', 'n2 0', 'n3 0', 'n4 0']);
      return true;
    });
    nodes[0]!.program.start();
    await eventually('the first node is bootstrapped again', async () => {
      const health = await call('GET', `http://127.0.0.1:${nodes[0]!.ports.httpNode}/bootstrapped`);
      return health.status === 200;
    });
    assert.ok(existsSync(join(data, 'doubts-0.json')), 'the damage was seen');
    await eventually('nobody lacks a block', async () =>
      (await lacking()).every((said) => said.endsWith(' 0')),
    );
    await nodes[1]!.program.stop('SIGKILL');
    await readWhole();
    await countedOnce();
    assert.ok(refusals < acknowledged, `${refusals} refusals, ${acknowledged} acknowledgements`);
  });
}

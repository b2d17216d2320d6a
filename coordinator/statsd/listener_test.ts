import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rowOutcome } from '#cluster/node/service.ts';
import { TestCoordinator } from '../coordinator_testing.ts';
import { lineBytesMax } from './lines/reader.ts';
import { seriesOf } from './listener.ts';

const settings = (more = ''): string =>
  `{statsd: {ingester: {listenAddress: "127.0.0.1:0", flushInterval: 50ms${more}}}}`;

async function sendPacket(test: TestCoordinator, text: string): Promise<void> {
  const socket = createSocket('udp4');
  await new Promise<void>((resolve, reject) => {
    socket.send(text, test.coordinator.statsd!.udpPort!, '127.0.0.1', (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  socket.close();
}

async function client(test: TestCoordinator): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.statsd!.tcpPort! });
  await once(socket, 'connect');
  return socket;
}

/** Values of each series in the order of their times. */
function stored(test: TestCoordinator): Record<string, number[]> {
  const all: Record<string, number[]> = {};
  for (const { id, rows } of test.node.seriesOf('default')) {
    const inOrder = [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
    all[id] = inOrder.map(
      ([, bits]) => new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0]!,
    );
  }
  return all;
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let waits = 0; waits < 400 && !(await holds()); waits++) await sleep(10);
  assert.ok(await holds());
}

async function metricOf(test: TestCoordinator, name: string): Promise<number> {
  const { port } = test.coordinator.metricsServer;
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.split(' ')[1]);
}

test('packets and streams are metrics, which are written at each flush and at the end', async () => {
  const test = await TestCoordinator.openReady(settings());
  await sendPacket(test, 'web.hits:1|c|#dc:eu\nload:2|g\nbad');
  const socket = await client(test);
  for (const part of ['web.hits:', '2|c|#dc:eu\nload:', '3|g']) {
    socket.write(part);
    await sleep(5);
  }
  socket.end();
  socket.resume();
  await once(socket, 'close');
  const hits = '{__name__="web_hits",dc="eu"}';
  await until(
    () => stored(test)[hits]?.at(-1) === 3 && stored(test)['{__name__="load"}']?.at(-1) === 3,
  );
  assert.equal(stored(test)[hits]![0], 0, 'it begins with a 0');
  assert.equal(await metricOf(test, 'tsdb_coordinator_statsd_lines_total'), 5);
  assert.equal(
    await metricOf(test, 'tsdb_coordinator_statsd_refused_samples_total{reason="malformed_line"}'),
    1,
  );
  const written = 'tsdb_coordinator_written_samples_total{format="statsd"}';
  await until(async () => (await metricOf(test, written)) >= 4);
  await sendPacket(test, 'web.hits:4|c|#dc:eu');
  await until(() => test.coordinator.statsd!.seriesCount === 2);
  await sleep(20);
  await test[Symbol.asyncDispose]();
  assert.equal(stored(test)[hits]!.at(-1), 7);
});

test('while rows cannot be written lines are taken, and nothing of counters is lost', async () => {
  await using test = await TestCoordinator.openReady(settings());
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  for (let i = 0; i < 20; i++) {
    await sendPacket(test, 'a:1|c');
    await sleep(10);
  }
  const late = 'tsdb_coordinator_statsd_late_flushes_total';
  await until(async () => (await metricOf(test, late)) > 0);
  test.node.outcomeOf = () => rowOutcome.written;
  await until(() => stored(test)['{__name__="a"}']?.at(-1) === 20);
});

test('a line without end is none, and of a connection that breaks off the last one is not either', async () => {
  await using test = await TestCoordinator.openReady(settings());
  const [long, broken] = [await client(test), await client(test)];
  long.write('x'.repeat(3 * lineBytesMax));
  await sleep(20);
  long.write('y:9|c\na:1|c\n');
  broken.write('a:1|c\na:1');
  await until(() => stored(test)['{__name__="a"}']?.at(-1) === 2);
  broken.resetAndDestroy();
  await sleep(50);
  await sendPacket(test, 'b:1|g');
  await until(() => stored(test)['{__name__="b"}'] !== undefined);
  assert.deepEqual(Object.keys(stored(test)).sort(), ['{__name__="a"}', '{__name__="b"}']);
  long.destroy();
});

test('as Graphite has them they are paths of what came since the last flush', async () => {
  await using test = await TestCoordinator.openReady(
    settings(', form: graphite, graphite: {legacyNamespace: false}'),
  );
  await sendPacket(test, 'web.hits:6|c\nt:5|ms');
  await until(() => (stored(test)['stats.counters.web.hits.count']?.length ?? 0) >= 2);
  const counts = stored(test)['stats.counters.web.hits.count']!;
  assert.deepEqual([counts[0], counts[1]], [6, 0]);
  assert.equal(stored(test)['stats.timers.t.upper_90']![0], 5);
  assert.equal(stored(test)['stats.timers.t.count']![0], 1);
});

test('a mapping that is none is refused with its place', () => {
  const mapping = { mappings: [{ match: 'a.b*', name: 'x' }] };
  assert.throws(
    () =>
      seriesOf({
        form: { type: 'prometheus', mapping, labels: {} },
        seriesMax: 1,
        flushIntervalMillis: 1000,
      }),
    /coordinator\.statsd\.ingester\.mapping\.mappings\[0\]\.match: "\*" stands for a whole component/,
  );
});

import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

const settings = (more = ''): string =>
  `{carbon: {ingester: {listenAddress: "127.0.0.1:0"${more}}}}`;

async function client(test: TestCoordinator): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.tcpPort });
  await once(socket, 'connect');
  return socket;
}

/** Sends a text and waits until the listener has taken all of it. */
async function send(test: TestCoordinator, text: string): Promise<void> {
  const socket = await client(test);
  socket.end(text);
  socket.resume();
  await once(socket, 'close');
}

/** ID, tags and values of each series. */
function stored(test: TestCoordinator, startSeconds: number): string[] {
  const start = BigInt(startSeconds) * 1_000_000_000n;
  return test.node
    .seriesOf('default')
    .map(({ id, decoded, rows }) => {
      const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(',');
      const values = [...rows].map(([nanos, bits]) => {
        const value = new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0];
        return `${(nanos - start) / 1_000_000_000n}:${value}`;
      });
      return `${id} ${tags} ${values.join(' ')}`;
    })
    .sort();
}

test('paths become tags of their nodes with the path as ID, tagged ones a metric with tags', async () => {
  await using test = await TestCoordinator.openReady(settings());
  const now = nowSeconds();
  const deep = Array.from({ length: 12 }, (_, i) => `n${i}`).join('.');
  await send(
    test,
    [
      `servers.web1.cpu 12.5 ${now}`,
      `servers.web1.cpu\t+13\t${now + 1}\r`,
      `servers.web1.cpu. 14 ${now + 2}`,
      `disk.used;host=web1;dc=eu 7 ${now}`,
      `${deep} 1 ${now}`,
      `now.it.is 1 -1`,
      '',
    ].join('\n'),
  );
  const rows = stored(test, now);
  const untimed = rows.findIndex((row) => row.startsWith('now.it.is '));
  assert.match(rows.splice(untimed, 1)[0]!, /^now\.it\.is __g0__=now,__g1__=it,__g2__=is -?\d:1$/);
  const deepTags = [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    .toSorted((a, b) => (`__g${a}__` < `__g${b}__` ? -1 : 1))
    .map((i) => `__g${i}__=n${i}`);
  assert.deepEqual(rows, [
    `${deep} ${deepTags.join(',')} 0:1`,
    'servers.web1.cpu __g0__=servers,__g1__=web1,__g2__=cpu 0:12.5 1:13 2:14',
    `{__name__="disk.used",dc="eu",host="web1"} __name__=disk.used,dc=eu,host=web1 0:7`,
  ]);
});

test('bad lines are counted and told in the log, the others are written', async () => {
  await using test = await TestCoordinator.openReady(settings());
  const now = nowSeconds();
  await send(
    test,
    `a.b 1 ${now}\na..b 2 ${now}\na.b x ${now}\na.b nan ${now}\na.b 3\nc.d 4 ${now}\nunfinished.line 5 ${now}`,
  );
  assert.deepEqual(
    stored(test, now).map((row) => row.split(' ')[0]),
    ['a.b', 'c.d', 'unfinished.line'],
  );
  const { port } = test.coordinator.metricsServer;
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  assert.match(metrics, /tsdb_coordinator_written_samples_total\{format="carbon"\} 3/);
  assert.match(metrics, /tsdb_coordinator_refused_samples_total\{format="carbon",reason="bad"\} 4/);
});

test('with cleanup every path is one', async () => {
  await using test = await TestCoordinator.openReady(settings(', rewrite: {cleanup: true}'));
  const now = nowSeconds();
  await send(test, `..a...b$$c.d.. 1 ${now}\n`);
  assert.deepEqual(
    stored(test, now).map((row) => row.split(' ')[0]),
    ['a.b_c.d'],
  );
});

test('what a series of Graphite is called belongs to Carbon', async () => {
  await using test = await TestCoordinator.openReady(settings());
  const now = nowSeconds();
  const row = { tags: { __g0__: 'a', __g1__: 'b' }, timestamp: now, value: 1 };
  const before = await test.post('/api/v1/json/write', row);
  assert.equal(before.status, 400);
  assert.match(before.text, /reserved/);
  await send(test, `a.b 2 ${now}\n`);
  assert.deepEqual(stored(test, now), ['a.b __g0__=a,__g1__=b 0:2']);
  assert.equal((await test.post('/api/v1/json/write', row)).status, 400);
});

test('rows that cannot be written now are written later, and nothing is read meanwhile', async () => {
  await using test = await TestCoordinator.openReady(settings());
  const now = nowSeconds();
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  const socket = await client(test);
  socket.write(`a.b 1 ${now}\n`);
  await sleep(300);
  socket.write(`a.b 2 ${now + 1}\n`);
  await sleep(100);
  assert.deepEqual(
    stored(test, now).map((row) => row.split(' ').at(-1)),
    [''],
  );
  test.node.outcomeOf = () => rowOutcome.written;
  socket.end();
  socket.resume();
  await once(socket, 'close');
  assert.deepEqual(stored(test, now), ['a.b __g0__=a,__g1__=b 0:1 1:2']);
});

async function metricsOf(test: TestCoordinator): Promise<string> {
  const { port } = test.coordinator.metricsServer;
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
}

test('who waits is seen; what came before a reset or a stop is written, but for a line without its end', async () => {
  const test = await TestCoordinator.openReady(settings());
  const now = nowSeconds();
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  const reset = await client(test);
  reset.write(`a.b 1 ${now}\na.b 2 17000`);
  const stopped = await client(test);
  stopped.write(`c.d 1 ${now}\n`);
  await sleep(200);
  assert.match(await metricsOf(test), /tsdb_coordinator_waiting_streams 2/);
  reset.resetAndDestroy();
  await sleep(100);
  const ids = () => stored(test, now).map((row) => row.replace(/ .* /, ' '));
  assert.deepEqual(ids(), ['a.b ', 'c.d ']);
  const closing = test[Symbol.asyncDispose]();
  await sleep(100);
  test.node.outcomeOf = () => rowOutcome.written;
  await closing;
  assert.deepEqual(ids(), ['a.b 0:1', 'c.d 0:1']);
});

/** Of Python's `pickle.dumps([('servers.web1.cpu', (T, 12.5)), ('a.b', (T + 1, 3))], 2)`, with a time of its own. */
function pickleOf(seconds: number): Buffer {
  const bytes = Buffer.from(
    '80025d7100285810000000736572766572732e776562312e63707571014a00f153654740290000000000008671028671035803000000612e6271044a00f153654b03867105867106652e',
    'hex',
  );
  bytes.writeInt32LE(seconds, bytes.indexOf(0x4a) + 1);
  bytes.writeInt32LE(seconds + 1, bytes.lastIndexOf(0x4a) + 1);
  return bytes;
}

test('pickles of relays are samples, whatever their cut; what is none is counted', async () => {
  await using test = await TestCoordinator.openReady(
    settings(', pickleListenAddress: "127.0.0.1:0"'),
  );
  const now = nowSeconds();
  const framed = (message: Buffer): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(message.length);
    return Buffer.concat([length, message]);
  };
  const bytes = Buffer.concat([
    framed(pickleOf(now)),
    framed(Buffer.from("cos\nsystem\n(S'true'\ntR.")),
    framed(pickleOf(now + 2)),
  ]);
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.picklePort! });
  await once(socket, 'connect');
  for (let at = 0; at < bytes.length; at += 7) socket.write(bytes.subarray(at, at + 7));
  socket.end();
  socket.resume();
  await once(socket, 'close');
  assert.deepEqual(stored(test, now), [
    'a.b __g0__=a,__g1__=b 1:3 3:3',
    'servers.web1.cpu __g0__=servers,__g1__=web1,__g2__=cpu 0:12.5 2:12.5',
  ]);
  const tooLong = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.picklePort! });
  // What came before it is whole.
  tooLong.write(Buffer.concat([framed(pickleOf(now + 4)), Buffer.from('7fffffff', 'hex')]));
  tooLong.resume();
  await once(tooLong, 'close');
  assert.deepEqual(stored(test, now), [
    'a.b __g0__=a,__g1__=b 1:3 3:3 5:3',
    'servers.web1.cpu __g0__=servers,__g1__=web1,__g2__=cpu 0:12.5 2:12.5 4:12.5',
  ]);
});

test('datagrams are lines, too', async () => {
  await using test = await TestCoordinator.openReady(settings(', udpEnabled: true'));
  const now = nowSeconds();
  const socket = createSocket('udp4');
  const { udpPort } = test.coordinator.carbon!;
  for (let i = 0; i < 10; i++)
    socket.send(`u.a 1 ${now + i}\nu.b${i} 2 ${now}`, udpPort!, '127.0.0.1');
  for (let waits = 0; waits < 100 && stored(test, now).length < 11; waits++) await sleep(20);
  socket.close();
  const rows = stored(test, now);
  assert.equal(rows.length, 11);
  assert.equal(
    rows[0],
    `u.a __g0__=u,__g1__=a ${Array.from({ length: 10 }, (_, i) => `${i}:1`).join(' ')}`,
  );
});

test('a client that leaves in the middle of a line, or with rubbish, leaves others alone', async () => {
  await using test = await TestCoordinator.openReady(settings(', maxConnections: 3'));
  const now = nowSeconds();
  const quiet = [await client(test), await client(test), await client(test)];
  const closed = once(quiet[0]!, 'close');
  const rubbish = await client(test);
  await closed;
  rubbish.write(Buffer.alloc(3 << 20, 'x'));
  rubbish.write('\n');
  rubbish.resetAndDestroy();
  await send(test, `a.b 1 ${now}\n`);
  assert.deepEqual(stored(test, now), ['a.b __g0__=a,__g1__=b 0:1']);
  for (const socket of quiet) socket.destroy();
});

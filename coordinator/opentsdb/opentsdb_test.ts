import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

const path = '/api/put';
const settings = '{opentsdb: {ingester: {listenAddress: "127.0.0.1:0"}}}';
const now = nowSeconds();

async function client(test: TestCoordinator): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.openTsdb!.port });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** Sends a text and waits until the listener has taken all of it. @returns what it has answered */
async function send(test: TestCoordinator, text: string): Promise<string> {
  const socket = await client(test);
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk.toString()));
  socket.end(text);
  await once(socket, 'close');
  return answer;
}

/** Tags, and milliseconds after now with values, of each series. */
function stored(test: TestCoordinator): string[] {
  return test.node
    .seriesOf('default')
    .filter(({ rows }) => rows.size > 0)
    .map(({ decoded, rows }) => {
      const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(' ');
      const values = [...rows].map(([nanos, bits]) => {
        const value = new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0]!;
        return `${Number(nanos / 1_000_000n) - now * 1000}:${value}`;
      });
      return `${tags} | ${values.join(' ')}`;
    })
    .toSorted((a, b) => (a < b ? -1 : 1));
}

const point = (metric: string, more: object = {}): object => ({
  metric,
  timestamp: now,
  value: 1,
  tags: { host: 'a' },
  ...more,
});

test('points come alone and as lists, with times by their size and values as numbers or texts', async () => {
  await using test = await TestCoordinator.openReady();
  const bodies = [
    point('sys.cpu.nice', { value: 18 }),
    [
      point('sys.cpu.nice', { timestamp: (now - 1) * 1000 + 250, value: '-1.5e3' }),
      point('sys.cpu.nice', { timestamp: String(now - 2), tags: { host: 'b', 'dc.1': 'lga/ü' } }),
    ],
  ];
  for (const body of bodies) {
    const answer = await test.post(path, body);
    assert.deepEqual([answer.status, answer.text], [204, ''], answer.text);
  }
  const gzip = { 'Content-Encoding': 'gzip' };
  const body = gzipSync(JSON.stringify([point('zipped', { tags: {} })]));
  assert.equal((await test.post(path, body, gzip)).status, 204);
  assert.deepEqual(stored(test), [
    '__name__=sys_cpu_nice dc_1=lga/ü host=b | -2000:1',
    '__name__=sys_cpu_nice host=a | 0:18 -750:-1500',
    '__name__=zipped | 0:1',
  ]);
});

test('bad points are told as OpenTSDB tells them, and the others are written', async () => {
  await using test = await TestCoordinator.openReady();
  const old = now - 86_400;
  const limit = BigInt(now - 600) * 1_000_000_000n;
  test.node.outcomeOf = (nanos) => (nanos < limit ? rowOutcome.tooFarPast : rowOutcome.written);
  const body = [
    point('good'),
    point('', {}),
    point('m', { timestamp: 1.5 }),
    point('m', { timestamp: -1 }),
    point('m', { value: 'NaN' }),
    point('m', { tags: { host: 5 } }),
    point('m', { tags: { host: '' } }),
    point('m', { tags: { __x: 'y' } }),
    point('m', { tags: { 'a.b': '1', 'a-b': '2' } }),
    point('old', { timestamp: old }),
    7,
  ];
  const plain = await test.post(path, body);
  assert.equal(plain.status, 400);
  const { error } = plain.json;
  assert.deepEqual([error.code, error.message], [400, 'One or more points had errors']);
  assert.match(
    error.details,
    /^10 of 11 samples were refused, the others were written: row 1: metric: not a text/,
  );
  const summary = await test.post(`${path}?summary`, body);
  assert.deepEqual([summary.status, summary.json], [400, { success: 1, failed: 10 }]);
  const details = await test.post(`${path}?details=true`, body);
  assert.equal(details.status, 400);
  assert.deepEqual([details.json.success, details.json.failed], [1, 10]);
  const errors = details.json.errors as { datapoint: unknown; error: string }[];
  assert.deepEqual(
    errors.map(({ datapoint }) => datapoint),
    [...body.slice(1, 9), 7, body[9]],
  );
  for (const [place, reason] of [
    /metric: not a text, or empty: ""/,
    /timestamp: not seconds or milliseconds: 1\.5/,
    /timestamp: .*-1/,
    /value: not a finite number, or a text of one: "NaN"/,
    /tags\.host: not a text: 5/,
    /tag value is empty: host/,
    /reserved: "__x"/,
    /tag name appears twice: a_b/,
    /not an object with metric, timestamp, value and tags: 7/,
    /\{__name__="old", host="a"\} at \d+: datapoint too far in past/,
  ].entries()) {
    assert.match(errors[place]!.error, reason);
  }
  const fine = await test.post(`${path}?details`, [point('good')]);
  assert.deepEqual([fine.status, fine.json], [200, { success: 1, failed: 0, errors: [] }]);
  assert.deepEqual(stored(test), ['__name__=good host=a | 0:1']);
});

test('details are as long as an answer may be, however long the points are', async () => {
  await using test = await TestCoordinator.openReady();
  const bad = Array.from({ length: 100 }, () => point('m', { value: 'x'.repeat(100_000) }));
  const answer = await test.post(`${path}?details`, bad);
  assert.equal(answer.status, 400);
  assert.equal(answer.json.failed, 100);
  assert.equal(answer.json.errors.length, 10);
});

test('bodies that are none, and what passes, have the form of its errors', async () => {
  await using test = await TestCoordinator.open();
  const bad = await test.post(path, Buffer.from('[{"metric":'));
  assert.equal(bad.status, 400);
  assert.equal(bad.json.error.code, 400);
  assert.match(bad.json.error.message, /not JSON/);
  const early = await test.post(path, point('m'));
  assert.deepEqual([early.status, early.json.error.code], [503, 503]);
  assert.ok(Number(early.headers['retry-after']) > 0);
});

test('put of telnet writes points, and mistakes are answered', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const answer = await send(
    test,
    [
      `put sys.cpu.nice ${now} 18 host=a dc=l"g\\a`,
      `put  sys.cpu.nice\t${(now - 1) * 1000 + 250}  -1.5e3 host=a\tdc=l"g\\a\r`,
      `put bare ${now - 1}.5 .5`,
      'put m now 1 host=a',
      `put m ${now} nan host=a`,
      `put m ${now} 1 host`,
      `put m ${now}`,
      `put m ${now} 1 a.b=1 a-b=2`,
      'frob',
      '',
      `put last ${now} 1 host=a`,
    ].join('\n'),
  );
  assert.deepEqual(stored(test), [
    '__name__=bare | -500:0.5',
    '__name__=last host=a | 0:1',
    '__name__=sys_cpu_nice dc=l"g\\a host=a | 0:18 -750:-1500',
  ]);
  assert.deepEqual(answer.split('\n'), [
    'put: illegal argument: time: not seconds or milliseconds: now',
    'put: illegal argument: value: not a finite number: nan',
    'put: illegal argument: tag: not a name and a value with = between them: host',
    `put: illegal argument: not enough arguments (metric, time and value expected): put m ${now}`,
    "unknown command: frob.  Try `help'.",
    '',
  ]);
  const { port } = test.coordinator.metricsServer;
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  assert.match(metrics, /tsdb_coordinator_written_samples_total\{format="opentsdb"\} 4/);
  assert.match(metrics, /refused_samples_total\{format="opentsdb",reason="bad"\} 6/);
  assert.match(metrics, /tsdb_coordinator_opentsdb_connections 0/);
});

test('version is answered while the connection stays open, as tcollector asks before it sends', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const socket = await client(test);
  for (let round = 0; round < 2; round++) {
    socket.write('version\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(
      answer.toString(),
      /^net\.opentsdb\.tools 2\.4\.0 built at revision tsdb-0\.0\.0\n$/,
    );
  }
  socket.write(`put m ${now} 1 host=a\nexit\nput after ${now} 1 host=a\n`);
  socket.resume();
  await once(socket, 'close');
  assert.deepEqual(stored(test), ['__name__=m host=a | 0:1']);
});

test('a request of HTTP is none of its commands', async () => {
  await using test = await TestCoordinator.openReady(settings);
  await send(test, `POST / HTTP/1.1\r\nHost: x\r\n\r\nput m ${now} 1 host=a\n`);
  assert.deepEqual(stored(test), []);
});

test('points of a stream that cannot be written now are written later', async () => {
  await using test = await TestCoordinator.openReady(settings);
  let refusals = 2;
  test.node.outcomeOf = () => (refusals-- > 0 ? rowOutcome.resourceExhausted : rowOutcome.written);
  await send(test, `put m ${now} 1 host=a\n`);
  assert.deepEqual(stored(test), ['__name__=m host=a | 0:1']);
});

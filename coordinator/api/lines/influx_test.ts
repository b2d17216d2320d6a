import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';

const paths = ['/api/v1/influxdb/write', '/write', '/api/v2/write'];

/** Series of the node as text: tags, then times after `start` with values. */
function stored(test: TestCoordinator, startSeconds: number): string[] {
  const start = BigInt(startSeconds) * 1_000_000_000n;
  return test.node
    .seriesOf('default')
    .map(({ decoded, rows }) => {
      const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(',');
      const values = [...rows].map(([nanos, bits]) => {
        const value = new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0];
        return `${nanos - start}:${value}`;
      });
      return `${tags} ${values.join(' ')}`;
    })
    .sort();
}

test('a line becomes a row a number or boolean, named by measurement and field', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const text = [
    '# a comment',
    `cpu,host=web\\ 1,region=eu-1 user=12.5,idle=3i,busy=t,note="a, b" ${now}000000000`,
    `0-disk.io,my-tag=1 read:ops=7u,9=-0.5e1 ${now}000000001\r`,
    '',
    `quiet text="nothing here" ${now}000000000`,
  ].join('\n');
  for (const path of paths) {
    const answer = await test.post(path, Buffer.from(text));
    assert.deepEqual([answer.status, answer.text], [204, ''], path);
  }
  assert.deepEqual(stored(test, now), [
    '__name__=__disk_io_9,my_tag=1 1:-5',
    '__name__=__disk_io_read:ops,my_tag=1 1:7',
    '__name__=cpu_busy,host=web 1,region=eu-1 0:1',
    '__name__=cpu_idle,host=web 1,region=eu-1 0:3',
    '__name__=cpu_user,host=web 1,region=eu-1 0:12.5',
  ]);
});

test('times have the precision that the request names, and lines without one the time of now', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const times: [precision: string, time: string][] = [
    ['n', `${now}000000001`],
    ['ns', `${now}000000002`],
    ['u', `${now}000003`],
    ['us', `${now}000004`],
    ['ms', `${now}005`],
    ['s', `${now}`],
    ['m', `${Math.floor(now / 60)}`],
  ];
  for (const [precision, time] of times) {
    const answer = await test.post(
      `/write?precision=${precision}&db=any`,
      Buffer.from(`m ${precision}=1 ${time}`),
    );
    assert.equal(answer.status, 204, answer.text);
  }
  const rows = stored(test, now);
  const wanted = [
    '__name__=m_n 1:1',
    '__name__=m_ns 2:1',
    '__name__=m_u 3000:1',
    '__name__=m_us 4000:1',
    '__name__=m_ms 5000000:1',
    '__name__=m_s 0:1',
  ];
  for (const row of wanted) assert.ok(rows.includes(row), `${row}: ${rows.join('; ')}`);

  assert.equal((await test.post('/write?precision=s', Buffer.from('n v=1'))).status, 204);
  const untimed = test.node.seriesOf('default').find(({ decoded }) => decoded[0]!.value === 'n_v')!;
  const [nanos] = [...untimed.rows.keys()];
  assert.equal(nanos! % 1_000_000_000n, 0n);
  assert.ok(nanos! >= BigInt(now) * 1_000_000_000n);

  const wrong = await test.post('/write?precision=days', Buffer.from('n v=1'));
  assert.equal(wrong.status, 400);
  assert.match(wrong.text, /precision: none of ns, u, us, ms, s, m and h: days/);
});

test('bodies come compressed', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const body = (nanos: number): Buffer => {
    const lines = Array.from({ length: 20_000 }, (_, i) => {
      const time = `${now}${String(nanos + i).padStart(9, '0')}`;
      return `m,i=${i % 10} v=${i} ${time}`;
    });
    return Buffer.from(lines.join('\n'));
  };
  const encodings: [name: string, encode: (bytes: Buffer) => Uint8Array][] = [
    ['identity', (bytes) => bytes],
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['zstd', zstdCompressSync],
  ];
  for (const [index, [name, encode]] of encodings.entries()) {
    const answer = await test.post('/api/v2/write', encode(body(index * 20_000)), {
      'Content-Encoding': name,
    });
    assert.equal(answer.status, 204, `${name}: ${answer.text}`);
    const rows = test.node.seriesOf('default').reduce((sum, { rows }) => sum + rows.size, 0);
    assert.equal(rows, (index + 1) * 20_000, name);
  }
  const cut = gzipSync(body(0)).subarray(0, 1000);
  const cutAnswer = await test.post('/write', cut, { 'Content-Encoding': 'gzip' });
  assert.equal(cutAnswer.status, 400);
  assert.match(cutAnswer.text, /cannot read the body as gzip/);
  const other = await test.post('/write', body(0), { 'Content-Encoding': 'br' });
  assert.equal(other.status, 400);
  assert.match(other.text, /Content-Encoding: none of gzip, deflate and zstd: br/);
});

test('bad lines are named with their place, and do not take the good ones with them', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const oldNanos = BigInt(now - 86_400 * 30) * 1_000_000_000n;
  test.node.outcomeOf = (nanos) =>
    nanos === oldNanos ? rowOutcome.tooFarPast : rowOutcome.written;
  const text = [
    `m v=1 ${now}000000000`,
    'm v=x',
    `m,a=1,a=2 v=1`,
    'only_a_name',
    `m v=1 ${oldNanos}`,
    `m w=2 ${now}000000000`,
    `${'m,a=' + 'x'.repeat(1 << 20)} v=1`,
    `m x=3 ${now}000000000`,
  ].join('\n');
  const answer = await test.post('/write', Buffer.from(text));
  assert.equal(answer.status, 400, answer.text);
  const { code, message, error } = answer.json as Record<string, string>;
  assert.deepEqual([code, message], ['invalid', error]);
  for (const part of [
    'partial write: 5 of 8 samples were refused, the others were written',
    'line 2, byte 5: expected a number, true, false or a text in quotes: "m v=x"',
    'line 3, byte 1: two tags have one name',
    'line 4, byte 12: expected a tag or a space and fields: "only_a_name"',
    'line 7, byte 1: line is longer than 1048576 bytes',
    '{__name__="m_v"} at ',
  ]) {
    assert.ok(message!.includes(part), `${part}: ${message}`);
  }
  assert.match(String(answer.headers['x-influxdb-error']), /5 of 8 samples were refused/);
  assert.deepEqual(
    stored(test, now).filter((row) => row.startsWith('__name__=m_')),
    ['__name__=m_v 0:1', '__name__=m_w 0:2', '__name__=m_x 0:3'],
  );
});

test('an empty body is a mistake, lines that pass nothing are none', async () => {
  await using test = await TestCoordinator.openReady();
  const empty = await test.post('/write', new Uint8Array(0));
  assert.equal(empty.status, 400);
  assert.match(empty.text, /the request body is empty/);
  assert.equal((await test.post('/write', Buffer.from('\n\n# nothing\n'))).status, 204);
});

test('what passes is 503, for Telegraf drops what is answered with 429', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  const answer = await test.post('/write', Buffer.from(`m v=1 ${now}000000000`));
  assert.equal(answer.status, 503, answer.text);
  assert.ok(Number(answer.headers['retry-after']) > 0);
  assert.equal((answer.json as { code: string }).code, 'unavailable');
});

test('what clients ask before they write is answered', async () => {
  await using test = await TestCoordinator.open();
  for (const method of ['GET', 'HEAD']) {
    const ping = await test.send(method, '/ping', undefined);
    assert.equal(ping.status, 204);
    assert.ok(ping.headers['x-influxdb-version']);
  }
  const create = await test.post('/query', 'q=CREATE+DATABASE+%22telegraf%22');
  assert.deepEqual([create.status, create.json], [200, { results: [{ statement_id: 0 }] }]);
  const show = await test.get('/query?q=SHOW%20DATABASES');
  assert.equal(show.status, 200);
  const other = await test.get('/query?q=select%20*%20from%20cpu');
  assert.equal(other.status, 400);
  assert.match(other.text, /data are read by PromQL/);
});

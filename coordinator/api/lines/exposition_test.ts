import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';
import { openMetricsBytesMax } from './openmetrics/check.ts';

const path = '/api/v1/import/prometheus';
const openMetrics = { 'Content-Type': 'application/openmetrics-text; version=1.0.0' };

/** Series of the node as text: tags, then times in milliseconds after `start` with the bits of values. */
function stored(test: TestCoordinator, startSeconds: number): string[] {
  const start = BigInt(startSeconds) * 1_000_000_000n;
  return test.node
    .seriesOf('default')
    .map(({ decoded, rows }) => {
      const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(',');
      const values = [...rows].map(([nanos, bits]) => {
        const value = new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0]!;
        const text = Number.isNaN(value) ? `0x${(bits as bigint).toString(16)}` : String(value);
        return `${Number(nanos - start) / 1e6}:${text}`;
      });
      return `${tags} ${values.join(' ')}`;
    })
    .sort();
}

test('each line is a sample of the series that it names', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const text = [
    '# HELP http_requests_total The total number of requests.',
    '# TYPE http_requests_total counter',
    `http_requests_total{method="post",code="200",} 1027 ${now}000`,
    `http_requests_total{ code = "400", method="post" }3 ${now}500`,
    '',
    `quiet NaN ${now}000\r`,
    `bucket{le="+Inf",path="C:\\\\x\\n\\"y\\"",none=""} +Inf ${now}000`,
    `{"the name",zone="Zürich"} -1.5e-3 ${now}001`,
    '# EOF',
    `below:it -inf ${now}000`,
  ].join('\n');
  const answer = await test.post(path, Buffer.from(text));
  assert.deepEqual([answer.status, answer.text], [204, '']);
  assert.deepEqual(stored(test, now), [
    '__name__=below:it 0:-Infinity',
    '__name__=bucket,le=+Inf,path=C:\\x\n"y" 0:Infinity',
    '__name__=http_requests_total,code=200,method=post 0:1027',
    '__name__=http_requests_total,code=400,method=post 500:3',
    '__name__=quiet 0:0x7ff8000000000001',
    '__name__=the name,zone=Zürich 1:-0.0015',
  ]);
});

test('lines without a time have the one of the request, or now', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const named = await test.post(`${path}?timestamp=${now}007`, Buffer.from('m 1'));
  assert.equal(named.status, 204, named.text);
  assert.deepEqual(stored(test, now), ['__name__=m 7:1']);
  assert.equal((await test.post(path, Buffer.from('n 1'))).status, 204);
  const untimed = test.node.seriesOf('default').find(({ decoded }) => decoded[0]!.value === 'n')!;
  const [nanos] = [...untimed.rows.keys()];
  assert.equal(nanos! % 1_000_000n, 0n);
  assert.ok(nanos! >= BigInt(now) * 1_000_000_000n);
  for (const [query, reason] of [
    ['timestamp=now', /timestamp: not a whole number: now/],
    ['timestamp=9223372036855', /timestamp: more than 9223372036854 milliseconds/],
    ['extra_label=a=b', /extra_label: no labels are added here/],
  ] as const) {
    const wrong = await test.post(`${path}?${query}`, Buffer.from('m 1'));
    assert.equal(wrong.status, 400);
    assert.match(wrong.text, reason);
  }
});

test('bodies come compressed', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const body = (first: number, isOpenMetrics: boolean): Buffer => {
    const lines = Array.from({ length: 20_000 }, (_, i) => {
      const millis = (now - 100) * 1000 + first + i;
      return `m{i="${Math.floor(i / 2000)}"} ${i} ${isOpenMetrics ? millis / 1000 : millis}`;
    });
    return Buffer.from([...lines, '# EOF'].join('\n'));
  };
  const encodings: [name: string, encode: (bytes: Buffer) => Uint8Array][] = [
    ['identity', (bytes) => bytes],
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['zstd', zstdCompressSync],
  ];
  for (const [index, [name, encode]] of encodings.entries()) {
    const isOpenMetrics = index % 2 === 1;
    const type: Record<string, string> = isOpenMetrics ? openMetrics : {};
    const headers = { ...type, 'Content-Encoding': name };
    const answer = await test.post(path, encode(body(index * 20_000, isOpenMetrics)), headers);
    assert.equal(answer.status, 204, `${name}: ${answer.text}`);
    const rows = test.node.seriesOf('default').reduce((sum, { rows }) => sum + rows.size, 0);
    assert.equal(rows, (index + 1) * 20_000, name);
  }
  const other = await test.post(path, body(0, false), { 'Content-Encoding': 'br' });
  assert.equal(other.status, 400);
  assert.match(other.text, /Content-Encoding: none of gzip, deflate and zstd: br/);
});

test('bad lines are named with their place, and do not take the good ones with them', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const oldNanos = BigInt(now - 86_400 * 30) * 1_000_000_000n;
  test.node.outcomeOf = (nanos) =>
    nanos === oldNanos ? rowOutcome.tooFarPast : rowOutcome.written;
  const lines: [line: string, reason: string | null][] = [
    [`m 1 ${now}000`, null],
    ['m x', 'line 2, byte 3: not a number: "m x"'],
    ['m{a="1",a="2"} 1', 'line 3, byte 1: two tags have one name'],
    ['m{a="1" b="2"} 1', 'line 4, byte 9: expected a comma or "}"'],
    ['m{a="1} 1', 'line 5, byte 5: the text has no closing quote'],
    ['{a="1"} 1', 'line 6, byte 1: expected the name of a metric'],
    ['a.b 1', 'line 7, byte 2: expected "{" or a space behind the name of a metric'],
    ['m 1 1.5', 'line 8, byte 6: expected the end of the line'],
    [`m 1 ${now - 86_400 * 30}000`, '{__name__="m"} at '],
    ['m 1 1 # {a="b"} 1', 'line 10, byte 7: expected the end of the line'],
    [`{"m",a="1"} 2 ${now}000`, null],
    ['m -nan', 'line 12, byte 3: not a number'],
    ['m 1e400', 'line 13, byte 3: number out of range'],
    ['{"m","n"} 1', 'line 14, byte 6: two names of a metric'],
    [`m{__sum__="1"} 1 ${now}000`, 'reserved'],
  ];
  const answer = await test.post(path, Buffer.from(lines.map(([line]) => line).join('\n')));
  assert.equal(answer.status, 400, answer.text);
  const { status, errorType, error = '' } = answer.json as Record<string, string>;
  assert.deepEqual([status, errorType], ['error', 'bad_data']);
  assert.ok(error.includes('13 of 15 samples were refused, the others were written'), error);
  for (const [, reason] of lines) {
    assert.ok(reason === null || error.includes(reason), `${reason}: ${error}`);
  }
  assert.deepEqual(
    stored(test, now).filter((row) => row.includes(' 0:')),
    ['__name__=m 0:1', '__name__=m,a=1 0:2'],
  );
});

test('text of OpenMetrics has times in seconds and exemplars, and is refused as a whole', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const good = [
    '# TYPE a counter',
    `a_total{b="c"} 5 ${now}.25 # {trace_id="x"} 0.5 ${now}`,
    '# TYPE t gauge',
    `t 7 ${String(now / 1e9)}e+09`,
    '# EOF',
    '',
  ];
  const answer = await test.post(path, Buffer.from(good.join('\n')), openMetrics);
  assert.deepEqual([answer.status, answer.text], [204, '']);
  const rows = ['__name__=a_total,b=c 250:5', '__name__=t 0:7'];
  assert.deepEqual(stored(test, now), rows);

  const bad: [text: string, reason: string][] = [
    [`u 1 ${now}\n`, 'not OpenMetrics: the text does not end with \\"# EOF\\"'],
    [
      `u 1 ${now}\n# TYPE v counter\nv_total -1\n# EOF`,
      'not OpenMetrics: line 3: v_total is negative',
    ],
    [`u 1 ${now}\nu  2\n# EOF`, 'not OpenMetrics: line 2: '],
    ['u 1\nu 2\n# EOF', 'not OpenMetrics: line 2: a sample is there twice'],
  ];
  for (const [text, reason] of bad) {
    const refused = await test.post(path, Buffer.from(text), openMetrics);
    assert.equal(refused.status, 400, text);
    assert.equal((refused.json as { errorType: string }).errorType, 'bad_data');
    assert.ok(refused.text.includes(reason), refused.text);
  }
  const long = gzipSync(Buffer.from(`# HELP a ${'x'.repeat(1000)}\n`.repeat(17_000)));
  const tooLong = await test.post(path, long, { ...openMetrics, 'Content-Encoding': 'gzip' });
  assert.equal(tooLong.status, 400);
  assert.match(tooLong.text, /line 2: a second HELP of a/);
  const families = Array.from({ length: 17_000 }, (_, i) => `# HELP a${i} ${'x'.repeat(1000)}\n`);
  const more = await test.post(path, gzipSync(families.join('')), {
    ...openMetrics,
    'Content-Encoding': 'gzip',
  });
  assert.equal(more.status, 400);
  assert.match(more.text, new RegExp(`longer than ${openMetricsBytesMax} bytes`));
  assert.deepEqual(stored(test, now), rows);
});

test('an empty body is a mistake, lines that pass nothing are none', async () => {
  await using test = await TestCoordinator.openReady();
  const empty = await test.post(path, new Uint8Array(0));
  assert.equal(empty.status, 400);
  assert.match(empty.text, /the request body is empty/);
  assert.equal((await test.post(path, Buffer.from('\n\n# nothing\n'))).status, 204);
});

test('what passes is told so that clients come again', async () => {
  await using test = await TestCoordinator.openReady();
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  const answer = await test.post(path, Buffer.from('m 1'));
  assert.equal(answer.status, 429, answer.text);
  assert.ok(Number(answer.headers['retry-after']) > 0);
});

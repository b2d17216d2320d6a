import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';

const path = '/api/v1/import';
const now = nowSeconds();
const millis = now * 1000;

function line(metric: object, values: readonly unknown[], ...timestamps: number[]): string {
  return JSON.stringify({ metric, values, timestamps });
}

test('what was exported is imported bit for bit', async () => {
  const nans = ['7ff8000000000001', '7ff0000000000002', 'fff8000000000000'];
  const values = [0, 1 / 3, 5e-324, 1.7976931348623157e308, 123456789012345680000, 1e22, 0.1];
  const lines = [
    line({ __name__: 'mixed', job: 'a"\\\n' }, values, ...values.map((_, i) => millis - i)),
    line(
      { __name__: 'special' },
      ['Infinity', '-Inf', null, 'NaN', 'NaN:7ff0000000000002', 'NaN:fff8000000000000'],
      ...[0, 1, 2, 3, 4, 5].map((i) => millis - i),
    ),
    `{"metric":{"__name__":"zero"},"values":[-0],"timestamps":[${millis}]}`,
  ];
  await using source = await TestCoordinator.openReady();
  const written = await source.post(path, Buffer.from(lines.join('\n')));
  assert.deepEqual([written.status, written.text], [204, '']);
  const bits = new Set(
    source.node
      .seriesOf('default')
      .flatMap(({ rows }) => [...rows.values()].map((each) => (each as bigint).toString(16))),
  );
  for (const nan of nans) assert.ok(bits.has(nan), nan);
  assert.ok(bits.has('8000000000000000'));
  const exported = await source.get('/api/v1/export?match[]={__name__!=""}');
  await using target = await TestCoordinator.openReady();
  const imported = await target.post(path, Buffer.from(exported.bytes));
  assert.equal(imported.status, 204, imported.text);
  const stored = (of: TestCoordinator): string[] =>
    of.node
      .seriesOf('default')
      .map(({ decoded, rows }) => {
        const sorted = [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
        return `${JSON.stringify(decoded)} ${sorted.join(' ')}`;
      })
      .sort();
  assert.deepEqual(stored(target), stored(source));
});

test('bad lines are named, and good ones beside them are kept', async () => {
  await using test = await TestCoordinator.openReady();
  const good = line({ __name__: 'good', empty: '' }, [1, 2], millis, millis - 1);
  const bad = [
    '{"metric":{"__name__":"m"},"values":[1],"timestamps":[1,2]}',
    '[1]',
    '{"metric":{"__name__":"m"},"values":[1]}',
    '{"metric":{"__name__":"m"},"values":[1e400],"timestamps":[1]}',
    '{"metric":{"__name__":"m"},"values":["high"],"timestamps":[1]}',
    '{"metric":{"__name__":"m"},"values":[1],"timestamps":[1.5]}',
    '{"metric":{"__name__":"m","a":1},"values":[1],"timestamps":[1]}',
    '{"metric":{"a":"1","a":"2"},"values":[1],"timestamps":[1]}',
    '{"metric":{"a b":"1"},"values":[1],"timestamps":[1]}',
    '{"metric":{"__name__":"m"},"values":[1],"timestamps":[1],"more":1}',
    `{"metric":{"__name__":"m"},"values":[01],"timestamps":[${millis}]}`,
    `{"metric":{"__name__":"m"},"values":[1],"timestamps":[${millis}]`,
  ];
  const text = [good, ...bad, '', good.replace('good', 'better')].join('\r\n');
  const answer = await test.post(path, Buffer.from(text));
  assert.equal(answer.status, 400);
  for (const reason of [
    /^12 of 16 samples were refused/,
    /line 2: timestamps: 2 of them, of 1 values/,
    /line 3: not an object with metric, values and timestamps: "\[1\]/,
    /line 4: missing required field: timestamps/,
    /line 5: values\[0\]: out of range, beyond 1.8e308 either way/,
    /line 6: values\[0\]: no number: "high"/,
    /line 7: not whole milliseconds as timestamps\[0\]: "1.5/,
    /line 8: metric: "a" is no text/,
    /line 9: metric: key is given twice: "a"/,
    /line 10: metric: tag name does not match/,
    /line 11: unknown field: "more"/,
    /line 12: not a comma or the end of the list behind values\[0\]: "01|line 12: not a number/,
    /line 13: the line ends where a comma or the end of the object is expected/,
  ]) {
    assert.match(answer.json.error, reason);
  }
  const names = test.node.seriesOf('default').map(({ decoded }) => decoded[0]!.value);
  assert.deepEqual(names.sort(), ['better', 'good']);
});

test('bodies come compressed, and long ones are written in parts', async () => {
  await using test = await TestCoordinator.openReady();
  const count = 40_000;
  const times = Array.from({ length: count }, (_, i) => millis - i);
  const long = line(
    { __name__: 'long' },
    times.map((_, i) => i % 10),
    ...times,
  );
  const short = Array.from({ length: 3000 }, (_, i) =>
    line({ __name__: `short${i}` }, [i], millis),
  );
  const body = Buffer.from([long, ...short].join('\n'));
  for (const [encoding, encoded] of [
    ['gzip', gzipSync(body)],
    ['zstd', zstdCompressSync(body)],
  ] as const) {
    const answer = await test.post(path, encoded, { 'Content-Encoding': encoding });
    assert.equal(answer.status, 204, answer.text);
  }
  const series = test.node.seriesOf('default');
  assert.equal(series.length, 3001);
  assert.equal(series.find(({ decoded }) => decoded[0]!.value === 'long')!.rows.size, count);
});

test('a line that is too long is refused, and those around it are read', async () => {
  await using test = await TestCoordinator.openReady();
  const lines = [
    line({ __name__: 'before' }, [1], millis),
    `{"metric":{"__name__":"m"},"values":[${'1,'.repeat(1 << 20)}1],"timestamps":[1]}`,
    line({ __name__: 'after' }, [1], millis),
    'x',
  ];
  const answer = await test.post(path, gzipSync(lines.join('\n')), { 'Content-Encoding': 'gzip' });
  assert.equal(answer.status, 400);
  assert.match(answer.json.error, /line 2: longer than 1048576 bytes/);
  assert.match(answer.json.error, /line 4: not an object/);
  const names = test.node.seriesOf('default').map(({ decoded }) => decoded[0]!.value);
  assert.deepEqual(names.sort(), ['after', 'before']);
});

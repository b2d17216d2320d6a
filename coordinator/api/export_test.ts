import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

const now = nowSeconds();

const text = [
  `up{job="a"} 1 ${now - 30}000`,
  `up{job="a"} 0.1 ${now - 15}250`,
  `up{job="b, \\"c\\""} -0 ${now - 10}000`,
  `up{job="b, \\"c\\""} NaN ${now - 9}000`,
  `up{job="b, \\"c\\""} -Inf ${now - 8}000`,
  `down 5e-324 ${now - 5}000`,
].join('\n');

test('an export has a line of JSON for each series, and a last one that says that it is whole', async () => {
  await using test = await TestCoordinator.openReady();
  assert.equal((await test.post('/api/v1/import/prometheus', Buffer.from(text))).status, 204);
  const answer = await test.get('/api/v1/export?match[]=up&match[]={__name__=~"up|down"}');
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.headers['content-type'], 'application/x-ndjson');
  assert.equal(answer.headers['tsdb-series-count'], '3');
  assert.equal(
    answer.text,
    `{"metric":{"__name__":"down"},"values":[5e-324],"timestamps":[${now - 5}000]}
{"metric":{"__name__":"up","job":"a"},"values":[1,0.1],"timestamps":[${now - 30}000,${now - 15}250]}
{"metric":{"__name__":"up","job":"b, \\"c\\""},"values":[-0,null,"-Infinity"],"timestamps":[${now - 10}000,${now - 9}000,${now - 8}000]}
{"end":{"series":3,"samples":6,"histogramsLeftOut":0}}
`,
  );
  const part = await test.get(`/api/v1/export?match[]=up&start=${now - 15}&end=${now - 10}`);
  assert.match(
    part.text,
    /"values":\[0\.1\].*\n.*"values":\[-0\].*\n\{"end":\{"series":2,"samples":2,/,
  );
  const none = await test.get('/api/v1/export?match[]=nothing');
  assert.equal(none.text, '{"end":{"series":0,"samples":0,"histogramsLeftOut":0}}\n');
});

test('CSV has the columns that are asked for', async () => {
  await using test = await TestCoordinator.openReady();
  assert.equal((await test.post('/api/v1/import/prometheus', Buffer.from(text))).status, 204);
  const columns = 'job,__value__,__timestamp__:unix_s,instance';
  const rows = `a,1,${now - 30},
a,0.1,${now - 15}.25,
"b, ""c""",-0,${now - 10},
"b, ""c""",NaN,${now - 9},
"b, ""c""",-Inf,${now - 8},
`;
  for (const query of [`?format=csv&columns=${columns}`, `/csv?format=${columns}`]) {
    const answer = await test.get(`/api/v1/export${query}&match[]=up`);
    assert.equal(answer.headers['content-type'], 'text/csv; charset=utf-8');
    assert.equal(answer.text, rows);
  }
});

test('a long series is several lines, and is compressed for who asks', async () => {
  await using test = await TestCoordinator.openReady();
  const lines = Array.from({ length: 10_000 }, (_, i) => `long ${i} ${now * 1000 - i}`);
  await test.post('/api/v1/import/prometheus', Buffer.from(lines.join('\n')));
  const answer = await test.get('/api/v1/export?match[]=long', { 'Accept-Encoding': 'gzip' });
  assert.equal(answer.headers['content-encoding'], 'gzip');
  const all = gunzipSync(answer.bytes)
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(all.pop(), { end: { series: 1, samples: 10_000, histogramsLeftOut: 0 } });
  assert.ok(all.length > 1);
  const values = all.flatMap((line) => line.values);
  assert.deepEqual(
    values,
    Array.from({ length: 10_000 }, (_, i) => 9_999 - i),
  );
  assert.equal(all.flatMap((line) => line.timestamps).length, 10_000);
});

test('what cannot be exported is named', async () => {
  await using test = await TestCoordinator.openReady();
  for (const [query, reason] of [
    ['', /missing required parameter: match\[\]/],
    ['?match[]=up{', /invalid parameter .*match\[\]/],
    ['?match[]=up&format=xml', /format: neither json nor csv: xml/],
    ['?match[]=up&format=csv', /columns: missing/],
    ['?match[]=up&format=csv&columns=a,', /columns: a column is empty/],
    [
      '?match[]=up&format=csv&columns=__timestamp__:iso',
      /columns: __timestamp__ has one of the forms unix_ms, .*:iso/,
    ],
    ['?match[]=up&start=5&end=4', /end: end timestamp must not be before start/],
    ['/csv?match[]=up', /format: missing/],
  ] as const) {
    const answer = await test.get(`/api/v1/export${query}`);
    assert.equal(answer.status, 400, query);
    assert.match(answer.json.error, reason);
  }
});

test('more series than the limit are refused, or exported in part with a warning', async () => {
  await using test = await TestCoordinator.openReady();
  assert.equal((await test.post('/api/v1/import/prometheus', Buffer.from(text))).status, 204);
  const refused = await test.get('/api/v1/export?match[]=up&limit=1');
  assert.equal(refused.status, 400, refused.text);
  const part = await test.get('/api/v1/export?match[]=up&limit=1&requireExhaustive=false');
  assert.equal(part.status, 200);
  assert.match(String(part.headers['tsdb-results-limited']), /max_fetch_series_limit_applied/);
  assert.match(part.text, /\{"end":\{"series":1,/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';

const path = '/api/v1/json/write';
const lines = { 'Content-Type': 'application/x-ndjson; charset=utf-8' };
const now = nowSeconds();

const row = (tags: object, value: unknown, timestamp: number | string = now): string =>
  JSON.stringify({ tags, timestamp, value });

function namesOf(test: TestCoordinator): string[] {
  return test.node.seriesOf('default').map(({ decoded }) => decoded[0]!.value);
}

test('several lines are rows, each as one object alone would be', async () => {
  const tags = { __name__: 'm', host: 'a"\\ü' };
  const times = [
    now,
    String(now - 1),
    new Date((now - 2) * 1000).toISOString(),
    now - 3.25,
    `${now - 4}.000000001`,
  ];
  const all = times.map((time, i) => row(tags, i / 3, time));
  await using test = await TestCoordinator.openReady();
  const written = await test.post(path, Buffer.from(all.join('\n')));
  assert.deepEqual([written.status, written.text], [200, '']);
  await using single = await TestCoordinator.openReady();
  for (const each of all) assert.equal((await single.post(path, Buffer.from(each))).status, 200);
  const [several] = test.node.seriesOf('default');
  const [alone] = single.node.seriesOf('default');
  assert.deepEqual(several!.decoded, alone!.decoded);
  assert.equal(several!.rows.size, times.length);
  assert.deepEqual(several!.rows, alone!.rows);
});

test('an object with line feeds in it is one row, and a line alone is one, too', async () => {
  await using test = await TestCoordinator.openReady();
  const object = { tags: { __name__: 'pretty' }, timestamp: now, value: 1 };
  for (const body of [
    JSON.stringify(object, null, 2),
    `{"tags":{"a":"b"}\n,${row({}, 1).slice(11)}`,
  ]) {
    const answer = await test.post(path, Buffer.from(body));
    assert.equal(answer.status, 200, answer.text);
  }
  const answer = await test.post(path, Buffer.from(`${row({ __name__: 'alone' }, 1)}\n`), lines);
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(namesOf(test).sort(), ['alone', 'b', 'pretty']);
});

test('bad lines are told by their number, and the others are written', async () => {
  await using test = await TestCoordinator.openReady();
  const bad = [
    'not JSON',
    '[1]',
    row({ __name__: 'm' }, '1'),
    row({ __name__: 'm' }, 1, 'soon'),
    row({ __name__: 'm', empty: '' }, 1),
    row({ 'a b': 'x' }, 1),
    `{"tags":{"a":"1","a":"2"},"timestamp":${now},"value":1}`,
    `{"tags":{"a":"1"},"timestamp":${now},"value":1,"value":2}`,
    `{"tags":{"a":"1"},"timestamp":${now},"value":1e400}`,
    `{"tags":{"a":"1"},"timestamp":${now}}`,
    row({ __name__: 'm' }, { load: 1 }),
  ];
  const body = [row({ __name__: 'first' }, 1), ...bad, '', row({ __name__: 'last' }, 2)];
  const answer = await test.post(path, Buffer.from(body.join('\r\n')), lines);
  assert.equal(answer.status, 400);
  for (const reason of [
    /^11 of 13 samples were refused, the others were written: /,
    /line 2: it is not JSON: /,
    /line 3: not an object with tags, timestamp and value: \[1\]/,
    /line 4: value: not a number, or an object: "1"/,
    /line 5: timestamp: .*"soon"/,
    /line 6: \{__name__="m", empty=""\}: tag value is empty: empty/,
    /line 7: \{a b="x"\}: tag name does not match/,
    /line 8: key is given twice: "a"/,
    /line 9: key is given twice: "value"/,
    /line 10: value: out of range/,
    /line 11: missing required field: value/,
    /\{__name__="m"\}: value: an object, and no ready namespace has a schema/,
  ]) {
    assert.match(answer.json.error, reason);
  }
  assert.deepEqual(namesOf(test).sort(), ['first', 'last']);
});

test('labels that exports leave out are not those of a row', async () => {
  await using test = await TestCoordinator.openReady();
  const labels = '{"__name__":"m","empty":""}';
  const exported = `{"metric":${labels},"values":[1],"timestamps":[${now * 1000}]}`;
  const body = Buffer.from(`{"tags":${labels},"timestamp":${now},"value":1}`);
  for (let round = 0; round < 2; round++) {
    assert.equal((await test.post('/api/v1/import', Buffer.from(exported))).status, 204);
    const refused = await test.post(path, body, lines);
    assert.equal(refused.status, 400);
    assert.match(refused.json.error, /tag value is empty/);
  }
});

test('bodies come compressed, and long ones are written in parts', async () => {
  await using test = await TestCoordinator.openReady();
  const count = 40_000;
  const body = Array.from({ length: count }, (_, i) =>
    row({ __name__: 'long' }, i, now - Math.floor(i / 1000) - (i % 1000) / 1000),
  );
  const headers = { ...lines, 'Content-Encoding': 'gzip' };
  const answer = await test.post(path, gzipSync(body.join('\n')), headers);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(test.node.seriesOf('default')[0]!.rows.size, count);
});

test('messages stand between numbers, and a namespace can be named', async () => {
  await using test = await TestCoordinator.openReady();
  const create = { namespaceName: 'devices', retentionTime: '12h' };
  assert.equal((await test.post('/api/v1/database/create', create)).status, 200);
  await test.post('/api/v1/services/tsdb/namespace/ready', { name: 'devices' });
  await test.topology.until(
    ({ namespaces }) => namespaces.get('devices')?.options.stagingStatus === 'READY',
    AbortSignal.timeout(5_000),
  );
  const schema = {
    name: 'devices',
    msgName: 'Reading',
    protoName: 'reading.proto',
    protoMap: { 'reading.proto': 'syntax = "proto3"; message Reading { double load = 1; }' },
  };
  assert.equal((await test.post('/api/v1/services/tsdb/schema', schema)).status, 200);
  const body = [
    row({ __name__: 'reading', device: 'a' }, { load: 1.5 }),
    row({ __name__: 'plain' }, 2),
    row({ __name__: 'reading', device: 'b' }, { load: 'high' }),
    row({ __name__: 'reading', device: 'b' }, { load: 3 }),
  ].join('\n');
  const answer = await test.post(path, Buffer.from(body));
  assert.equal(answer.status, 400);
  assert.match(
    answer.json.error,
    /^1 of 4 samples were refused, the others were written: .*device="b".*load: it must be a number/,
  );
  assert.equal(test.node.seriesOf('devices').length, 2);
  assert.deepEqual(namesOf(test), ['plain']);
  const named = await test.post(`${path}?namespace=devices`, Buffer.from(body));
  assert.equal(named.status, 400);
  assert.match(named.json.error, /^2 of 4 /);
  assert.match(
    named.json.error,
    /\{__name__="plain"\}: value: not an object, and namespace devices has a schema/,
  );
});

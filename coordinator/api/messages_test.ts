/** Namespaces with a schema through the API: messages written as JSON, and their numeric fields read as series. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bundleOfSeries } from '#cluster/session/fakes_testing.ts';
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import { onTheLoop } from '#engine/aside/aside.ts';
import { assertNotHeld, turnsOf } from '#engine/aside/turning_testing.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { MessageEncoder } from '#engine/messages/canonical.ts';
import { wireFromJson } from '#engine/messages/json.ts';
import { readSchema } from '#engine/messages/schema.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { parseSelectors } from '../promql/engine.ts';
import type { ChosenStorage } from '../select/storage.ts';
import { type MessagesApiSetup, queryMessages } from './messages.ts';

const { signal } = new AbortController();

const schemaOf = (fields: string, name = 'devices') => ({
  name,
  msgName: 'telemetry.Reading',
  protoName: 'reading.proto',
  protoMap: {
    'reading.proto': `syntax = "proto3"; package telemetry; message Reading { ${fields} }`,
  },
});

const fields = `double load = 1; string state = 2; optional int64 count = 3; Latency latency = 4;
  message Latency { double p50 = 1; double p99 = 2; }`;

/** With the namespaces "default" and "devices", whose values are readings. */
async function openWithSchema(settings?: string): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady(settings);
  await makeReady(test, 'devices');
  assert.equal((await test.post('/api/v1/services/tsdb/schema', schemaOf(fields))).status, 200);
  return test;
}

async function makeReady(test: TestCoordinator, name: string): Promise<void> {
  const create = { namespaceName: name, retentionTime: '12h' };
  assert.equal((await test.post('/api/v1/database/create', create)).status, 200);
  await test.post('/api/v1/services/tsdb/namespace/ready', { name });
  await test.topology.until(
    ({ namespaces }) => namespaces.get(name)?.options.stagingStatus === 'READY',
    signal,
  );
}

const reading = (device: string, timestamp: number, value: unknown) => ({
  tags: { __name__: 'reading', device },
  timestamp,
  value,
});

test('messages are written beside floats, and each numeric field is a series', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  const written = await test.post('/api/v1/json/write', [
    reading('a', now - 20, { load: 1.5, count: '7', latency: { p99: 0.25 } }),
    reading('a', now - 10, { state: 'idle', latency: { p50: 0.125, p99: 0.5 } }),
    reading('b', now - 10, { load: -2, state: 'busy' }),
    { tags: { __name__: 'plain' }, timestamp: now - 10, value: 3 },
  ]);
  assert.deepEqual([written.status, written.text], [200, '']);
  const query = async (text: string): Promise<Record<string, string>> => {
    const answer = await test.get(`/api/v1/query?time=${now}&query=${encodeURIComponent(text)}`);
    assert.equal(answer.status, 200, answer.text);
    return Object.fromEntries(
      answer.json.data.result.map(
        ({ metric, value }: { metric: Record<string, string>; value: [number, string] }) => [
          `${metric['device'] ?? ''} ${metric['__field__'] ?? ''}`.trim(),
          value[1],
        ],
      ),
    );
  };
  assert.deepEqual(await query('reading'), {
    'a load': '0',
    'a count': '7',
    'a latency.p50': '0.125',
    'a latency.p99': '0.5',
    'b load': '-2',
  });
  assert.deepEqual(await query('reading{__field__="latency.p99"}'), { 'a latency.p99': '0.5' });
  assert.deepEqual(await query('reading{__field__=~"latency.*", device="a"}'), {
    'a latency.p50': '0.125',
    'a latency.p99': '0.5',
  });
  assert.deepEqual(await query('max_over_time(reading{__field__!="load"}[1m])'), {
    'a count': '7',
    'a latency.p50': '0.125',
    'a latency.p99': '0.5',
  });
  assert.deepEqual(
    await query('sum by (__field__) (sum_over_time(reading{__field__="load"}[1m]))'),
    {
      load: '-0.5',
    },
  );
  assert.deepEqual(await query('reading{__field__=""}'), {});
  assert.deepEqual(await query('reading{__field__="state"}'), {});
  assert.deepEqual(await query('plain'), { '': '3' });
  assert.deepEqual(await query('plain{__field__=""}'), { '': '3' });
  assert.deepEqual(await query('plain{__field__="load"}'), {});
  assert.deepEqual(Object.keys(await query('{__name__=~"reading|plain"}')).length, 6);
});

test('labels and series have the field, too', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  await test.post('/api/v1/json/write', [
    reading('a', now, { load: 1 }),
    { tags: { __name__: 'plain', host: 'x' }, timestamp: now, value: 3 },
  ]);
  const data = async (path: string) => (await test.get(`/api/v1/${path}`)).json.data;
  assert.deepEqual(await data('labels'), ['__field__', '__name__', 'device', 'host']);
  assert.deepEqual(await data('labels?match[]=plain'), ['__name__', 'host']);
  const all = ['count', 'latency.p50', 'latency.p99', 'load'];
  assert.deepEqual(await data('label/__field__/values'), all);
  assert.deepEqual(await data('label/__field__/values?match[]=plain'), []);
  assert.deepEqual(await data('label/__field__/values?match[]={__field__=~"l.*"}'), all.slice(1));
  assert.deepEqual(await data('label/device/values?match[]={__field__="none"}'), []);
  assert.deepEqual(await data('label/__name__/values'), ['plain', 'reading']);
  const series = await data(
    'series?match[]=reading{__field__=~"lo.*"}&match[]=plain&match[]=reading{__field__="load"}',
  );
  assert.deepEqual(series, [
    { __name__: 'plain', host: 'x' },
    { __field__: 'load', __name__: 'reading', device: 'a' },
  ]);
  const fieldsOf = async (selector: string) =>
    (await data(`series?match[]=${selector}`)).map(
      (each: Record<string, string>) => each['__field__'],
    );
  assert.deepEqual((await fieldsOf('reading')).toSorted(), all, 'none without a field');
  const both = await data(
    'series?match[]=reading{__field__=~"load|count"}&match[]=reading{__field__="load"}',
  );
  assert.deepEqual(
    both.map(({ __field__ }: { __field__: string }) => __field__),
    ['load', 'count'],
    'a series that two selectors ask for is there once',
  );
});

test('rows of the wrong shape are refused by row with the path of the field, and the others are written', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  const { status, json } = await test.post('/api/v1/json/write', [
    reading('a', now, { load: 1 }),
    reading('b', now, { load: 'high' }),
    reading('c', now, { latency: { p99: {} } }),
    reading('d', now, { lod: 1 }),
    reading('e', now, { count: 2 ** 60 }),
    reading('f', now, [1]),
  ]);
  assert.equal(status, 400);
  assert.match(json.error, /5 of 6 samples were refused, the others were written/);
  assert.match(json.error, /device="b"\}: cannot take message: load: it must be a number: "high"/);
  assert.match(json.error, /device="c"\}: cannot take message: latency\.p99: it must be a number/);
  assert.match(
    json.error,
    /device="d"\}: cannot take message: lod: telemetry.Reading has no such field/,
  );
  assert.match(
    json.error,
    /device="e"\}: cannot take message: count: from 2\^53 on it must be a string/,
  );
  assert.match(json.error, /row 5: value: not a number, or an object/);
  const { data } = (await test.get(`/api/v1/query?query=count(reading{__field__="load"})`)).json;
  assert.equal(data.result[0].value[1], '1');
});

test('a message may have as many numbers as fit into it, and one with too many values is a bad row alone', async () => {
  await using test = await TestCoordinator.openReady();
  await makeReady(test, 'devices');
  const schema = schemaOf('repeated double bins = 1; repeated bool flags = 2;');
  assert.equal((await test.post('/api/v1/services/tsdb/schema', schema)).status, 200);
  const now = nowSeconds();
  const bins = Array.from({ length: 131_000 }, (_, i) => i / 2);
  const flags = Array.from({ length: 150_000 }, () => true);
  const rows = [
    reading('a', now, { bins: [1] }),
    reading('b', now, { bins }),
    reading('c', now, { flags }),
    reading('d', now, { bins: [2] }),
  ];
  const listed = await test.post('/api/v1/json/write', rows);
  assert.equal(listed.status, 400);
  assert.match(
    listed.json.error,
    /^1 of 4 samples were refused, the others were written: row 2: it has more than 150000 values: 150006$/,
  );
  const read = await test.get('/api/v1/json/query?match[]=reading');
  const found = Object.fromEntries(
    read.json.data.map((each: { metric: { device: string }; values: [number, object][] }) => [
      each.metric.device,
      each.values[0]![1],
    ]),
  );
  assert.deepEqual(found, { a: { bins: [1] }, b: { bins }, d: { bins: [2] } });
  const lines = rows.map((row) => JSON.stringify({ ...row, timestamp: now - 1 })).join('\n');
  const written = await test.post('/api/v1/json/write', Buffer.from(lines));
  assert.match(
    written.json.error,
    /^1 of 4 samples were refused, .*: line 3: it has more than 150000 values/,
  );
});

test('objects need a namespace with a schema, which is named when there are several; floats go to the others', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const row = reading('a', now, { load: 1 });
  const plain = { tags: { __name__: 'plain' }, timestamp: now, value: 3 };
  const write = async (body: object, parameters = '') => {
    const answer = await test.post(`/api/v1/json/write${parameters}`, body);
    return [answer.status, answer.text === '' ? '' : answer.json.error];
  };
  const [status, error] = await write([row, plain]);
  assert.equal(status, 400);
  assert.match(error, /1 of 2 samples.*an object, and no ready namespace has a schema/);
  for (const name of ['devices', 'others']) {
    await makeReady(test, name);
    assert.equal(
      (await test.post('/api/v1/services/tsdb/schema', schemaOf(fields, name))).status,
      200,
    );
  }
  assert.match(
    (await write(row))[1],
    /several namespaces have a schema: name one \(namespace=…\): devices, others/,
  );
  assert.deepEqual(await write(row, '?namespace=others'), [200, '']);
  assert.deepEqual(await write(plain), [200, '']);
  assert.match(
    (await write(plain, '?namespace=others'))[1],
    /value: not an object, and namespace others has a schema/,
  );
  assert.match(
    (await write(row, '?namespace=default'))[1],
    /namespace default does not have a schema/,
  );
  assert.deepEqual((await write(row, '?namespace=nobody'))[0], 503);
});

test('a series that several namespaces have is one with the rows of all, of one time those of the namespace that was made ready last', async () => {
  await using test = await TestCoordinator.openReady();
  await makeReady(test, 'devices');
  const now = nowSeconds();
  // Before there is a schema floats go to both namespaces.
  const plain = { tags: { __name__: 'plain' }, timestamp: now - 10, value: 3 };
  assert.equal((await test.post('/api/v1/json/write', plain)).status, 200);
  await makeReady(test, 'next');
  for (const name of ['devices', 'next']) {
    const deployed = await test.post('/api/v1/services/tsdb/schema', schemaOf(fields, name));
    assert.equal(deployed.status, 200, deployed.text);
  }
  const write = async (namespace: string, timestamp: number, load: number) => {
    const row = reading('a', timestamp, { load });
    const answer = await test.post(`/api/v1/json/write?namespace=${namespace}`, row);
    assert.equal(answer.status, 200, answer.text);
  };
  await write('devices', now - 30, 5);
  await write('devices', now - 20, 7);
  await write('next', now - 20, 6);
  await write('next', now - 10, 8);
  const load = 'reading{__field__="load"}';
  const query = async (text: string) => {
    const answer = await test.get(`/api/v1/query?time=${now}&query=${encodeURIComponent(text)}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.data.result.map(
      ({ value, values = [value] }: { value: unknown; values?: unknown[] }) => values,
    );
  };
  const rows = [
    [now - 30, '5'],
    [now - 20, '6'],
    [now - 10, '8'],
  ];
  assert.deepEqual(await query(`${load}[5m]`), [rows]);
  assert.deepEqual(await query(`sum_over_time(${load}[5m])`), [[[now, '19']]]);
  assert.deepEqual(await query(load), [[[now, '8']]]);
  assert.deepEqual(await query('plain[5m]'), [[[now - 10, '3']]]);
  assert.deepEqual(await query('count({__name__=~".+"})'), [[[now, '2']]]);
  const path = `/api/v1/series?match[]=${encodeURIComponent(load)}&match[]=plain`;
  const series = (await test.get(path)).json.data.map((each: object) => JSON.stringify(each));
  assert.equal(new Set(series).size, series.length);
});

test('a schema that is deployed is written by at once, and what was written before is absent where it had no such field', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  await test.post('/api/v1/json/write', reading('a', now - 20, { load: 1 }));
  const next = `${fields} double heat = 9;`;
  assert.equal((await test.post('/api/v1/services/tsdb/schema', schemaOf(next))).status, 200);
  const written = await test.post('/api/v1/json/write', reading('a', now - 10, { heat: 21 }));
  assert.equal(written.status, 200, written.text);
  const range = `start=${now - 20}&end=${now - 10}&step=10`;
  const values = async (field: string) => {
    const query = encodeURIComponent(`reading{__field__="${field}"}`);
    const { data } = (await test.get(`/api/v1/query_range?${range}&query=${query}`)).json;
    return data.result[0].values.map(([time, value]: [number, string]) => [time - now, value]);
  };
  assert.deepEqual(await values('load'), [
    [-20, '1'],
    [-10, '0'],
  ]);
  assert.deepEqual(await values('heat'), [[-10, '21']]);
});

test('a limit on series counts each field', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  await test.post('/api/v1/json/write', [
    reading('a', now, { load: 1, count: 1, latency: {} }),
    reading('b', now, { load: 1, count: 1, latency: {} }),
  ]);
  const limited = async (limit: number, exhaustive: boolean) =>
    test.get('/api/v1/query?query=reading', {
      'M3-Limit-Max-Series': String(limit),
      'M3-Limit-Require-Exhaustive': String(exhaustive),
    });
  assert.equal((await limited(8, true)).json.data.result.length, 8);
  const cut = (await limited(7, false)).json;
  assert.equal(cut.data.result.length, 7);
  assert.match(cut.warnings[0], /partial/);
  const refused = await limited(7, true);
  assert.equal(refused.status, 400, refused.text);
  assert.match(refused.json.error, /series_matched=at least 8, of which each field/);
});

test('a deletion takes whole rows, and is refused for single fields', async () => {
  await using test = await openWithSchema();
  const path = '/api/v1/admin/tsdb/delete_series?match[]=';
  const refused = await test.post(`${path}${encodeURIComponent('{__field__="load"}')}`, '');
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /a field of messages cannot be deleted by itself/);
});

test('messages come back as they were written, whole or some of their fields', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  const first = { load: 1.5, count: '7', state: 'idle', latency: { p99: 0.25 } };
  const second = { load: 'NaN', latency: {} };
  await test.post('/api/v1/json/write', [
    reading('a', now - 20, first),
    reading('a', now - 10, second),
    reading('b', now - 10, { count: 0 }),
  ]);
  const query = async (parameters: string) => {
    const answer = await test.get(`/api/v1/json/query?${parameters}`);
    assert.equal(answer.status, 200, answer.text);
    return Object.fromEntries(
      answer.json.data.map(
        ({ metric, values }: { metric: { device: string }; values: [number, unknown][] }) => [
          metric.device,
          values.map(([time, value]) => [time - now, value]),
        ],
      ),
    );
  };
  assert.deepEqual(await query('match[]=reading'), {
    a: [
      [-20, first],
      [-10, second],
    ],
    b: [[-10, { count: '0' }]],
  });
  assert.deepEqual(
    await query(`match[]=reading{device="a"}&fields=load,latency.p99&end=${now - 20}`),
    {
      a: [[-20, { load: 1.5, latency: { p99: 0.25 } }]],
    },
  );
  const refused = async (parameters: string) =>
    (await test.get(`/api/v1/json/query?${parameters}`)).json.error;
  assert.match(
    await refused('match[]=a&fields=lod'),
    /fields: telemetry\.Reading has no field "lod"/,
  );
  for (const many of [','.repeat(4_096), 'load,'.repeat(4_096)]) {
    assert.match(await refused(`match[]=a&fields=${many}load`), /fields: more than 4096/);
  }
  assert.match(
    await refused(`match[]=a&fields=load,latency${'.p99'.repeat(300)}`),
    /fields: one has more than 1024 characters: "?latency\.p99/,
  );
  assert.match(
    await refused('match[]={__field__="a"}'),
    /match\[\]: fields are named by the parameter/,
  );
  assert.match(
    await refused('match[]=a&namespace=default'),
    /namespace: none of this name.*devices/,
  );
  assert.match(await refused(''), /match\[\]/);
});

test('an answer says that it leaves out rows of a schema that the coordinator has not heard of', async () => {
  await using test = await openWithSchema();
  const now = nowSeconds();
  await test.post('/api/v1/json/write', reading('a', now - 20, { load: 1 }));
  const paths = [
    `query?query=${encodeURIComponent('reading{device="a"}')}`,
    'json/query?match[]=reading{device="a"}',
  ];
  const warnings = () =>
    Promise.all(paths.map(async (path) => (await test.get(`/api/v1/${path}`)).json.warnings));
  assert.deepEqual(await warnings(), [undefined, undefined]);
  // Through another coordinator, while this one does not reach the key-value store.
  const type = readSchema({ 'r.proto': 'syntax = "proto3"; message R { double x = 50; }' }, 'R');
  const value = new MessageEncoder().encode(wireFromJson({ x: 1 }, type), type, 2 ** 31);
  const tags = [
    { name: '__name__', value: 'reading' },
    { name: 'device', value: 'a' },
  ];
  const builder = new BatchBuilder();
  builder.begin(64 * 1000 * now);
  const slot = builder.addSeries(encodeTags(tags), idSchemeCode.quoted, new Uint8Array(0));
  const [slots, generations] = [Uint32Array.of(slot), new Uint32Array(1)];
  builder.setRows(0, slots, generations, new BigInt64Array(1), 1, new Float64Array(0));
  builder.setTypedRows({
    ...{ rowCount: 1, slots, generations, timeUnitNanos: 1, startNanos: new BigInt64Array(1) },
    timestamps: BigInt64Array.of(BigInt(now - 10) * 1_000_000_000n),
    valueEnds: Uint32Array.of(value.length),
    valueBytes: value,
  });
  const request = { namespace: 'devices', placementVersion: 1, referenceEpoch: '' };
  await test.node.write({ ...request, batch: builder.finish() });
  for (const [warning] of await warnings()) {
    assert.match(warning, /messages of a schema that is not known here yet were left out/);
  }
});

test('a scan over rows that are not shown gives way to others, and ends with its request', async () => {
  const type = readSchema({ 'r.proto': 'syntax = "proto3"; message R { double x = 1; }' }, 'R');
  const encoder = new MessageEncoder();
  const chunkRows = 400;
  const chunks = Array.from({ length: 500 }, (_, chunk) => {
    const values = Array.from({ length: chunkRows }, (_, row) =>
      encoder.encode(wireFromJson({ x: row }, type), type, 1).slice(),
    );
    let end = 0;
    return encodeTypedRows({
      timestampNanos: BigInt64Array.from(values, (_, row) => BigInt(chunk * chunkRows + row)),
      valueBytes: Buffer.concat(values),
      valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
      rowVersions: new Float64Array(chunkRows).fill(1),
      startNanos: new BigInt64Array(chunkRows),
    });
  });
  const bundle = bundleOfSeries([{ job: 'a', chunks: Buffer.concat(chunks) }]);
  // Their schema was taken back.
  const schemas = { has: () => false, isLater: () => false, shown: type } as unknown as Schemas;
  const source = { select: async () => ({ bundle, exhaustive: true, warnings: [] }) };
  const storage = {
    hidden: new Set<string>(),
    messages: () => [{ name: 'devices', schemas, source }],
  } as unknown as ChosenStorage;
  const setup: MessagesApiSetup = {
    storageFor: () => storage,
    parseSelectors,
    turningOf: (of) => ({ work: Turns.of(realEnv.clock).begin(of), aside: onTheLoop }),
    settings: {
      timeoutMillis: 30_000,
      lookbackMillis: 300_000,
      seriesMax: 0,
      rangeMillisMax: 0,
      requireExhaustive: true,
    },
    clock: realEnv.clock,
  };
  const parameters = new URLSearchParams({ 'match[]': 'up' });
  const answered = async (of: AbortSignal): Promise<string> => {
    const request = {
      method: 'GET',
      pathParameters: {},
      urlParameters: parameters,
      header: () => '',
      signal: of,
      readMemory: unlimitedReadBytes,
    };
    const { body } = await queryMessages(setup, request, parameters);
    const parts: Uint8Array[] = [];
    for await (const part of body as AsyncIterable<Uint8Array>) parts.push(part);
    return Buffer.concat(parts).toString();
  };
  const seen = await turnsOf(answered(signal));
  assert.equal(seen.answer, '{"status":"success","data":[]}');
  assert.ok(seen.turns >= 10, `${seen.turns}`);
  assertNotHeld(seen);
  const left = new AbortController();
  setImmediate(() => left.abort(new TsdbError('CANCELLED', 'the client left')));
  await assert.rejects(answered(left.signal), { code: 'CANCELLED' });
});

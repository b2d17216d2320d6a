import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeSnappy, encodeSnappy } from '#engine/write_decoder/snappy.ts';
import { realEnv } from '#lib/env/real.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { type AskedQuery, readRequest } from '../remote/requests_testing.ts';
import { applyRules, makeWindows } from '../windows_testing.ts';

const path = '/api/v1/compat/remote/read';

type Message = Map<number, (Uint8Array | bigint)[]>;

/** Any protobuf message by field number. */
function parse(bytes: Uint8Array): Message {
  const fields: Message = new Map();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const values = fields.get(key >> 3) ?? [];
    fields.set(key >> 3, values);
    if ((key & 7) === 0) {
      values.push(varint());
    } else {
      const length = (key & 7) === 1 ? 8 : Number(varint());
      values.push(bytes.subarray(at, at + length));
      at += length;
    }
  }
  return fields;
}

const messages = (message: Message, field: number): Message[] =>
  (message.get(field) ?? []).map((bytes) => parse(bytes as Uint8Array));

const text = (message: Message, field: number): string =>
  new TextDecoder().decode(message.get(field)![0] as Uint8Array);

const labelsOf = (series: Message): string =>
  messages(series, 1)
    .map((label) => `${text(label, 1)}=${text(label, 2)}`)
    .join(',');

/** Samples by series: milliseconds since a time, and values. */
const samplesOf = (result: Message, sinceMillis: number) =>
  messages(result, 1).map((series) => ({
    labels: labelsOf(series),
    samples: messages(series, 2).map((sample) => [
      Number(sample.get(2)![0] as bigint) - sinceMillis,
      new DataView((sample.get(1)![0] as Uint8Array).slice().buffer).getFloat64(0, true),
    ]),
  }));

async function filled(test: TestCoordinator, rows: number): Promise<number> {
  const start = nowSeconds() - rows;
  const body = ['b', 'a'].flatMap((host) =>
    Array.from({ length: rows }, (_, i) => ({
      tags: { __name__: 'm', host },
      timestamp: start + i,
      value: i + 0.5,
    })),
  );
  assert.equal((await test.post('/api/v1/json/write', body)).status, 200);
  return start * 1000;
}

test('remote read answers samples, series in the order of their labels, both ends included', async () => {
  await using test = await TestCoordinator.openReady();
  const startMillis = await filled(test, 10);
  const body = readRequest(
    [
      {
        startMillis: startMillis + 2_000,
        endMillis: startMillis + 4_000,
        matchers: [
          [0, '__name__', 'm'],
          [2, 'host', 'a|b'],
        ],
      },
      { startMillis, endMillis: startMillis, matchers: [[3, 'host', 'b.*']] },
    ],
    [],
  );
  const answer = await test.post(path, body);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.headers['content-type'], 'application/x-protobuf');
  assert.equal(answer.headers['content-encoding'], 'snappy');
  const results = messages(parse(decodeSnappy(answer.bytes, 1 << 20)), 1);
  const read = results.map((result) => samplesOf(result, startMillis));
  const three = [2, 3, 4].map((i) => [i * 1000, i + 0.5]);
  assert.deepEqual(read, [
    [
      { labels: '__name__=m,host=a', samples: three },
      { labels: '__name__=m,host=b', samples: three },
    ],
    [{ labels: '__name__=m,host=a', samples: [[0, 0.5]] }],
  ]);
});

test('remote read goes on before the samples with windows, by the column that a hint asks for', async () => {
  await using test = await TestCoordinator.openReady();
  const startMillis = await filled(test, 1);
  const dayMillis = 86_400_000;
  const tags = [
    { name: '__name__', value: 'm' },
    { name: 'host', value: 'a' },
  ];
  const endNanos = BigInt(startMillis - 5 * dayMillis) * 1_000_000n;
  await makeWindows(test, [{ tags, windows: [{ endNanos, last: 7, max: 9 }] }]);
  const query = {
    startMillis: startMillis - 10 * dayMillis,
    endMillis: startMillis + 1_000,
    matchers: [[0, '__name__', 'm']],
  } as const;
  const hinted = { ...query, function: 'max_over_time' };
  const answer = await test.post(path, readRequest([query, hinted], []));
  assert.equal(answer.status, 200, answer.text);
  const results = messages(parse(decodeSnappy(answer.bytes, 1 << 20)), 1);
  const read = (value: number) => [
    {
      labels: '__name__=m,host=a',
      samples: [
        [-5 * dayMillis, value],
        [0, 0.5],
      ],
    },
    { labels: '__name__=m,host=b', samples: [[0, 0.5]] },
  ];
  assert.deepEqual(
    results.map((result) => samplesOf(result, startMillis)),
    [read(7), read(9)],
  );
});

test('remote read has the last number of a window that ends with a stale marker for functions over ranges', async () => {
  await using test = await TestCoordinator.openReady();
  const windowMillis = (nowSeconds() - 5 * 86_400) * 1_000;
  const endNanos = BigInt(windowMillis) * 1_000_000n;
  const windows = [{ endNanos, last: Number.NaN, max: 9 }];
  await makeWindows(test, [{ tags: [{ name: '__name__', value: 'm' }], windows }]);
  for (const [hinted, wanted] of [
    ['', Number.NaN],
    ['sum', Number.NaN],
    ['last_over_time', 9],
    ['rate', 9],
    ['avg_over_time', 9],
  ] as const) {
    const range = { startMillis: windowMillis - 1, endMillis: windowMillis + 1 };
    const query = { ...range, matchers: [[0, '__name__', 'm']], function: hinted } as const;
    const answer = await test.post(path, readRequest([query], []));
    assert.equal(answer.status, 200, answer.text);
    const [result] = messages(parse(decodeSnappy(answer.bytes, 1 << 20)), 1);
    const read = [{ labels: '__name__=m', samples: [[0, wanted]] }];
    assert.deepEqual(samplesOf(result!, windowMillis), read, hinted);
  }
});

test('remote read without a function over a range has the values that aggregation rules say', async () => {
  await using test = await TestCoordinator.openReady();
  const hourMillis = 3_600_000;
  const windowMillis = Math.floor((nowSeconds() * 1_000) / hourMillis - 120) * hourMillis;
  const windows = [
    { endNanos: BigInt(windowMillis) * 1_000_000n, last: 7, max: 9 },
    { endNanos: BigInt(windowMillis + hourMillis) * 1_000_000n, last: Number.NaN, max: 8 },
  ];
  await makeWindows(test, [{ tags: [{ name: '__name__', value: 'm' }], windows }]);
  const storagePolicies = [{ resolution: '1h', retention: '720h' }];
  const rule = { name: 'max', filter: '__name__:m', aggregations: ['Max'], storagePolicies };
  await applyRules(test, { mappingRules: [rule] });
  const valuesOf = async (hinted: string, rangeMillis = 60_000): Promise<number[]> => {
    const range = { startMillis: windowMillis - 1, endMillis: windowMillis + hourMillis };
    const matchers = [[0, '__name__', 'm']] as const;
    const query = { ...range, matchers, function: hinted, rangeMillis };
    const answer = await test.post(path, readRequest([query], []));
    assert.equal(answer.status, 200, answer.text);
    const [result] = messages(parse(decodeSnappy(answer.bytes, 1 << 20)), 1);
    return samplesOf(result!, windowMillis)[0]!.samples.map(([, value]) => value!);
  };
  // Until the rule is known it is the last value.
  for (let attempt = 0; (await valuesOf(''))[0] === 7; attempt++) {
    assert.ok(attempt < 400);
    await realEnv.clock.sleep(25, new AbortController().signal);
  }
  for (const [hinted, ...wanted] of [
    ['', 9, Number.NaN],
    ['sum', 9, Number.NaN],
    ['last_over_time', 7, 8],
    ['irate', 7, 8],
    ['max_over_time', 9, 8],
    ['sum_over_time', 16, 8],
  ] as const) {
    assert.deepEqual(await valuesOf(hinted), wanted, hinted);
  }
  // Prometheus hints a function around a subquery, too: `sum_over_time(m[1d:5m])` is of values.
  assert.deepEqual(await valuesOf('sum_over_time', 0), [9, Number.NaN]);
  const times = `start=${windowMillis / 1000}&end=${windowMillis / 1000 + 1}`;
  for (const [query, value] of [
    ['m', '9'],
    ['m[1d]', '9'],
    ['sum(sum_over_time(m[1d]))', '16'],
    ['last_over_time((m[1d]))', '7'],
    ['sum_over_time(m[1d:5m])', '9'],
  ] as const) {
    const text = encodeURIComponent(query);
    const { json } = await test.get(`${path}?query=${text}&${times}&format=json`);
    assert.equal(json.queries[0].series[0].datapoints[0].val, value, query);
  }
});

test('remote read tells functions of counters what windows know of one that began again', async () => {
  await using test = await TestCoordinator.openReady();
  const windowMillis = (nowSeconds() - 5 * 86_400) * 1_000;
  const endNanos = BigInt(windowMillis) * 1_000_000n;
  const windows = [{ endNanos, last: 20, max: 15, resets: 15 }];
  await makeWindows(test, [{ tags: [{ name: '__name__', value: 'm' }], windows }]);
  for (const [hinted, wanted] of [
    ['', [[0, 20]]],
    [
      'rate',
      [
        [-2, 15],
        [-1, 0],
        [0, 20],
      ],
    ],
    [
      'increase',
      [
        [-2, 15],
        [-1, 0],
        [0, 20],
      ],
    ],
    [
      'resets',
      [
        [-2, 15],
        [-1, 0],
        [0, 20],
      ],
    ],
  ] as const) {
    const range = { startMillis: windowMillis - 10, endMillis: windowMillis + 1 };
    const query = { ...range, matchers: [[0, '__name__', 'm']], function: hinted } as const;
    const answer = await test.post(path, readRequest([query], []));
    assert.equal(answer.status, 200, answer.text);
    const [result] = messages(parse(decodeSnappy(answer.bytes, 1 << 20)), 1);
    const read = [{ labels: '__name__=m', samples: wanted }];
    assert.deepEqual(samplesOf(result!, windowMillis), read, hinted);
  }
});

test('remote read up to a time far ahead is answered with what there is, of samples and of windows', async () => {
  await using test = await TestCoordinator.openReady();
  const startMillis = await filled(test, 3);
  await makeWindows(test, []);
  const headers = { 'M3-Metrics-Type': 'aggregated', 'M3-Storage-Policy': '1h:720h' };
  const hour = 3_600_000;
  const rows = [0, 1, 2].map((i) => [1_000 * i, i + 0.5] as const);
  const earlier = [-2 * hour, 9.5] as const;
  const tags = { __name__: 'm', host: 'a' };
  const row = { tags, timestamp: (startMillis + earlier[0]) / 1000, value: earlier[1] };
  assert.equal((await test.post('/api/v1/json/write', row)).status, 200);
  // By the ends of their hours, as far as these have ended.
  const windows = new Map(
    [earlier, ...rows]
      .map(
        ([millis, value]) =>
          [Math.ceil((startMillis + millis) / hour) * hour - startMillis, value] as const,
      )
      .filter(([end]) => startMillis + end <= nowSeconds() * 1000),
  );
  assert.ok(windows.size > 0);
  for (const [chosen, from, wanted] of [
    [{}, 0, rows],
    [headers, -3 * hour, [...windows]],
  ] as const) {
    for (const endMillis of [startMillis + 2 * hour, 9_000_000_000_000_000, 2 ** 63 - 1_024]) {
      const query = {
        startMillis: startMillis + from,
        endMillis,
        matchers: [[0, 'host', 'a']],
      } as const;
      const answer = await test.post(path, readRequest([query], []), chosen);
      assert.equal(answer.status, 200, answer.text);
      const [result] = messages(parse(decodeSnappy(answer.bytes, 1 << 20)), 1);
      const read = [{ labels: '__name__=m,host=a', samples: wanted }];
      assert.deepEqual(samplesOf(result!, startMillis), read, `${endMillis}`);
    }
  }
});

test('remote read streams XOR chunks in checked frames to clients that prefer them', async () => {
  await using test = await TestCoordinator.openReady();
  const startMillis = await filled(test, 300);
  const query = {
    startMillis,
    endMillis: startMillis + 300_000,
    matchers: [[0, '__name__', 'm']] as const,
  };
  const answer = await test.post(path, readRequest([query, query], [1, 0]));
  assert.equal(answer.status, 200, answer.text);
  assert.equal(
    answer.headers['content-type'],
    'application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse',
  );
  assert.equal(answer.headers['content-encoding'], undefined);
  const seen: string[] = [];
  for (let at = 0; at < answer.bytes.length; ) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = answer.bytes[at++]!;
      length += (byte & 127) << shift;
      if (byte < 128) break;
    }
    const checksum = Buffer.from(answer.bytes).readUInt32BE(at);
    const frame = answer.bytes.subarray(at + 4, at + 4 + length);
    assert.equal(crc32c(frame), checksum);
    at += 4 + length;
    const message = parse(frame);
    const queryIndex = Number((message.get(2)?.[0] as bigint | undefined) ?? 0n);
    const all = messages(message, 1);
    assert.equal(all.length, 1, 'Prometheus reads the first series of a frame only');
    for (const series of all) {
      const chunks = messages(series, 2).map((chunk) => {
        assert.equal(chunk.get(3)![0], 1n, 'XOR');
        const data = chunk.get(4)![0] as Uint8Array;
        const times = [1, 2].map((field) => Number(chunk.get(field)![0] as bigint) - startMillis);
        return `${times.join('-')} ${data[0]! * 256 + data[1]!}`;
      });
      seen.push(`${queryIndex} ${labelsOf(series)} ${chunks.join(' ')}`);
    }
  }
  const chunks = '0-119000 120 120000-239000 120 240000-299000 60';
  assert.deepEqual(seen, [
    `0 __name__=m,host=a ${chunks}`,
    `0 __name__=m,host=b ${chunks}`,
    `1 __name__=m,host=a ${chunks}`,
    `1 __name__=m,host=b ${chunks}`,
  ]);
});

/** Series m of one host, or of both. */
const queryOf = (startMillis: number, host: string): AskedQuery => ({
  startMillis,
  endMillis: startMillis + 9_000,
  matchers: [
    [0, '__name__', 'm'],
    [2, 'host', host],
  ],
});

test('streamed remote read tells in its headers that it is partial', async () => {
  await using test = await TestCoordinator.openReady();
  const startMillis = await filled(test, 10);
  const cut = { 'TSDB-Limit-Max-Series': '1', 'TSDB-Limit-Require-Exhaustive': 'false' };
  const one = queryOf(startMillis, 'a');
  const both = queryOf(startMillis, 'a|b');
  const whole = await test.post(path, readRequest([one, one], [1]), cut);
  assert.equal(whole.status, 200, whole.text);
  assert.equal(whole.headers['tsdb-results-limited'], undefined);
  const partial = await test.post(path, readRequest([both, one, both], [1]), cut);
  assert.equal(partial.status, 200, partial.text);
  assert.match(String(partial.headers['tsdb-results-limited']), /^max_fetch_series_limit_applied,/);
  const second = await test.post(path, readRequest([one, both], [1]), cut);
  assert.equal(second.status, 400);
  assert.match(second.json.error, /queries\[1\]: partial after a whole one/);
  // When more is on its way it cannot be told any more.
  await assert.rejects(test.post(path, readRequest([one, one, both], [1]), cut), {
    code: 'UNAVAILABLE',
  });
  assert.equal((await test.post(path, readRequest([], [1]))).bytes.length, 0);
});

test('remote read of samples has the sample limit of queries', async () => {
  await using test = await TestCoordinator.openReady(
    '{query: {prometheus: {maxSamplesPerQuery: 15}}}',
  );
  const startMillis = await filled(test, 10);
  const one = queryOf(startMillis, 'a');
  const both = queryOf(startMillis, 'a|b');
  assert.equal((await test.post(path, readRequest([one], []))).status, 200);
  const query = await test.get(`/api/v1/query?query=m[1m]&time=${startMillis / 1000 + 9}`);
  for (const queries of [[both], [one, one]]) {
    const answer = await test.post(path, readRequest(queries, []));
    assert.deepEqual([answer.status, answer.json], [422, query.json]);
    assert.equal(answer.json.errorType, 'execution');
  }
  assert.equal((await test.post(path, readRequest([both], [1]))).status, 200);
});

test('remote read refuses what it cannot read with 400', async () => {
  await using test = await TestCoordinator.openReady();
  const cases: [Uint8Array, RegExp][] = [
    [Uint8Array.of(9, 9), /snappy/],
    [encodeSnappy(Uint8Array.of(10, 5, 1)), /cut off/],
    [
      readRequest([{ startMillis: 2, endMillis: 1, matchers: [[0, 'a', 'b']] }], []),
      /before its start/,
    ],
    [
      readRequest([{ startMillis: 1, endMillis: 2, matchers: [[7, 'a', 'b']] }], []),
      /unknown type of matcher: 7/,
    ],
    [readRequest([{ startMillis: 1, endMillis: 2, matchers: [[2, 'a', '(']] }], [1]), /./],
  ];
  for (const [body, reason] of cases) {
    const answer = await test.post(path, body);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.error, reason);
  }
});

/** Native histograms through the API: written by remote write, queried, and read by remote read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import { encodeSnappy, decodeSnappy } from '#engine/write_decoder/snappy.ts';
import { customSchema, type Histogram, staleHistogram } from '#engine/typed/histogram.ts';
import { type Tag, tagValue } from '#lib/tags.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';

const writePath = '/api/v1/compat/remote/write';
const readPath = '/api/v1/compat/remote/read';
const v2 = { 'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' };

const tagsOf = (tags: Record<string, string>): Tag[] =>
  Object.entries(tags).map(([name, value]) => ({ name, value }));

const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;

/** Buckets (0.5, 1] and (1, 2] of schema 0. */
function histogramOf(small: number, large: number): Histogram {
  return {
    isFloat: false,
    schema: 0,
    hint: 0,
    zeroThreshold: 0.001,
    count: small + large,
    zeroCount: 0,
    sumBits: bitsOf(0.75 * small + 1.5 * large),
    customBounds: new Float64Array(0),
    positive: { indexes: Int32Array.of(0, 1), counts: Float64Array.of(small, large) },
    negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
  };
}

/** A counter of latencies, every ten seconds, beside a counter of floats; returns the time of the first, in seconds. */
async function filled(test: TestCoordinator): Promise<number> {
  const start = nowSeconds() - 100;
  const series: SeriesToWrite[] = [
    {
      tags: tagsOf({ __name__: 'latency', job: 'a' }),
      samples: [],
      histograms: Array.from({ length: 6 }, (_, i) => ({
        timestampMillis: (start + 10 * i) * 1000,
        histogram: histogramOf(10 * i, 30 * i),
      })),
    },
    {
      tags: tagsOf({ __name__: 'requests_total', job: 'a' }),
      samples: [{ timestampMillis: start * 1000, value: 7 }],
    },
  ];
  const answer = await test.post(writePath, encodeRemoteWriteV2(series), v2);
  assert.deepEqual([answer.status, answer.text], [204, '']);
  assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '1');
  assert.equal(answer.headers['x-prometheus-remote-write-histograms-written'], '6');
  return start;
}

async function dataAt(test: TestCoordinator, query: string, seconds: number): Promise<any> {
  const parameters = new URLSearchParams({ query, time: String(seconds) });
  const answer = await test.get(`/api/v1/query?${parameters}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

test('histograms of remote write are queried as Prometheus answers them', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const at = start + 50;
  const { data } = await dataAt(test, 'latency', at);
  assert.deepEqual(data, {
    resultType: 'vector',
    result: [
      {
        metric: { __name__: 'latency', job: 'a' },
        histogram: [
          at,
          {
            count: '200',
            sum: '262.5',
            buckets: [
              [0, '0.5', '1', '50'],
              [0, '1', '2', '150'],
            ],
          },
        ],
      },
    ],
  });
  const rate = await dataAt(test, 'rate(latency[50s])', at);
  const [[time, { count, buckets }]] = [rate.data.result[0].histogram];
  assert.deepEqual([time, Number(count), buckets.length], [at, 4, 2]);
  assert.equal(rate.infos, undefined, 'a histogram needs no name of a counter');
  const quantile = await dataAt(test, 'histogram_quantile(0.25, sum(rate(latency[50s])))', at);
  assert.deepEqual(quantile.data.result, [{ metric: {}, value: [at, '1'] }]);
  const raw = await dataAt(test, '{job="a"}[1m]', at);
  assert.equal(raw.data.result.length, 2);
  assert.equal(raw.data.result[0].histograms.length, 6);
  assert.equal(raw.data.result[0].values, undefined);
  assert.deepEqual(raw.data.result[1].values, [[start, '7']]);
  const range = await test.get(
    `/api/v1/query_range?${new URLSearchParams({
      query: '{job="a"}',
      start: String(start),
      end: String(start + 20),
      step: '10',
    })}`,
  );
  const [histograms, floats] = range.json.data.result;
  assert.deepEqual(
    histograms.histograms.map(([seconds, histogram]: any) => [seconds - start, histogram.count]),
    [
      [0, '0'],
      [10, '40'],
      [20, '80'],
    ],
  );
  assert.deepEqual(floats.values.length, 3);
  const mixed = await dataAt(test, 'latency + on(job) requests_total', at);
  assert.deepEqual(mixed.data.result, []);
  assert.match(mixed.infos[0], /incompatible sample types .* "\+": histogram \+ float \(1:1\)/);
});

test('bad histograms are named, and the good rows beside them are written', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const wrong = { ...histogramOf(3, 4), count: 8 };
  const bodies: SeriesToWrite[] = [
    {
      tags: tagsOf({ __name__: 'latency', job: 'a' }),
      samples: [],
      histograms: [
        { timestampMillis: millis, histogram: wrong },
        { timestampMillis: millis + 1, histogram: histogramOf(1, 2) },
      ],
    },
    { tags: tagsOf({ __name__: 'up' }), samples: [{ timestampMillis: millis, value: 1 }] },
    {
      tags: tagsOf({ __name__: 'odd', 'b-d': 'x' }),
      samples: [],
      histograms: [{ timestampMillis: millis, histogram: histogramOf(1, 2) }],
    },
  ];
  const isNamed = (answer: TestAnswer): void => {
    assert.equal(answer.status, 400);
    assert.match(answer.json.error, /^2 of 4 samples were refused, the others were written: /);
    const time = `${millis / 1000}`;
    assert.match(answer.json.error, new RegExp(`{__name__="latency", job="a"} at ${time}: .*7.*8`));
    assert.match(answer.json.error, /{__name__="odd", b-d="x"}: tag name does not match/);
  };
  isNamed(await test.post(writePath, encodeRemoteWrite(bodies)));
  const answer = await test.post(writePath, encodeRemoteWriteV2(bodies), v2);
  isNamed(answer);
  assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '1');
  assert.equal(answer.headers['x-prometheus-remote-write-histograms-written'], '1');
  const [latency, up] = test.node.seriesOf('default');
  assert.deepEqual([latency!.rows.size, up!.rows.size], [1, 1]);
});

test('histograms and start times wait for the end of an upgrade', async () => {
  await using test = await TestCoordinator.openReady('{}', { level: () => 2 });
  test.node.formatLevelWritten = 2;
  const millis = nowSeconds() * 1000;
  const samples = [{ timestampMillis: millis, value: 1, startMillis: millis - 1000 }];
  const body = [
    {
      tags: tagsOf({ __name__: 'latency' }),
      samples,
      histograms: [{ timestampMillis: millis + 1, histogram: histogramOf(1, 2) }],
    },
  ];
  const early = await test.post(writePath, encodeRemoteWriteV2(body), v2);
  assert.equal(early.status, 204, early.text);
  assert.equal(early.headers['x-prometheus-remote-write-histograms-written'], '0');
  const [series] = test.node.seriesOf('default');
  assert.deepEqual([series!.rows.size, series!.startNanos.size], [1, 0]);
  test.node.formatLevelWritten = 3;
  await test.post(writePath, encodeRemoteWriteV2(body), v2);
  const late = await test.post(writePath, encodeRemoteWriteV2(body), v2);
  assert.equal(late.headers['x-prometheus-remote-write-histograms-written'], '1');
  assert.deepEqual(
    [...series!.startNanos],
    [[BigInt(millis) * 1_000_000n, BigInt(millis - 1000) * 1_000_000n]],
  );
});

test('a body with very many histograms is written in parts', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = (nowSeconds() - 600) * 1000;
  const series = Array.from({ length: 20 }, (_, i) => ({
    tags: tagsOf({ __name__: 'latency', job: String(i) }),
    samples: [{ timestampMillis: millis, value: 1 }],
    histograms: Array.from({ length: 1000 }, (_each, row) => ({
      timestampMillis: millis + 1 + row,
      histogram: histogramOf(row, i),
    })),
  }));
  const answer = await test.post(writePath, encodeRemoteWriteV2(series), v2);
  assert.equal(answer.status, 204, answer.text);
  assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '20');
  assert.equal(answer.headers['x-prometheus-remote-write-histograms-written'], '20000');
  assert.ok(test.node.writeCount >= 3, 'samples, and histograms in two parts');
  for (const { rows } of test.node.seriesOf('default')) assert.equal(rows.size, 1001);
});

/** A protobuf message by field number. */
function parse(bytes: Uint8Array): Map<number, (Uint8Array | bigint)[]> {
  const fields = new Map<number, (Uint8Array | bigint)[]>();
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
    if ((key & 7) === 0) values.push(varint());
    else {
      const length = (key & 7) === 1 ? 8 : Number(varint());
      values.push(bytes.subarray(at, at + length));
      at += length;
    }
  }
  return fields;
}

function readBody(fromMillis: number, toMillis: number, types: readonly number[]): Uint8Array {
  const [request, query, matcher] = [new MessageWriter(), new MessageWriter(), new MessageWriter()];
  matcher.int64Field(1, 0);
  matcher.bytesField(2, Buffer.from('job'));
  matcher.bytesField(3, Buffer.from('a'));
  query.int64Field(1, fromMillis);
  query.int64Field(2, toMillis);
  query.bytesField(3, matcher.finish());
  request.bytesField(1, query.finish());
  if (types.length > 0) request.bytesField(2, Uint8Array.from(types));
  return encodeSnappy(request.finish());
}

test('remote read answers histograms as samples and as chunks', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const series = test.node
    .seriesOf('default')
    .find(({ decoded }) => tagValue(decoded, '__name__') === 'latency');
  series!.rows.set(BigInt(start + 60) * 1_000_000_000n, staleHistogram);
  series!.rows.set(BigInt(start + 70) * 1_000_000_000n, bitsOf(5));
  const [from, to] = [start * 1000, (start + 100) * 1000];
  const samples = await test.post(readPath, readBody(from, to, []));
  const answer = parse(decodeSnappy(samples.bytes, 1 << 20));
  const [result] = answer.get(1)!.map((bytes) => parse(bytes as Uint8Array));
  const all = result!.get(1)!.map((bytes) => parse(bytes as Uint8Array));
  assert.equal(all.length, 2);
  const histograms = all[0]!.get(4)!.map((bytes) => parse(bytes as Uint8Array));
  assert.equal(histograms.length, 7);
  assert.equal(all[0]!.get(2)!.length, 1);
  const last = histograms[5]!;
  assert.equal(last.get(1)![0], 200n, 'its whole count');
  assert.deepEqual(last.get(3)![0], new Uint8Array(Float64Array.of(262.5).buffer));
  assert.deepEqual([...(last.get(12)![0] as Uint8Array)], [100, 200, 1], 'differences, zigzag');
  assert.equal(last.get(15)![0], BigInt(start + 50) * 1000n);

  const streamed = await test.post(readPath, readBody(from, to, [1]));
  assert.match(String(streamed.headers['content-type']), /x-streamed-protobuf/);
  // One byte of length while the message is short: uvarint, CRC, message.
  const lengthBytes = streamed.bytes[0]! < 128 ? 1 : 2;
  const length =
    lengthBytes === 1 ? streamed.bytes[0]! : (streamed.bytes[0]! & 127) | (streamed.bytes[1]! << 7);
  const frame = parse(streamed.bytes.subarray(lengthBytes + 4, lengthBytes + 4 + length));
  const chunks = parse(frame.get(1)![0] as Uint8Array).get(2)!;
  const encodings = chunks.map((bytes) => {
    const chunk = parse(bytes as Uint8Array);
    return [chunk.get(3)![0], Number(chunk.get(2)![0]) / 1000 - start];
  });
  // Six histograms, the marker by itself, a float.
  assert.deepEqual(encodings, [
    [2n, 50],
    [2n, 60],
    [1n, 70],
  ]);
});

test('custom buckets are answered with their bounds', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const histogram: Histogram = {
    ...histogramOf(2, 3),
    schema: customSchema,
    zeroThreshold: 0,
    customBounds: Float64Array.of(0.1, 0.25),
  };
  const series = [
    {
      tags: tagsOf({ __name__: 'latency' }),
      samples: [],
      histograms: [{ timestampMillis: millis, histogram }],
    },
  ];
  const answer = await test.post(writePath, encodeRemoteWrite(series));
  assert.equal(answer.status, 200, answer.text);
  const { data } = await dataAt(test, 'latency', millis / 1000);
  assert.deepEqual(data.result[0].histogram[1].buckets, [
    [3, '-Inf', '0.1', '2'],
    [0, '0.1', '0.25', '3'],
  ]);
});

test('sums over time have no side that none of their rows has, whatever other rows of the series have', async () => {
  await using test = await TestCoordinator.openReady();
  const start = nowSeconds() - 100;
  const plain: Histogram = { ...histogramOf(4, 2), count: 10, zeroCount: 4 };
  const negative = { indexes: Int32Array.of(1), counts: Float64Array.of(3) };
  const both: Histogram = { ...plain, count: 13, negative };
  const seriesOf = (job: string, histograms: readonly Histogram[]): SeriesToWrite => ({
    tags: tagsOf({ __name__: 'gauge', job }),
    samples: [],
    histograms: histograms.map((histogram, i) => ({
      timestampMillis: (start + 10 * (i + 3 - histograms.length)) * 1000,
      histogram: { ...histogram, hint: 3 },
    })),
  });
  const body = encodeRemoteWriteV2([
    seriesOf('both', [both, plain, plain]),
    seriesOf('plain', [plain, plain]),
  ]);
  assert.equal((await test.post(writePath, body, v2)).status, 204);
  for (const over of ['sum_over_time', 'avg_over_time', 'last_over_time']) {
    const query = encodeURIComponent(`histogram_quantile(0.1, ${over}(gauge[15s]))`);
    const { json } = await test.get(`/api/v1/query?time=${start + 20}&query=${query}`);
    const values = json.data.result.map(({ value }: { value: [number, string] }) => value[1]);
    assert.equal(values.length, 2, over);
    assert.equal(values[0], values[1], over);
  }
});

test('rates and their sums are the same whether they are computed at once or each by itself', async () => {
  await using test = await TestCoordinator.openReady();
  const start = nowSeconds() - 600;
  const custom = (i: number): Histogram => ({
    ...histogramOf(0, 0),
    schema: customSchema,
    zeroThreshold: 0,
    count: 4 * i,
    customBounds: Float64Array.of(1, 2),
    positive: { indexes: Int32Array.of(0, 2), counts: Float64Array.of(i, 3 * i) },
  });
  const seriesOf = (
    route: string,
    job: string,
    histogramAt: (i: number) => Histogram | null,
    floatAt: (i: number) => number | null = () => null,
  ): SeriesToWrite => {
    const places = Array.from({ length: 40 }, (_, i) => i);
    const timeOf = (i: number): number => (start + 15 * i) * 1000;
    return {
      tags: tagsOf({ __name__: 'took', job, route }),
      samples: places.flatMap((i) => {
        const value = floatAt(i);
        return value === null ? [] : [{ timestampMillis: timeOf(i), value }];
      }),
      histograms: places.flatMap((i) => {
        const histogram = histogramAt(i);
        return histogram === null ? [] : [{ timestampMillis: timeOf(i), histogram }];
      }),
    };
  };
  const growing = (scale: number) => (i: number) => histogramOf(scale * i, i * i);
  const series = [
    seriesOf('/plain', 'alike', growing(1)),
    seriesOf('/reset', 'alike', (i) => histogramOf(10 * (i % 13), 3 * i)),
    seriesOf('/gap', 'alike', (i) => (i > 10 && i < 25 ? null : histogramOf(i, 0))),
    seriesOf('/plain', 'other forms', growing(2)),
    seriesOf('/wide', 'other forms', (i) => ({ ...histogramOf(i, i), zeroThreshold: 0.1 })),
    seriesOf('/fine', 'other forms', (i) => ({ ...histogramOf(i, i), schema: 2 })),
    seriesOf('/again', 'other forms', growing(3)),
    seriesOf('/bounds', 'custom', custom),
    seriesOf('/exponential', 'custom', growing(1)),
    seriesOf(
      '/changes',
      'floats',
      (i) => (i < 20 ? histogramOf(i, i) : null),
      (i) => (i < 20 ? null : i),
    ),
    seriesOf('/plain', 'floats', growing(5)),
    seriesOf('/form', 'one after the other', (i) => ({
      ...histogramOf(i, i),
      schema: i < 20 ? 1 : 0,
    })),
  ];
  const answer = await test.post(writePath, encodeRemoteWriteV2(series), v2);
  assert.equal(answer.status, 204, answer.text);
  const resultOf = async (query: string): Promise<unknown> => {
    const parameters = new URLSearchParams({
      query,
      start: String(start),
      end: String(start + 630),
      step: '20',
    });
    const { status, text, json } = await test.get(`/api/v1/query_range?${parameters}`);
    assert.equal(status, 200, `${query}: ${text}`);
    return json.data.result;
  };
  for (const rates of ['rate(took[1m])', 'increase(took[2m])', 'delta(took[1m])']) {
    // What is computed with a number is taken apart before.
    for (const form of [
      (of: string) => `label_replace(${of}, "of", "all", "", "")`,
      (of: string) => `sum without (job, route) (${of})`,
      (of: string) => `sum by (job) (${of})`,
      (of: string) => `sum without (job) (${of})`,
      (of: string) => `avg by (job) (${of})`,
      (of: string) => `count by (job) (${of})`,
      (of: string) => `histogram_quantile(0.9, sum by (job) (${of}))`,
      (of: string) => `histogram_fraction(0, 1.5, ${of})`,
      (of: string) => `histogram_sum(sum by (route) (${of}))`,
      (of: string) => `sum by (job) (sum_over_time((${of})[1m:20s]))`,
    ]) {
      const found = await resultOf(form(rates));
      // Of exponential and custom buckets there is no sum.
      const isOfAll = form(rates).includes('(job, route)');
      assert.equal((found as unknown[]).length > 0, !isOfAll, form(rates));
      assert.deepEqual(found, await resultOf(form(`(${rates} * 1)`)), form(rates));
    }
  }
});

test('bounds that change are told of a rate, and not of its count and sum, which have none', async () => {
  await using test = await TestCoordinator.openReady();
  const start = nowSeconds() - 100;
  const histograms = Array.from({ length: 8 }, (_, i) => ({
    timestampMillis: (start + 10 * i) * 1000,
    histogram: {
      ...histogramOf(0, 0),
      schema: customSchema,
      zeroThreshold: 0,
      count: 4 * i,
      sumBits: bitsOf(6 * i),
      customBounds: i < 4 ? Float64Array.of(1, 2) : Float64Array.of(1, 3),
      positive: { indexes: Int32Array.of(0, 2), counts: Float64Array.of(i, 3 * i) },
    },
  }));
  const series = [{ tags: tagsOf({ __name__: 'size' }), samples: [], histograms }];
  const answer = await test.post(writePath, encodeRemoteWriteV2(series), v2);
  assert.equal(answer.status, 204, answer.text);
  const at = start + 70;
  const infosOf = async (query: string): Promise<number> =>
    (await dataAt(test, query, at)).infos?.length ?? 0;
  assert.ok((await infosOf('rate(size[65s])')) > 0);
  assert.equal(await infosOf('histogram_sum(rate(size[65s]))'), 0);
  const { data } = await dataAt(test, 'histogram_sum(increase(size[60s]))', at);
  assert.deepEqual(data.result, [{ metric: {}, value: [at, '36'] }]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags } from '#lib/tags.ts';
import { exemplarOfValue } from '../typed/exemplar.ts';
import { customSchema, histogramOfValue, staleHistogram } from '../typed/histogram.ts';
import { attributes, bodyOf, openReader } from './otlp_testing.ts';
import type { OtlpPart, OtlpSetting } from './points/types.ts';
import type { WriteDecoder } from '../write_decoder/write_decoder.ts';

const nanos = (millis: number): string => `${millis}000000`;
const now = 1_700_000_010_000;
const time = { timeUnixNano: nanos(now) };
const staleBits = 0x7ff0_0000_0000_0002n;

function onlyPart(
  body: Uint8Array,
  setting: Partial<OtlpSetting> = {},
): { part: OtlpPart; decoder: WriteDecoder } {
  const { decoder, reader } = openReader(setting);
  const part = reader.open(body).next();
  assert.ok(part !== null && part !== 'unchecked');
  return { part, decoder };
}

const nameOf = (decoder: WriteDecoder, slot: number): string =>
  decodeTags(decoder.tags(slot))
    .map(({ name, value }) => (name === '__name__' ? value : `${name}=${value}`))
    .join(',');

/** Samples as text: name, tags and value. */
function samplesOf(body: Uint8Array, setting: Partial<OtlpSetting> = {}): string[] {
  const { part, decoder } = onlyPart(body, setting);
  const { rowCount, slots, values } = part.rows;
  return Array.from(
    { length: rowCount },
    (_, row) => `${nameOf(decoder, slots[row]!)} ${values[row]}`,
  );
}

const gauge = (name: string, point: object, more: object = {}): object => ({
  name,
  ...more,
  gauge: { dataPoints: [{ ...time, asDouble: 1, ...point }] },
});

test('values of attributes are texts: numbers plain, lists and maps as JSON', () => {
  const values: [object, string][] = [
    [{ stringValue: 'a"b' }, 'a"b'],
    [{ boolValue: true }, 'true'],
    [{ intValue: '-9223372036854775808' }, '-9223372036854775808'],
    [{ doubleValue: 1.5 }, '1.5'],
    [{ doubleValue: 1e21 }, '1e+21'],
    [{ bytesValue: 'AQI=' }, 'AQI='],
    [
      { arrayValue: { values: [{ stringValue: '<a>' }, { intValue: 1 }, {}] } },
      '["\\u003ca\\u003e",1,null]',
    ],
    [
      {
        kvlistValue: {
          values: [
            { key: 'b', value: { boolValue: false } },
            { key: 'a', value: { doubleValue: 2 } },
          ],
        },
      },
      '{"a":2,"b":false}',
    ],
  ];
  for (const [value, text] of values) {
    assert.deepEqual(samplesOf(bodyOf([gauge('g', { attributes: [{ key: 'k', value }] })])), [
      `g,k=${text} 1`,
    ]);
  }
});

test('attributes that come to one label are joined in the order of their keys, and empty ones are none', () => {
  const point = { attributes: attributes({ a_b: '2', 'a.b': '1', empty: '', __name__: 'other' }) };
  assert.deepEqual(samplesOf(bodyOf([gauge('g', point)])), ['g,a_b=1;2 1']);
});

test('a resource is job, instance and target_info, or the labels that are asked for', () => {
  const resource = {
    'service.namespace': 'eu',
    'service.name': 'shop',
    'service.instance.id': 'i',
    'host.name': 'h',
  };
  const body = bodyOf(
    [gauge('g', { attributes: attributes({ job: 'x', 'host.name': 'own' }) })],
    resource,
  );
  assert.deepEqual(samplesOf(body), [
    'g,host_name=own,instance=i,job=eu/shop 1',
    'target_info,host_name=h,instance=i,job=eu/shop 1',
  ]);
  const plain = bodyOf([gauge('g', {})], resource);
  assert.deepEqual(
    samplesOf(plain, { promotedAttributes: new Set(['host.name']), keepsIdentifying: true }),
    [
      'g,host_name=h,instance=i,job=eu/shop 1',
      'target_info,host_name=h,instance=i,job=eu/shop,service_instance_id=i,service_name=shop,service_namespace=eu 1',
    ],
  );
  assert.equal(
    samplesOf(plain, { promotesAll: true, ignoredAttributes: new Set(['service.name']) })[0],
    'g,host_name=h,instance=i,job=eu/shop,service_instance_id=i,service_namespace=eu 1',
  );
  // Nothing is told of a resource that is nobody, or nothing more.
  assert.deepEqual(samplesOf(bodyOf([gauge('g', {})], { 'host.name': 'h' })), ['g 1']);
  assert.deepEqual(samplesOf(bodyOf([gauge('g', {})], { 'service.name': 'shop' })), [
    'g,job=shop 1',
  ]);
});

test('target_info stands each half of the lookback from the first point to the last one', () => {
  const dataPoints = [0, 300].map((seconds) => ({
    timeUnixNano: nanos(now + seconds * 1000),
    asInt: '1',
  }));
  const body = bodyOf([{ name: 'g', gauge: { dataPoints } }], {
    'service.name': 's',
    'host.name': 'h',
  });
  const { part } = onlyPart(body);
  const times = [...part.rows.timestamps].map((millis) => Number(millis) - now);
  assert.deepEqual(times, [0, 300_000, 0, 150_000, 300_000]);
  assert.deepEqual([...part.pointOfSample], [0, 1, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff]);
});

test('a histogram is buckets, sum and count, and exemplars go to their bucket', () => {
  const traceId = '0102030405060708090a0b0c0d0e0f10';
  const exemplars = [
    { asDouble: 0.3, timeUnixNano: nanos(now - 5), traceId, spanId: '0102030405060708' },
    { asDouble: 9, filteredAttributes: attributes({ long: 'x'.repeat(130) }) },
  ];
  const point = {
    ...time,
    count: '6',
    sum: 2.5,
    bucketCounts: ['1', '2', '3'],
    explicitBounds: [0.25, 1e-7 + 0.5],
  };
  const histogram = (more: object): Uint8Array =>
    bodyOf([
      {
        name: 'h',
        unit: 's',
        histogram: { aggregationTemporality: 2, dataPoints: [{ ...point, ...more }] },
      },
    ]);
  assert.deepEqual(samplesOf(histogram({})), [
    'h_seconds_count 6',
    'h_seconds_sum 2.5',
    'h_seconds_bucket,le=0.25 1',
    'h_seconds_bucket,le=0.5000001 3',
    'h_seconds_bucket,le=+Inf 6',
  ]);
  const { part, decoder } = onlyPart(histogram({ exemplars }));
  const found = part.rows.exemplars!;
  assert.deepEqual(
    Array.from(found.slots, (slot) => nameOf(decoder, slot)),
    ['h_seconds_bucket,le=0.5000001', 'h_seconds_bucket,le=+Inf'],
  );
  const first = exemplarOfValue(found.valueBytes.subarray(0, found.valueEnds[0]));
  assert.deepEqual(first, {
    value: 0.3,
    labels: [
      { name: 'span_id', value: '0102030405060708' },
      { name: 'trace_id', value: traceId },
    ],
  });
  const second = exemplarOfValue(
    found.valueBytes.subarray(found.valueEnds[0]!, found.valueEnds[1]),
  );
  assert.deepEqual(second, { value: 9, labels: [] });
  assert.deepEqual(
    [...found.timestamps].map((each) => Number(each / 1_000_000n) - now),
    [-5, 0],
  );
});

test('a histogram without a sum has none, and bounds have to ascend and fit the counts', () => {
  const histogram = (point: object): Uint8Array =>
    bodyOf([
      { name: 'h', histogram: { aggregationTemporality: 2, dataPoints: [{ ...time, ...point }] } },
    ]);
  assert.deepEqual(samplesOf(histogram({ count: '3' })), ['h_count 3', 'h_bucket,le=+Inf 3']);
  for (const [point, problem] of [
    [
      { bucketCounts: ['1', '1', '1'], explicitBounds: [2, 1] },
      /explicit_bounds: not finite numbers that ascend: 1 after 2/,
    ],
    [
      { bucketCounts: ['1'], explicitBounds: [2, 1] },
      /bucket_counts: not one more than explicit_bounds, 2: 1/,
    ],
  ] as const) {
    const { part } = onlyPart(histogram(point));
    assert.deepEqual([part.rows.rowCount, part.pointCount, part.refusedCount], [0, 1, 1]);
    assert.match(part.problems[0]!, problem);
  }
});

test('histograms become native ones with custom buckets when that is asked for', () => {
  const point = {
    ...time,
    count: '3',
    sum: 2.5,
    bucketCounts: ['1', '0', '2'],
    explicitBounds: [1, 2],
  };
  const body = bodyOf([
    { name: 'h', histogram: { aggregationTemporality: 2, dataPoints: [point] } },
  ]);
  const { part } = onlyPart(body, { convertsHistograms: true });
  const { histograms } = part.rows;
  const value = histogramOfValue(histograms!.valueBytes.slice(0, histograms!.valueEnds[0]));
  assert.deepEqual([value.schema, value.count, [...value.customBounds]], [customSchema, 3, [1, 2]]);
  assert.deepEqual(
    [[...value.positive.indexes], [...value.positive.counts]],
    [
      [0, 2],
      [1, 2],
    ],
  );
});

test('exponential histograms are native ones, finer scales made coarser, and what is wrong with one is told', () => {
  const exponential = (point: object, temporality = 2): Uint8Array => {
    const dataPoints = [{ ...time, startTimeUnixNano: nanos(now - 1000), ...point }];
    return bodyOf([
      { name: 'e', exponentialHistogram: { aggregationTemporality: temporality, dataPoints } },
    ]);
  };
  const valueOf = (body: Uint8Array, setting: Partial<OtlpSetting> = {}) => {
    const { histograms } = onlyPart(body, setting).part.rows;
    assert.deepEqual(
      [[...histograms!.startNanos!], [...histograms!.timestamps]],
      [[BigInt(now - 1000) * 1_000_000n], [BigInt(now)]],
    );
    return histogramOfValue(histograms!.valueBytes.slice(0, histograms!.valueEnds[0]));
  };
  const positive = { offset: -1, bucketCounts: ['1', '0', '5'] };
  const value = valueOf(
    exponential({
      count: '9',
      zeroCount: '2',
      sum: 4,
      scale: 3,
      positive,
      negative: { offset: 4, bucketCounts: ['1'] },
    }),
  );
  assert.deepEqual(
    [value.schema, value.count, value.zeroCount, value.zeroThreshold],
    [3, 9, 2, 1e-128],
  );
  assert.deepEqual(
    [[...value.positive.indexes], [...value.positive.counts]],
    [
      [0, 2],
      [1, 5],
    ],
  );
  assert.deepEqual([[...value.negative.indexes], [...value.negative.counts]], [[5], [1]]);
  // Buckets 510 to 513 of scale 9 are 256 to 257 of schema 8.
  const fine = valueOf(
    exponential({
      count: '4',
      scale: 9,
      zeroThreshold: 0.5,
      positive: { offset: 510, bucketCounts: [1, 1, 1, 1] },
    }),
  );
  assert.deepEqual([fine.schema, fine.zeroThreshold], [8, 0.5]);
  assert.deepEqual(
    [[...fine.positive.indexes], [...fine.positive.counts]],
    [
      [256, 257],
      [2, 2],
    ],
  );
  const delta = valueOf(exponential({ count: '6', scale: 3, positive }, 1), { storesDeltas: true });
  assert.equal(delta.hint, 3);
  for (const [point, problem] of [
    [
      { count: '1', scale: -5, positive: { bucketCounts: ['1'] } },
      /schema that is not -53 or from -4 to 8: -5/,
    ],
    [{ count: '7', positive }, /6 observations in its buckets, count 7/],
    [{ count: '9007199254740993' }, /count: beyond 2\^52/],
  ] as const) {
    const { part } = onlyPart(exponential(point));
    assert.deepEqual([part.rows.histograms, part.refusedCount], [null, 1]);
    assert.match(part.problems[0]!, problem);
  }
});

test('a summary is its quantiles, sum and count', () => {
  const point = {
    ...time,
    count: '4',
    sum: 2,
    quantileValues: [
      { quantile: 0.5, value: 1 },
      { quantile: 0.99, value: 3 },
    ],
  };
  assert.deepEqual(samplesOf(bodyOf([{ name: 's', summary: { dataPoints: [point] } }])), [
    's_count 4',
    's_sum 2',
    's,quantile=0.5 1',
    's,quantile=0.99 3',
  ]);
});

test('a point without a recorded value ends its series', () => {
  const flags = { ...time, flags: 1 };
  const bounds = { explicitBounds: [1], bucketCounts: ['0', '0'] };
  const body = bodyOf([
    { name: 'g', gauge: { dataPoints: [flags] } },
    {
      name: 'h',
      histogram: { aggregationTemporality: 2, dataPoints: [{ ...flags, ...bounds, sum: 0 }] },
    },
    { name: 'e', exponentialHistogram: { aggregationTemporality: 2, dataPoints: [flags] } },
  ]);
  const { part } = onlyPart(body);
  const { values, histograms, rowCount } = part.rows;
  const bits = new BigUint64Array(values.slice().buffer);
  assert.deepEqual([rowCount, part.refusedCount], [5, 0]);
  for (const each of bits) assert.equal(each, staleBits);
  assert.deepEqual(
    histograms!.valueBytes.slice(0, histograms!.valueEnds[0]),
    new Uint8Array(staleHistogram),
  );
});

test('points that say nothing or that nobody can place are refused, each by its reason', () => {
  const body = bodyOf([
    gauge('timeless', { timeUnixNano: '0' }),
    { name: 'empty', gauge: { dataPoints: [time] } },
    { name: 'unspecified', sum: { dataPoints: [{ ...time, asInt: '1' }] } },
    { name: '...', gauge: { dataPoints: [{ ...time, asInt: '1' }] } },
    gauge('unnamed', { attributes: attributes({ '': 'x' }) }),
    gauge('good', {}),
  ]);
  const { part } = onlyPart(body);
  assert.deepEqual([part.rows.rowCount, part.pointCount, part.refusedCount], [1, 6, 5]);
  assert.deepEqual(part.problems, [
    'metric timeless: time_unix_nano: not set',
    'metric empty: a point has no value',
    'metric unspecified: aggregation_temporality: neither delta nor cumulative: 0',
    'metric ...: name: no metric can have it: "..."',
    'metric unnamed: attributes: no label can have the name of the key: ""',
  ]);
});

test('series that the decoder has forgotten meanwhile are made again', () => {
  const { decoder, reader } = openReader({}, false, 2 << 20);
  const bodyFrom = (first: number): Uint8Array =>
    bodyOf([
      {
        name: 'g',
        gauge: {
          dataPoints: Array.from({ length: 250 }, (_, i) => ({
            ...time,
            asInt: String(first + i),
            attributes: attributes({ i: String(first + i), filler: 'x'.repeat(200) }),
          })),
        },
      },
    ]);
  for (let round = 0; round < 2; round++) {
    for (let first = 0; first < 20_000; first += 250) {
      const part = reader.open(bodyFrom(first)).next();
      assert.ok(part !== null && part !== 'unchecked');
      for (let row = 0; row < part.rows.rowCount; row++) {
        const slot: number = part.rows.slots[row]!;
        assert.equal(part.rows.generations[row], decoder.generation[slot]);
        const index = decodeTags(decoder.tags(slot)).find(({ name }) => name === 'i')!.value;
        assert.equal(Number(index), part.rows.values[row]);
      }
    }
  }
  assert.ok(decoder.seriesCount < 20_000);
});

test('of points whose series are known, some may be of forgotten ones: all become rows, in their order', () => {
  const { decoder, reader } = openReader({}, false, 2 << 20, 64 << 20);
  const resource = { 'service.name': 's', 'host.name': 'h' };
  const rowsOf = (indexes: readonly number[], stepSeconds: number): string[] => {
    const dataPoints = indexes.map((index, i) => ({
      timeUnixNano: nanos(now + i * stepSeconds * 1000),
      asInt: String(index),
      attributes: attributes({ i: String(index), filler: 'x'.repeat(200) }),
    }));
    const part = reader.open(bodyOf([{ name: 'g', gauge: { dataPoints } }], resource)).next();
    assert.ok(part !== null && part !== 'unchecked');
    const { generations, rowCount, slots, timestamps, values } = part.rows;
    return Array.from({ length: rowCount }, (_, row) => {
      const slot: number = slots[row]!;
      assert.equal(generations[row], decoder.generation[slot]);
      const tags = decodeTags(decoder.tags(slot));
      const index = tags.find(({ name }) => name === 'i')?.value ?? 'target';
      const seconds = (Number(timestamps[row]) - now) / 1000;
      return `${index} ${values[row]} at ${seconds}`;
    });
  };
  const all = Array.from({ length: 100 }, (_, index) => index);
  const kept = all.slice(0, 10);
  rowsOf(all, 0);
  for (let first = 100; first < 20_000; first += 200) {
    rowsOf(kept, 0);
    rowsOf(
      Array.from({ length: 200 }, (_, i) => first + i),
      0,
    );
  }
  assert.ok(decoder.seriesCount < 15_000);
  const mixed = [...kept, 60, 61, 3, 62, 4];
  const expected = mixed.map((index, i) => `${index} ${index} at ${i * 20}`);
  assert.deepEqual(rowsOf(mixed, 20), [
    ...expected,
    ...['target 1 at 0', 'target 1 at 150', 'target 1 at 280'],
  ]);
});

test('attributes that do not stand one after the other are all of their series', () => {
  const { decoder, reader } = openReader();
  const wireOf = (parts: readonly Uint8Array[]): Uint8Array => Buffer.concat(parts);
  const field = (number: number, bytes: Uint8Array): Uint8Array => {
    const length =
      bytes.length < 128 ? [bytes.length] : [(bytes.length % 128) | 128, bytes.length >> 7];
    return wireOf([Uint8Array.of((number << 3) | 2, ...length), bytes]);
  };
  const attribute = (key: string): Uint8Array =>
    field(7, wireOf([field(1, Buffer.from(key)), field(2, field(1, Buffer.from('v')))]));
  const timeField = Uint8Array.of((3 << 3) | 1, 0, 0, 0, 0, 0, 0, 0, 0x17);
  const intField = Uint8Array.of((6 << 3) | 1, 5, 0, 0, 0, 0, 0, 0, 0);
  const points = [
    [attribute('a'), timeField, intField],
    [attribute('b'), timeField, intField],
    [attribute('a'), timeField, attribute('b'), intField],
    [attribute('a'), timeField, intField, attribute('b')],
  ].map((parts) => field(1, wireOf(parts)));
  const metric = wireOf([field(1, Buffer.from('g')), field(5, wireOf(points))]);
  const body = field(1, field(2, field(2, metric)));
  for (let round = 0; round < 2; round++) {
    const part = reader.open(body).next();
    assert.ok(part !== null && part !== 'unchecked');
    const names = Array.from(part.rows.slots.subarray(0, part.rows.rowCount), (slot) =>
      nameOf(decoder, slot),
    );
    assert.deepEqual(names, ['g,a=v', 'g,b=v', 'g,a=v,b=v', 'g,a=v,b=v']);
  }
});

/** Typed rows of bodies, histograms and exemplars, and what else comes beside samples: metadata, start times. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags } from '#lib/tags.ts';
import { type BadHistogram, WriteDecoder, type WriteDecoderMetadata } from './write_decoder.ts';
import { histogramsMax } from './core.ts';
import { WriteDecoderTwin } from './write_decoder_twin.ts';
import { encodeRemoteWrite, encodeRemoteWriteV2 } from './remote_write_testing.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { exemplarNanos, exemplarOfValue } from '../typed/exemplar.ts';
import { histogramOfValue, staleHistogram } from '../typed/histogram.ts';
import { customHistogramValues, histogramValues } from '../typed/samples_testing.ts';
import { encodeSnappy } from './snappy.ts';
import { options, cores, tag, up } from './write_decoder_testing.ts';

for (const [name, makeCore] of cores) {
  const makeWriteDecoder = (): WriteDecoder => new WriteDecoder(options, makeCore());

  test(`${name}: exemplars come as typed rows of their series, bad ones with the reason`, () => {
    const decoder = makeWriteDecoder();
    const trace = [tag('trace_id', 'äö'), tag('span_id', '1')];
    const series = [
      {
        tags: up,
        samples: [{ timestampMillis: 1, value: 1 }],
        exemplars: [
          { labels: trace, value: 0.25, timestampMillis: 1_700_000_000_123 },
          { labels: [tag('a', 'ä'.repeat(128))], value: 1, timestampMillis: 5 },
          { labels: [], value: 0, timestampMillis: -5 },
          { labels: [], value: 0, timestampMillis: 10_000_000_000_000 },
        ],
      },
      {
        tags: [tag('__name__', 'exemplars_alone')],
        samples: [],
        exemplars: [{ labels: [tag('a', 'ä'.repeat(127))], value: 1, timestampMillis: 5 }],
      },
    ];
    for (const version of [1, 2] as const) {
      const encode = version === 1 ? encodeRemoteWrite : encodeRemoteWriteV2;
      const { rowCount, slots, exemplars } = decoder.remoteWrite(encode(series), version);
      assert.equal(rowCount, 1);
      const found = exemplars!;
      assert.deepEqual([found.rowCount, found.badCount, found.leftOutCount], [3, 1, 1]);
      assert.match(found.bad[0]!.problem, /more than 128 characters/);
      assert.equal(found.slots[0], slots[0]);
      const values = [...found.valueEnds].map((end, row) =>
        found.valueBytes.slice(row === 0 ? 0 : found.valueEnds[row - 1]!, end),
      );
      const first = { value: 0.25, labels: [tag('span_id', '1'), tag('trace_id', 'äö')] };
      assert.deepEqual(exemplarOfValue(values[0]!), first);
      assert.deepEqual(exemplarOfValue(values[1]!), { value: 0, labels: [] });
      assert.equal(found.timestamps[0], exemplarNanos(1_700_000_000_123n, values[0]!));
      assert.equal(found.timestamps[1]! / 1_000_000n, -4n, 'below the millisecond is a hash');
      const tags = decodeTags(decoder.tags(found.slots[2]!));
      assert.deepEqual(tags, [tag('__name__', 'exemplars_alone')]);
    }
  });

  test(`${name}: metadata comes with its texts`, () => {
    const decoder = makeWriteDecoder();
    const said = { type: 1, help: 'How many. Ä', unit: 'requests' };
    const families = [{ name: 'requests', ...said }];
    const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
    const of = (metadata: WriteDecoderMetadata | null): unknown[] => [
      metadata!.count,
      metadata!.type(0),
      textOf(metadata!.help(0)),
      textOf(metadata!.unit(0)),
    ];
    const wanted = [1, 1, 'How many. Ä', 'requests'];
    const first = decoder.remoteWrite(encodeRemoteWrite([], families)).metadata;
    assert.deepEqual(of(first), wanted);
    assert.equal(textOf(first!.name(0)), 'requests');
    const hash = first!.hash(0);
    assert.equal(decoder.remoteWrite(encodeRemoteWrite([], families)).metadata!.hash(0), hash);
    const tags = [tag('__name__', 'requests_total')];
    const body = encodeRemoteWriteV2([{ tags, samples: [], metadata: said }]);
    const { metadata, exemplars, rowCount } = decoder.remoteWrite(body, 2);
    assert.deepEqual(of(metadata), wanted);
    assert.deepEqual(decodeTags(decoder.tags(metadata!.slot(0))), tags);
    assert.deepEqual([rowCount, exemplars], [0, null]);
  });
  test(`${name}: type and unit of version 2 become labels where that is asked for`, () => {
    const core = name === 'twin' ? new WriteDecoderTwin(true) : undefined;
    const decoder = new WriteDecoder({ ...options, typeAndUnitLabels: true }, core);
    const tags = [tag('__name__', 'x'), tag('job', 'a')];
    const tagsOf = (metadata: object | null, own = tags): string => {
      const samples = [{ timestampMillis: 1, value: 1 }];
      const said =
        metadata === null ? {} : { metadata: { type: 0, help: '', unit: '', ...metadata } };
      const body = encodeRemoteWriteV2([{ tags: own, samples, ...said }]);
      const { slots } = decoder.remoteWrite(body, 2);
      return decodeTags(decoder.tags(slots[0]!))
        .map((one) => `${one.name}=${one.value}`)
        .join(' ');
    };
    const own = [tag('__type__', 'gauge'), tag('__unit__', 'metres'), ...tags];
    assert.equal(tagsOf({ type: 1 }), '__name__=x __type__=counter job=a');
    assert.equal(tagsOf({ unit: 'bytes' }), '__name__=x __unit__=bytes job=a');
    const both = '__name__=x __type__=stateset __unit__=bytes job=a';
    assert.equal(tagsOf({ type: 7, unit: 'bytes' }), both);
    assert.equal(tagsOf({ type: 7, unit: 'bytes' }, own), both, 'metadata come first');
    assert.equal(tagsOf({ type: 2, help: 'Help.' }, own), '__name__=x __type__=gauge job=a');
    const asSaid = '__name__=x __type__=gauge __unit__=metres job=a';
    assert.equal(tagsOf(null, own), asSaid);
    assert.equal(tagsOf({ type: 99, help: 'Help.' }, own), asSaid);
    const many = Array.from({ length: 1_023 }, (_, i) => tag(`a${i}`, 'b'));
    const most = [tag('__name__', 'x'), ...many];
    assert.notEqual(tagsOf(null, most), '');
    assert.equal(tagsOf({ type: 1 }, most), '', 'one too many');
  });

  test(`${name}: native histograms become typed rows, and bad ones are named`, () => {
    const decoder = makeWriteDecoder();
    const message = (...bytes: number[]): number[] => [0x22, bytes.length, ...bytes];
    const whole = message(
      ...[0x08, 7], // count
      ...[0x19, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f], // sum 1.5
      ...[0x20, 6], // schema 3
      ...[0x30, 2], // zero count
      ...[0x5a, 4, 0x08, 3, 0x10, 3], // 3 buckets from -2 on
      ...[0x62, 3, 4, 3, 4], // 2, 2 - 2, 0 + 2
      ...[0x42, 2, 0x10, 1, 0x4a, 1, 2], // one of 1
      ...[0x78, 9], // time
    );
    const good = whole.map((byte, i) => (i === whole.indexOf(0x62) + 3 ? 3 : byte));
    const bad = message(0x08, 5, 0x78, 10);
    const labels = [0x0a, 7, 0x0a, 1, 0x61, 0x12, 2, 0x62, 0x63];
    const series = [...labels, ...good, ...bad, ...message(0x78, 11)];
    const { histograms, rowCount } = decoder.remoteWrite(
      encodeSnappy(new Uint8Array([0x0a, series.length, ...series])),
    );
    assert.equal(rowCount, 0);
    assert.ok(histograms !== null);
    const { valueEnds, valueBytes } = histograms;
    assert.deepEqual([...histograms.timestamps], [9n, 11n]);
    assert.equal(histograms.startNanos, null);
    const [first] = valueEnds;
    const { schema, count, zeroCount, positive, negative } = histogramOfValue(
      valueBytes.slice(0, first),
    );
    assert.deepEqual([schema, count, zeroCount], [3, 7, 2]);
    assert.deepEqual(
      [[...positive.indexes], [...positive.counts]],
      [
        [-2, 0],
        [2, 2],
      ],
    );
    assert.deepEqual([[...negative.indexes], [...negative.counts]], [[0], [1]]);
    assert.equal(histogramOfValue(valueBytes.slice(first, valueEnds[1])).count, 0);
    assert.equal(histograms.badCount, 1);
    const [{ slot, timestampMillis, problem }] = histograms.bad as readonly [BadHistogram];
    assert.equal(timestampMillis, 10n);
    assert.equal(problem, 'histogram has 0 observations in its buckets, count 5');
    assert.equal(slot, histograms.slots[0]);
    assert.deepEqual(decodeTags(decoder.tags(slot)), [{ name: 'a', value: 'bc' }]);
  });
}

test('start times of samples are those of their rows, and of no other body', () => {
  const decoder = new WriteDecoder(options);
  const body = (starts: readonly (number | undefined)[]) =>
    encodeRemoteWriteV2([
      {
        tags: up,
        samples: starts.map((startMillis, i) => ({
          timestampMillis: 1_700_000_000_000 + i,
          value: i,
          ...(startMillis === undefined ? {} : { startMillis }),
        })),
      },
    ]);
  const startsOf = (starts: readonly (number | undefined)[]): bigint[] | null => {
    const found = decoder.remoteWrite(body(starts), 2).startNanos;
    return found === null ? null : [...found];
  };
  assert.equal(startsOf([undefined, undefined]), null);
  assert.deepEqual(startsOf([undefined, 1_600_000_000_000, undefined]), [
    0n,
    1_600_000_000_000_000_000n,
    0n,
  ]);
  // Nanoseconds do not say such a time.
  assert.deepEqual(startsOf([5, 2 ** 62]), [5_000_000n, 0n]);
  assert.equal(startsOf([undefined, undefined]), null);
  assert.equal(
    decoder.remoteWrite(encodeRemoteWrite([{ tags: up, samples: [] }])).startNanos,
    null,
  );
});

test('histograms of all kinds come as Prometheus sends them, with their start times', () => {
  const numbers = new SeededNumbers(7);
  const values = [
    ...histogramValues(numbers, 40, { perRow: 300, schema: 3 }),
    ...histogramValues(numbers, 40, { perRow: 300, schema: 8, isGauge: true }),
    ...histogramValues(numbers, 40, { perRow: 300, schema: -2, scale: 1 / 3 }),
    ...customHistogramValues(numbers, 40),
    staleHistogram,
  ];
  const histograms = values.map((value, i) => ({
    timestampMillis: 1_700_000_000_000 + i,
    startMillis: i % 2 === 0 ? 0 : 1_600_000_000_000,
    histogram: histogramOfValue(value),
  }));
  for (const version of [1, 2] as const) {
    const encode = version === 1 ? encodeRemoteWrite : encodeRemoteWriteV2;
    const samples = [{ timestampMillis: 1, value: 1 }];
    const decoder = new WriteDecoder(options);
    const rows = decoder.remoteWrite(encode([{ tags: up, samples, histograms }]), version);
    assert.equal(rows.rowCount, 1);
    const { valueEnds, valueBytes, startNanos, badCount } = rows.histograms!;
    assert.equal(badCount, 0);
    const found = Array.from(valueEnds, (end, i) => valueBytes.slice(valueEnds[i - 1] ?? 0, end));
    assert.deepEqual(
      found.map((value) => Buffer.from(value).toString('hex')),
      values.map((value) => Buffer.from(value).toString('hex')),
    );
    assert.equal(startNanos?.[1] ?? null, version === 1 ? null : 1_600_000_000_000_000_000n);
  }
});

test('what is wrong with a histogram of a million buckets takes no time to say', () => {
  const bytes: number[] = [];
  const length = (value: number): number[] =>
    value < 128 ? [value] : [(value & 127) | 128, ...length(value >> 7)];
  const deltas = new Array<number>(1_000_000).fill(2);
  const message = [[0x62], length(deltas.length), deltas].flat();
  const series = [[0x22], length(message.length), message].flat();
  bytes.push(0x0a, ...length(series.length));
  const body = encodeSnappy(Uint8Array.from([bytes, series].flat()));
  const { histograms } = new WriteDecoder(options).remoteWrite(body);
  assert.equal(histograms!.rowCount, 0);
  assert.match(histograms!.bad[0]!.problem, /^histogram of 1000004 bytes breaks a rule/);
});

test('counts of 2^63 and more are no counts, and none wraps to zero', () => {
  const varint = (value: bigint): number[] =>
    value < 128n ? [Number(value)] : [Number(value & 127n) | 128, ...varint(value >> 7n)];
  const zigzag = (value: bigint): number[] =>
    varint(BigInt.asUintN(64, (value << 1n) ^ (value >> 63n)));
  const largest = 2n ** 63n - 1n;
  const deltas = [largest, 0n, 2n - largest].flatMap(zigzag);
  // Three buckets that are one of schema 8, and 2^64 together.
  const wraps = [0x20, 20, 0x5a, 4, 8, 2, 16, 3, 0x62, deltas.length, ...deltas];
  const beyond = [0x08, ...varint(2n ** 63n), 0x30, ...varint(2n ** 63n)];
  const most = [0x08, ...varint(largest), 0x30, ...varint(largest)];
  const series = [wraps, beyond, most].flatMap((message) => [0x22, message.length, ...message]);
  const body = encodeSnappy(Uint8Array.from([0x0a, series.length, ...series]));
  for (const core of [undefined, new WriteDecoderTwin()]) {
    const { histograms } = new WriteDecoder(options, core).remoteWrite(body);
    assert.equal(histograms!.badCount, 2);
    for (const { problem } of histograms!.bad) assert.match(problem, /counts beyond 2\^63/);
    const { count } = histogramOfValue(histograms!.valueBytes.slice(0, histograms!.valueEnds[0]));
    assert.equal(count, Number(largest));
  }
});

test('a body of more histograms than there is room for is refused, and nothing of it is kept', () => {
  const empty = [0x22, 0];
  const series = Array.from({ length: histogramsMax + 1 }, () => empty).flat();
  const length: number[] = [];
  for (let rest = series.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest < 128) break;
  }
  const decoder = new WriteDecoder(options);
  const body = encodeSnappy(Uint8Array.from([[0x0a], length, series].flat()));
  assert.throws(() => decoder.remoteWrite(body), {
    code: 'BAD_REQUEST',
    message: /more than 262144 native histograms/,
  });
  assert.equal(decoder.seriesCount, 0);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { murmur3 } from '#lib/hashing/hash.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { pickOf, randomOf } from '#test/sim/mutate.ts';
import { decodeTags, encodeTags, type Tag, tagsProblem } from '#lib/tags.ts';
import { BatchBuilder, readBatch } from '../batch/batch.ts';
import {
  type BadHistogram,
  type SeriesVerdict,
  WriteDecoder,
  type WriteDecoderMetadata,
  type WriteDecoderOptions,
} from './write_decoder.ts';
import { histogramsMax, type WriteDecoderCore, writeDecoderRowsMax } from './core.ts';
import { bench } from './write_decoder_bench.ts';
import { fuzz } from './write_decoder_fuzz.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from './kernel.ts';
import { WriteDecoderTwin } from './write_decoder_twin.ts';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  encodeWriteRequest,
} from './remote_write_testing.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { exemplarNanos, exemplarOfValue } from '../typed/exemplar.ts';
import { histogramOfValue, staleHistogram } from '../typed/histogram.ts';
import { customHistogramValues, histogramValues } from '../typed/samples_testing.ts';
import { encodeSnappy } from './snappy.ts';

function verdictOf(tags: Uint8Array): SeriesVerdict {
  const decoded = decodeTags(tags);
  return {
    idScheme: idSchemeCode.quoted,
    explicitId: new Uint8Array(0),
    idHash: murmur3(Buffer.from(idOfTags(decoded, 'quoted'))),
    problem: tagsProblem(decoded),
  };
}

const random = {
  u32: () => 0x1234_5678,
  bytes: (length: number) => new Uint8Array(length).fill(7),
  fraction: () => 0.5,
};
const options: WriteDecoderOptions = { random, memoryBytesMax: 64 * 1024 * 1024, verdictOf };

const cores: [name: string, make: () => WriteDecoderCore][] = [
  ['twin', () => new WriteDecoderTwin()],
  ['kernel', () => new WriteDecoderKernel(random, options.memoryBytesMax)],
];

const tag = (name: string, value: string): Tag => ({ name, value });
const up = [tag('__name__', 'up'), tag('instance', 'a:9100'), tag('job', 'node')];

function bitsOf(values: Float64Array): bigint[] {
  return [...new BigUint64Array(values.slice().buffer)];
}

for (const [name, makeCore] of cores) {
  const makeWriteDecoder = (): WriteDecoder => new WriteDecoder(options, makeCore());

  test(`${name}: remoteWrite() gives a row for each sample of each series, in order`, () => {
    const decoder = makeWriteDecoder();
    const body = encodeRemoteWrite([
      {
        tags: up,
        samples: [
          { timestampMillis: 1_700_000_000_000, value: 1 },
          { timestampMillis: 1_700_000_015_000, value: 0.5 },
        ],
      },
      { tags: [tag('a', 'b')], samples: [{ timestampMillis: -5, value: -3 }] },
      { tags: [tag('no', 'samples')], samples: [] },
    ]);
    for (let round = 0; round < 3; round++) {
      const rows = decoder.remoteWrite(body);
      assert.equal(rows.rowCount, 3);
      assert.equal(rows.timeUnitNanos, 1_000_000);
      assert.deepEqual([...rows.timestamps], [1_700_000_000_000n, 1_700_000_015_000n, -5n]);
      assert.deepEqual([...rows.values], [1, 0.5, -3]);
      assert.equal(rows.slots[0], rows.slots[1]);
      assert.notEqual(rows.slots[0], rows.slots[2]);
      assert.deepEqual(decoder.tags(rows.slots[0]!), encodeTags(up));
      assert.deepEqual(decoder.tags(rows.slots[2]!), encodeTags([tag('a', 'b')]));
      assert.equal(decoder.seriesCount, 2);
    }
  });

  test(`${name}: a series is named, hashed and judged once it is seen`, () => {
    const decoder = makeWriteDecoder();
    const { slots } = decoder.remoteWrite(
      encodeRemoteWrite([{ tags: up, samples: [{ timestampMillis: 1, value: 1 }] }]),
    );
    const slot = slots[0]!;
    const id = '{__name__="up",instance="a:9100",job="node"}';
    assert.equal(decoder.idHash[slot], murmur3(Buffer.from(id)));
    assert.equal(decoder.idScheme(slot), idSchemeCode.quoted);
    assert.equal(decoder.refused[slot], 0);
    assert.equal(decoder.problem(slot), '');
    assert.equal(decoder.explicitId(slot).length, 0);
    assert.notEqual(decoder.generation[slot], 0);
  });

  test(`${name}: rows of other formats share the slots`, () => {
    const decoder = makeWriteDecoder();
    const first = decoder.remoteWrite(
      encodeRemoteWrite([{ tags: up, samples: [{ timestampMillis: 1, value: 1 }] }]),
    ).slots[0];
    const rows = decoder.rows([
      { tags: encodeTags(up), timestampNanos: 1_700_000_000_000_000_001n, value: -0 },
      { tags: encodeTags([tag('x', 'y')]), timestampNanos: -1n, value: 2 },
    ]);
    assert.equal(rows.timeUnitNanos, 1);
    assert.equal(rows.slots[0], first);
    assert.notEqual(rows.slots[1], first);
    assert.deepEqual([...rows.timestamps], [1_700_000_000_000_000_001n, -1n]);
    assert.ok(Object.is(rows.values[0], -0));
  });

  test(`${name}: NaN payloads and minus zero come through bit for bit`, () => {
    const decoder = makeWriteDecoder();
    const bits = [
      0x7ff0000000000002n,
      0x7ff0000000000001n,
      0xfff4000000000123n,
      0x7ff8000000000000n,
      0x8000000000000000n,
      0x7ff0000000000000n,
      0x0000000000000001n,
    ];
    const samples = bits.map((value, i) => ({ timestampMillis: i, value }));
    const body = encodeRemoteWrite([{ tags: up, samples }]);
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(bitsOf(decoder.remoteWrite(body).values), bits);
    }
  });

  test(`${name}: labels in another order or encoding are the same series`, () => {
    const decoder = makeWriteDecoder();
    const sorted = decoder.remoteWrite(
      encodeRemoteWrite([{ tags: up, samples: [{ timestampMillis: 1, value: 1 }] }]),
    ).slots[0];
    const reversed = decoder.remoteWrite(
      encodeRemoteWrite([{ tags: up.toReversed(), samples: [{ timestampMillis: 1, value: 1 }] }]),
    ).slots[0];
    assert.equal(reversed, sorted);
    const text = (value: string): number[] => [...Buffer.from(value)];
    const long = (value: string): number[] => [value.length | 0x80, 0x80, 0, ...text(value)];
    const labels = [
      // The value before the name, a long length, an unknown field, a name that a later one
      // replaces.
      [0x12, ...long('up'), 0x0a, 8, ...text('__name__')],
      [0x0a, 1, 120, 0x18, 5, 0x0a, 8, ...text('instance'), 0x12, 6, ...text('a:9100')],
      [0x0a, 3, ...text('job'), 0x12, 4, ...text('node')],
    ];
    const wireLabels = labels.flatMap((label) => [0x8a, 0, label.length, ...label]);
    const series = [0x12, 2, 0x10, 1, ...wireLabels, 0x1a, 2, 0x0a, 0];
    const body = new Uint8Array([0x0a, series.length, ...series, 0x1a, 0]);
    const rows = decoder.remoteWrite(encodeSnappy(body));
    assert.deepEqual([...rows.slots], [sorted]);
    assert.deepEqual([...rows.timestamps], [1n]);
    assert.deepEqual([...rows.values], [0]);
  });

  test(`${name}: version 2 gives the same rows of the same series`, () => {
    const decoder = makeWriteDecoder();
    const series = [
      { tags: up, samples: [{ timestampMillis: 1, value: 1 }] },
      {
        tags: [tag('__name__', 'down'), tag('job', 'node'), tag('node', 'job')],
        samples: [{ timestampMillis: 2, value: 5 }],
      },
    ];
    const [first, second] = [
      decoder.remoteWrite(encodeRemoteWrite(series)).slots.slice(),
      decoder.remoteWrite(encodeRemoteWriteV2(series.toReversed()), 2).slots.slice(),
    ];
    assert.deepEqual(second.toReversed(), first);
    const rows = decoder.remoteWrite(encodeRemoteWriteV2(series), 2);
    assert.deepEqual([...rows.timestamps], [1n, 2n]);
    assert.deepEqual([...rows.values], [1, 5]);
  });

  test(`${name}: version 2 refuses series whose references no text has, or whose names have no values`, () => {
    const decoder = makeWriteDecoder();
    const symbols = [0x22, 0, 0x22, 8, ...Buffer.from('__name__'), 0x22, 1, 98];
    const sample = [0x12, 2, 0x10, 1];
    const body = (references: number[]): Uint8Array => {
      const message = [0x0a, references.length, ...references, ...sample];
      return encodeSnappy(new Uint8Array([...symbols, 0x2a, message.length, ...message]));
    };
    assert.equal(decoder.remoteWrite(body([1, 2]), 2).rowCount, 1);
    for (const bad of [[1, 3], [1], [1, 2, 1]]) {
      const { rowCount, slots } = decoder.remoteWrite(body(bad), 2);
      assert.deepEqual([rowCount, decoder.refused[slots[0]!]], [1, 1], `${bad}`);
      assert.match(decoder.problem(slots[0]!), /not pairs of places in the symbols/);
    }
    const { firstNameless, slots } = decoder.remoteWrite(body([2, 2]), 2);
    assert.equal(decoder.problem(slots[0]!), 'series has no metric name: __name__');
    assert.deepEqual(decodeTags(firstNameless!), [tag('b', 'b')]);
    const malformed = body([1, 0x80]);
    assert.throws(() => decoder.remoteWrite(malformed, 2), { code: 'BAD_REQUEST' });
    const cutOff = encodeSnappy(new Uint8Array([...symbols, 0x2a, 5, ...sample, 0x08]));
    assert.throws(() => decoder.remoteWrite(cutOff, 2), { code: 'BAD_REQUEST' });
    assert.equal(decoder.seriesCount, 2, 'the first one without a name is kept, to be told');
  });

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

  test(`${name}: a bad series is refused with its reason, its neighbours are kept`, () => {
    const decoder = makeWriteDecoder();
    const sample = [{ timestampMillis: 1, value: 1 }];
    const good = encodeWriteRequest([{ tags: up, samples: sample }]);
    const notUtf8 = encodeWriteRequest([{ tags: [tag('bad', 'v~v')], samples: sample }]);
    notUtf8[notUtf8.indexOf(126)] = 0xff;
    const bad = encodeWriteRequest([
      { tags: [tag('x', '1'), tag('x', '2')], samples: sample },
      { tags: [tag('x', '2'), tag('x', '1')], samples: sample },
      { tags: [tag('empty', '')], samples: sample },
      { tags: [], samples: sample },
      { tags: [tag('__reserved', '1')], samples: sample },
      { tags: [tag('long', 'v'.repeat(70_000))], samples: sample },
      {
        tags: Array.from({ length: 1025 }, (_, i) => tag(`t${i}`, 'v')),
        samples: sample,
      },
    ]);
    const rows = decoder.remoteWrite(encodeSnappy(Buffer.concat([good, notUtf8, bad, good])));
    assert.equal(rows.rowCount, 10);
    assert.equal(decoder.refused[rows.slots[0]!], 0);
    assert.equal(rows.slots[9], rows.slots[0]);
    assert.equal(rows.slots[2], rows.slots[3], 'names that appear twice, in any order');
    const reasons = [...rows.slots.subarray(1, 9)].map((slot) => {
      assert.equal(decoder.refused[slot], 1);
      return decoder.problem(slot);
    });
    assert.match(reasons[0]!, /tag value is not UTF-8: "bad"/);
    assert.match(reasons[1]!, /appears twice: x/);
    assert.match(reasons[3]!, /tag value is empty: empty/);
    assert.match(reasons[4]!, /at least one tag/);
    assert.match(reasons[5]!, /reserved/);
    assert.match(reasons[6]!, /more than 1024 tags or its tags more than 65535 bytes/);
    assert.match(reasons[7]!, /more than 1024 tags/);
  });

  test(`${name}: a malformed body is refused whole and leaves nothing behind`, () => {
    const decoder = makeWriteDecoder();
    const good = encodeWriteRequest([{ tags: up, samples: [{ timestampMillis: 1, value: 1 }] }]);
    const cases: [body: Uint8Array, reason: RegExp][] = [
      [new Uint8Array(0), /length in front/],
      [new Uint8Array([0xff, 0xff, 0xff, 0xff, 0x0f]), /longer than 33554432 bytes/],
      [encodeSnappy(good).subarray(0, -1), /corrupt/],
      [encodeSnappy(good.subarray(0, -1)), /malformed/],
      [encodeSnappy(Buffer.concat([good, new Uint8Array([0x0a])])), /malformed/],
      [encodeSnappy(Buffer.concat([good, new Uint8Array([0x00, 0])])), /malformed/],
      [encodeSnappy(Buffer.concat([good, new Uint8Array([0x08, 0])])), /malformed/],
      [encodeSnappy(Buffer.concat([good, new Uint8Array([0x1b, 0x1c])])), /malformed/],
    ];
    for (const [body, reason] of cases) {
      assert.throws(() => decoder.remoteWrite(body), { code: 'BAD_REQUEST', message: reason });
      assert.equal(decoder.seriesCount, 0);
    }
    assert.equal(decoder.remoteWrite(encodeSnappy(good)).rowCount, 1);
  });

  test(`${name}: a rule that throws leaves no series without a verdict`, () => {
    let broken = true;
    const decoder = new WriteDecoder(
      {
        ...options,
        verdictOf: (tags) => {
          if (broken) throw new Error('rule is broken');
          return verdictOf(tags);
        },
      },
      makeCore(),
    );
    const body = encodeRemoteWrite([{ tags: up, samples: [{ timestampMillis: 1, value: 1 }] }]);
    assert.throws(() => decoder.remoteWrite(body), /rule is broken/);
    assert.equal(decoder.seriesCount, 0);
    broken = false;
    const slot = decoder.remoteWrite(body).slots[0]!;
    assert.notEqual(decoder.idHash[slot], 0);
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

test('the kernel equals its twin over generated and mutated bodies', () => {
  for (let seed = 1; seed <= 4; seed++) fuzz(seed, 50);
});

test('series about which there is no doubt are judged without asking the rules', () => {
  const asked: string[] = [];
  const decoder = new WriteDecoder({
    ...options,
    plainQuoted: true,
    verdictOf: (tags) => {
      asked.push(
        decodeTags(tags)
          .map(({ name, value }) => `${name}=${value}`)
          .join(),
      );
      return verdictOf(tags);
    },
  });
  const samples = [{ timestampMillis: 1, value: 1 }];
  const { slots } = decoder.remoteWrite(
    encodeRemoteWrite([
      { tags: up, samples },
      { tags: [tag('quote', 'a"b')], samples },
      { tags: [tag('plain', 'some text, 16 b!')], samples },
      { tags: [tag('__reserved', 'v')], samples },
      { tags: [tag('a', '1'), tag('a', '2')], samples },
      { tags: [tag('a', '')], samples },
    ]),
  );
  assert.deepEqual(asked.toSorted(), ['__reserved=v', 'a=', 'a=1,a=2', 'quote=a"b']);
  assert.deepEqual(
    [...slots].map((slot) => decoder.refused[slot]),
    [0, 0, 0, 1, 1, 1],
  );
  const ids = [
    '{__name__="up",instance="a:9100",job="node"}',
    '{quote="a\\"b"}',
    '{plain="some text, 16 b!"}',
  ];
  ids.forEach((id, row) => {
    assert.equal(decoder.idHash[slots[row]!], murmur3(Buffer.from(id)));
    assert.equal(decoder.idScheme(slots[row]!), idSchemeCode.quoted);
  });
});

test('a stale marker keeps its bits from the body of a scrape to the batch of a node', () => {
  const decoder = new WriteDecoder(options);
  const body = encodeRemoteWrite([
    { tags: up, samples: [{ timestampMillis: 1_700_000_000_000, value: 0x7ff0000000000002n }] },
  ]);
  const rows = decoder.remoteWrite(body);
  const builder = new BatchBuilder();
  builder.begin(1);
  const { slots, timestamps, timeUnitNanos, values } = rows;
  builder.setRows(1, slots, new Uint32Array([1]), timestamps, timeUnitNanos, values);
  const view = readBatch(builder.finish());
  assert.deepEqual(bitsOf(view.values), [0x7ff0000000000002n]);
  assert.equal(view.timestamps[0], 1_700_000_000_000n);
});

test('the benchmark of the write decoder runs', async () => {
  for (const { value } of await bench('small')) assert.ok(value > 0);
});

test('a body with more samples than a batch holds is refused', () => {
  const decoder = new WriteDecoder(options);
  const message = encodeWriteRequest([{ tags: up, samples: [] }]);
  const labels = message.subarray(2);
  const samples = Buffer.alloc((writeDecoderRowsMax + 1) * 2, new Uint8Array([0x12, 0]));
  const length = labels.length + samples.length;
  const varint = [(length & 127) | 128, ((length >> 7) & 127) | 128, ((length >> 14) & 127) | 128];
  const head = new Uint8Array([0x0a, ...varint, length >> 21]);
  const body = encodeSnappy(Buffer.concat([head, labels, samples]));
  assert.throws(() => decoder.remoteWrite(body), { message: /more than 1048576 samples/ });
  assert.equal(decoder.seriesCount, 0);
});

test('under its budget a write decoder that sees ever new series evicts old ones and keeps the used one', () => {
  const decoder = new WriteDecoder({ ...options, memoryBytesMax: writeDecoderMemoryBytesMin });
  const sample = [{ timestampMillis: 1, value: 1 }];
  const hot = { tags: up, samples: sample };
  const first = decoder.remoteWrite(encodeRemoteWrite([hot]));
  const hotSlot = first.slots[0]!;
  const hotGeneration = decoder.generation[hotSlot]!;
  const cold = [tag('n', '0'), tag('name', 'x'.repeat(200))];
  const coldRows = decoder.remoteWrite(encodeRemoteWrite([{ tags: cold, samples: sample }]));
  const coldSlot = coldRows.slots[0]!;
  const coldGeneration = decoder.generation[coldSlot]!;
  for (let scrape = 0; scrape < 60; scrape++) {
    const series = Array.from({ length: 300 }, (_, i) => ({
      tags: [tag('n', `${scrape} ${i}`), tag('name', 'x'.repeat(200))],
      samples: sample,
    }));
    const rows = decoder.remoteWrite(encodeRemoteWrite([hot, ...series]));
    assert.equal(rows.slots[0], hotSlot);
    for (let row = 1; row <= 300; row++) {
      const tags = decodeTags(decoder.tags(rows.slots[row]!));
      assert.equal(tags[0]!.value, `${scrape} ${row - 1}`);
    }
  }
  assert.equal(decoder.generation[hotSlot], hotGeneration);
  assert.notEqual(decoder.generation[coldSlot], coldGeneration);
  assert.ok(decoder.seriesCount < 8192, `bounded: ${decoder.seriesCount}`);
  const again = decoder.remoteWrite(encodeRemoteWrite([{ tags: cold, samples: sample }]));
  const { slots, rowCount } = again;
  assert.equal(rowCount, 1);
  assert.deepEqual(decoder.tags(slots[0]!), encodeTags(cold));
  assert.equal(decoder.refused[slots[0]!], 0);
});

test('a short version 2 body that names much text again and again is refused', () => {
  const decoder = new WriteDecoder(options);
  const long = tag('a', 'x'.repeat(60_000));
  const series = Array.from({ length: 2400 }, (_, i) => ({
    tags: [long],
    samples: [{ timestampMillis: i, value: 1 }],
  }));
  const body = encodeRemoteWriteV2(series);
  assert.ok(body.length < 100_000);
  assert.throws(
    () => decoder.remoteWrite(body, 2),
    /labels of all series are longer than 134217728/,
  );
  assert.equal(decoder.remoteWrite(encodeRemoteWriteV2(series.slice(0, 2000)), 2).rowCount, 2000);
});

test('a body with more series than the budget holds is refused for the lack of memory', () => {
  const decoder = new WriteDecoder({ ...options, memoryBytesMax: writeDecoderMemoryBytesMin });
  const samples = [{ timestampMillis: 1, value: 1 }];
  const series = Array.from({ length: 9000 }, (_, i) => ({
    tags: [tag('n', `${i}`), tag('name', 'x'.repeat(200))],
    samples,
  }));
  assert.throws(() => decoder.remoteWrite(encodeRemoteWrite(series)), {
    code: 'RESOURCE_EXHAUSTED',
  });
  assert.equal(decoder.seriesCount, 0);
  assert.equal(decoder.remoteWrite(encodeRemoteWrite(series.slice(0, 500))).rowCount, 500);
});

test('tables grow: fifty thousand series keep their slots', () => {
  const decoder = new WriteDecoder(options);
  const rowsOf = (start: number) =>
    Array.from({ length: 10_000 }, (_, i) => ({
      tags: encodeTags([tag('n', `${start + i}`)]),
      timestampNanos: 1n,
      value: 1,
    }));
  const slots: number[] = [];
  for (let start = 0; start < 50_000; start += 10_000)
    slots.push(...decoder.rows(rowsOf(start)).slots);
  assert.equal(new Set(slots).size, 50_000);
  assert.equal(decoder.seriesCount, 50_000);
  for (let start = 0; start < 50_000; start += 10_000) {
    assert.deepEqual([...decoder.rows(rowsOf(start)).slots], slots.slice(start, start + 10_000));
  }
});

test('room for the first series of a body is not made by evicting the last one of the body before', () => {
  // Records of 300 bytes, 873 to a segment: 48 segments are filled, and around again up to the
  // 39th.
  const perSegment = 873;
  const kernel = new WriteDecoderKernel(randomOf(pickOf(1)), 14 * 1024 * 1024);
  const value = 'x'.repeat(104);
  const bodyOf = (first: number, count: number): Uint8Array =>
    encodeRemoteWrite(
      Array.from({ length: count }, (_, i) => ({
        tags: [
          tag('__name__', 'm'),
          tag('a', 'x'.repeat(120)),
          tag('b', value + String(first + i).padStart(7, '0')),
          tag('c', 'x'.repeat(8)),
        ],
        samples: [{ timestampMillis: 1, value: 1 }],
      })),
    );
  let next = 0;
  const insert = (count: number): void => {
    assert.equal(kernel.remoteWrite(bodyOf(next, count)), count);
    next += count;
  };
  for (let segment = 0; segment < 48; segment++) insert(perSegment);
  for (let segment = 0; segment < 38; segment++) insert(437);
  const used = bodyOf(39 * perSegment, perSegment);
  let newCount = 0;
  // At most half of a segment stays when it is swept, the last of its series does not.
  for (let i = 0; i < 1000 && newCount === 0; i++) {
    kernel.remoteWrite(used);
    newCount = kernel.newSlots.length;
    insert(1);
  }
  assert.equal(newCount, perSegment - 437);
  assert.equal(kernel.remoteWrite(used), perSegment);
  assert.equal(kernel.newSlots.length, 0);
});

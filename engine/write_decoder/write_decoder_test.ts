import assert from 'node:assert/strict';
import { test } from 'node:test';
import { murmur3 } from '#lib/hashing/hash.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { pickOf, randomOf } from '#test/sim/mutate.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import { BatchBuilder, readBatch } from '../batch/batch.ts';
import { WriteDecoder } from './write_decoder.ts';
import { writeDecoderRowsMax } from './core.ts';
import { bench } from './write_decoder_bench.ts';
import { fuzz } from './write_decoder_fuzz.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from './kernel.ts';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  encodeWriteRequest,
} from './remote_write_testing.ts';
import { encodeSnappy } from './snappy.ts';
import { verdictOf, options, cores, tag, up, bitsOf } from './write_decoder_testing.ts';

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
}

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
  // Records of 312 bytes, 840 to a segment: 48 segments are filled, and around again up to the
  // 39th.
  const perSegment = 840;
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
  for (let segment = 0; segment < 38; segment++) insert(421);
  const used = bodyOf(39 * perSegment, perSegment);
  let newCount = 0;
  // At most half of a segment stays when it is swept, the last of its series does not.
  for (let i = 0; i < 1000 && newCount === 0; i++) {
    kernel.remoteWrite(used);
    newCount = kernel.newSlots.length;
    insert(1);
  }
  assert.equal(newCount, perSegment - 421);
  assert.equal(kernel.remoteWrite(used), perSegment);
  assert.equal(kernel.newSlots.length, 0);
});

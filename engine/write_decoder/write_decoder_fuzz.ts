/**
 * The write decoder kernel must equal its twin over generated and mutated bodies, and a small one
 * that evicts must give every row the tags that the body says.
 */
import assert from 'node:assert/strict';
import type { Random } from '#lib/env/env.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { type Pick, pickOf, randomOf } from '#test/sim/mutate.ts';
import { countInputs } from '#test/sim/counts.ts';
import { checkTypedValue } from '../typed/typed_value.ts';
import { exemplarOfValue } from '../typed/exemplar.ts';
import { histogramOfValue } from '../typed/histogram.ts';
import { decodeTags, encodeTags, type Tag, tagsProblem } from '#lib/tags.ts';
import { type WriteDecoderCore, type RemoteWriteVersion, unresolvedSlot } from './core.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from './kernel.ts';
import { WriteDecoderTwin } from './write_decoder_twin.ts';
import { encodeRemoteWrite } from './remote_write_testing.ts';
import { encodeSnappy } from './snappy.ts';

function varint(value: bigint, extra = 0): number[] {
  const bytes: number[] = [];
  for (; value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  bytes.push(Number(value));
  for (let i = 0; i < extra && bytes.length < 10; i++) {
    bytes[bytes.length - 1]! |= 128;
    bytes.push(0);
  }
  return bytes;
}

function field(pick: Pick, number: number, wireType: number, bytes: number[]): number[] {
  const extra = pick(20) === 0 ? 1 + pick(3) : 0;
  return [...varint(BigInt(number * 8 + wireType), extra), ...bytes];
}

function lengthField(pick: Pick, number: number, bytes: number[]): number[] {
  const extra = pick(30) === 0 ? 1 + pick(3) : 0;
  return field(pick, number, 2, [...varint(BigInt(bytes.length), extra), ...bytes]);
}

function unknownField(pick: Pick): number[] {
  const number = 5 + pick(2000);
  switch (pick(4)) {
    case 0:
      return field(pick, number, 0, varint(BigInt(pick(1_000_000))));
    case 1:
      return field(pick, number, 1, [1, 2, 3, 4, 5, 6, 7, 8]);
    case 2:
      return lengthField(
        pick,
        number,
        Array.from({ length: pick(40) }, () => pick(256)),
      );
    default:
      return field(pick, number, 5, [1, 2, 3, 4]);
  }
}

function text(pick: Pick, bytesMax: number): number[] {
  return Array.from({ length: pick(bytesMax) }, () => (pick(50) === 0 ? pick(256) : 97 + pick(3)));
}

function labelOf(pick: Pick, name: number[], value: number[]): number[] {
  const fields = [lengthField(pick, 1, name), lengthField(pick, 2, value)];
  if (pick(40) === 0) fields.reverse();
  if (pick(40) === 0) fields.push(unknownField(pick));
  if (pick(60) === 0) fields.push(lengthField(pick, 1 + pick(2), text(pick, 5)));
  if (pick(60) === 0) fields.splice(pick(2), 1);
  return lengthField(pick, 1, fields.flat());
}

function sampleOf(pick: Pick, hasStart = false): number[] {
  const bits = Array.from({ length: 8 }, () => (pick(3) === 0 ? pick(256) : 0));
  const times = [0n, 1n, 127n, 1_700_000_000_000n, 2n ** 56n, 2n ** 63n - 1n, 2n ** 64n - 1n];
  const time = times[pick(times.length)]!;
  const fields = [
    field(pick, 1, 1, bits),
    field(pick, 2, 0, varint(time, pick(15) === 0 ? pick(8) : 0)),
  ];
  if (hasStart && pick(5) === 0) fields.push(field(pick, 3, 0, varint(times[pick(times.length)]!)));
  if (pick(40) === 0) fields.reverse();
  if (pick(40) === 0) fields.push(unknownField(pick));
  if (pick(40) === 0) fields.splice(pick(2), 1);
  return lengthField(pick, 2, fields.flat());
}

/** Mostly one that can be stored, of few or many buckets, with fields in any form. */
function histogramOf(pick: Pick, number: number): number[] {
  const isFloat = pick(3) === 0;
  const isCustom = pick(4) === 0;
  const doubleBytes = (value: number): number[] => [
    ...new Uint8Array(Float64Array.of(value).buffer),
  ];
  const zigzag = (value: number): bigint =>
    BigInt.asUintN(64, BigInt(value) << 1n) ^ BigInt(value >> 31);
  const fields: number[][] = [];
  const list = (at: number, wireType: number, items: number[][]): void => {
    if (pick(6) === 0) for (const item of items) fields.push(field(pick, at, wireType, item));
    else if (items.length > 0 || pick(20) === 0) fields.push(lengthField(pick, at, items.flat()));
  };
  let total = 0;
  const side = (spansAt: number, deltasAt: number, countsAt: number): void => {
    const counts: number[] = [];
    for (let spans = pick(3); spans > 0; spans--) {
      const length = pick(10) === 0 ? 0 : 1 + pick(pick(20) === 0 ? 200 : 5);
      const isFirst = counts.length === 0;
      const offset = isCustom ? pick(2) : isFirst ? pick(20) - 10 : pick(30) === 0 ? -1 : pick(4);
      fields.push(
        lengthField(pick, spansAt, [
          ...field(pick, 1, 0, varint(zigzag(offset))),
          ...field(pick, 2, 0, varint(BigInt(length))),
        ]),
      );
      for (let i = 0; i < length; i++) counts.push(pick(3) === 0 ? 0 : pick(300));
    }
    if (pick(40) === 0) counts.push(1);
    total += counts.reduce((sum, count) => sum + count, 0);
    if (isFloat)
      list(
        countsAt,
        1,
        counts.map((count) => doubleBytes(count * (pick(60) === 0 ? -1 : 0.5))),
      );
    else {
      const deltas = counts.map((count, i) => count - (counts[i - 1] ?? 0));
      list(
        deltasAt,
        0,
        deltas.map((delta) => varint(zigzag(delta))),
      );
    }
  };
  side(11, 12, 13);
  if (!isCustom || pick(20) === 0) side(8, 9, 10);
  const zeroCount = isCustom && pick(20) > 0 ? 0 : pick(9);
  total += zeroCount;
  if (pick(40) === 0) total += 1;
  const putCount = (wholeAt: number, count: number): void => {
    if (isFloat) fields.push(field(pick, wholeAt + 1, 1, doubleBytes(count / 2)));
    else fields.push(field(pick, wholeAt, 0, varint(BigInt(count))));
  };
  if (pick(60) === 0) total = 2 ** (62 + pick(3));
  putCount(1, total);
  putCount(6, zeroCount);
  const sums = [
    doubleBytes(1.5),
    doubleBytes(Number.NaN),
    [2, 0, 0, 0, 0, 0, 0xf0, 0x7f],
    doubleBytes(0),
  ];
  fields.push(field(pick, 3, 1, sums[pick(10) === 0 ? pick(4) : 0]!));
  const schema = isCustom ? -53 : [0, 3, 8, -4, 12, 52, 60][pick(pick(5) === 0 ? 7 : 4)]!;
  fields.push(field(pick, 4, 0, varint(zigzag(schema))));
  if (!isCustom)
    fields.push(
      field(
        pick,
        5,
        1,
        doubleBytes([2 ** -128, 0, -0, -1, Number.NaN][pick(pick(10) === 0 ? 5 : 2)]!),
      ),
    );
  if (isCustom || pick(40) === 0) {
    const bounds = Array.from({ length: pick(30) }, (_, i) =>
      doubleBytes(i * (pick(60) === 0 ? -1 : 2)),
    );
    list(16, 1, bounds);
  }
  fields.push(
    field(pick, 14, 0, varint(BigInt(pick(5)))),
    field(pick, 15, 0, varint(BigInt(pick(1e9)))),
  );
  if (pick(3) === 0)
    fields.push(field(pick, 17, 0, varint([5n, 2n ** 62n, 2n ** 64n - 1n][pick(3)]!)));
  if (pick(20) === 0) fields.push(unknownField(pick));
  if (pick(10) === 0) fields.reverse();
  if (pick(20) === 0) fields.splice(pick(fields.length), 1);
  return lengthField(pick, number, fields.flat());
}

/** Labels of an exemplar: few, or too many, or what is no text. */
function exemplarTexts(pick: Pick): number[][] {
  const count = 2 * (pick(10) === 0 ? pick(140) : pick(4));
  const long = pick(8) === 0 ? 100 : pick(20) === 0 ? 600 : 12;
  const texts = Array.from({ length: count }, () => text(pick, long));
  const odd = [
    [0xf0, 0x9f, 0x8c, 0x8d],
    [0xc3, 0xa4],
    [0xed, 0xa0, 0x80],
    [0xc0, 0x80],
    [0xf4, 0x90, 0x80, 0x80],
  ];
  if (count > 0 && pick(4) === 0) texts[pick(count)] = odd[pick(odd.length)]!;
  return texts.map((each) => (pick(3) === 0 ? each : each.map((byte) => byte & 127)));
}

/** @param referenceOf of version 2; null in version 1 */
function exemplarOf(pick: Pick, referenceOf: ((text: number[]) => number) | null): number[] {
  const texts = exemplarTexts(pick);
  const fields: number[][] = [];
  if (referenceOf === null) {
    for (let i = 0; i < texts.length; i += 2) fields.push(labelOf(pick, texts[i]!, texts[i + 1]!));
  } else {
    const references = texts.map(referenceOf);
    if (pick(30) === 0) references.push(pick(2) === 0 ? 0 : 1_000_000);
    const numbers = references.map((each) => varint(BigInt(each)));
    if (pick(3) === 0) for (const number of numbers) fields.push(field(pick, 1, 0, number));
    else fields.push(lengthField(pick, 1, numbers.flat()));
  }
  const times = [0n, 1_700_000_000_000n, 2n ** 63n - 1n, 2n ** 64n - 5n];
  fields.push(
    field(pick, 2, 1, [0, 0, 0, 0, 0, 0, pick(2) * 0xf0, pick(3)]),
    field(pick, 3, 0, varint(times[pick(10) === 0 ? pick(4) : 1]!)),
  );
  if (pick(20) === 0) fields.push(unknownField(pick));
  if (pick(10) === 0) fields.reverse();
  if (pick(20) === 0) fields.splice(pick(fields.length), 1);
  return lengthField(pick, referenceOf === null ? 3 : 4, fields.flat());
}

/** Of a family, in version 1. */
function familyOf(pick: Pick): number[] {
  const fields = [
    field(pick, 1, 0, varint([0n, 1n, 7n, 99n, 2n ** 40n][pick(5)]!)),
    lengthField(pick, 2, text(pick, 20)),
    lengthField(pick, 4, text(pick, 60)),
    lengthField(pick, 5, text(pick, 9)),
  ];
  if (pick(20) === 0) fields.push(unknownField(pick));
  if (pick(10) === 0) fields.reverse();
  if (pick(5) === 0) fields.splice(pick(fields.length), 1);
  return lengthField(pick, 3, fields.flat());
}

/** Of a series, in version 2. */
function metadataOf(pick: Pick, referenceOf: (text: number[]) => number): number[] {
  const fields = [
    field(pick, 1, 0, varint([0n, 1n, 7n, 99n, 2n ** 40n][pick(5)]!)),
    field(pick, 3, 0, varint(BigInt(referenceOf(text(pick, 30))))),
    field(pick, 4, 0, varint(BigInt(pick(30) === 0 ? 5000 : referenceOf(text(pick, 4))))),
  ];
  if (pick(20) === 0) fields.push(unknownField(pick));
  while (fields.length > 0 && pick(4) === 0) fields.pop();
  return lengthField(pick, 5, fields.flat());
}

/** A pool of label lists, so that series come again, in order and out of it. */
function seriesPool(pick: Pick, size: number): [name: number[], value: number[]][][] {
  return Array.from({ length: size }, () => {
    const long = pick(10) === 0 ? 300 : 20;
    return Array.from({ length: pick(8) }, (_, i): [number[], number[]] => [
      [97 + i, ...text(pick, long)],
      text(pick, long),
    ]);
  });
}

function requestOf(
  pick: Pick,
  pool: [number[], number[]][][],
  seriesCount: number,
  inOrder: boolean,
): number[] {
  const request: number[][] = [];
  let next = pick(pool.length);
  // Whole stretches out of order switch prediction off.
  const jumpsOneIn = inOrder ? 4 : 1;
  for (let i = 0; i < seriesCount; i++) {
    next = pick(jumpsOneIn) === 0 ? pick(pool.length) : (next + 1) % pool.length;
    const fields = pool[next]!.map(([name, value]) => labelOf(pick, name, value));
    if (pick(15) === 0) fields.reverse();
    for (let n = pick(12) === 0 ? pick(4) : 1; n > 0; n--) {
      fields.push(pick(4) === 0 ? histogramOf(pick, 4) : sampleOf(pick));
    }
    if (pick(15) === 0) fields.push(unknownField(pick));
    if (pick(6) === 0) fields.push(exemplarOf(pick, null));
    if (pick(60) === 0) fields.push(lengthField(pick, 3, text(pick, 9)));
    if (pick(20) === 0) fields.unshift(fields.pop()!);
    request.push(lengthField(pick, 1, fields.flat()));
    if (pick(20) === 0) request.push(familyOf(pick), unknownField(pick));
  }
  return request.flat();
}

/** The same series as a request of version 2, its texts in a table. */
function requestV2Of(
  pick: Pick,
  pool: [number[], number[]][][],
  seriesCount: number,
  inOrder: boolean,
): number[] {
  const symbols: number[][] = [[]];
  const referenceOf = (symbol: number[]): number => {
    const known = pick(30) === 0 ? -1 : symbols.findIndex((other) => equalTexts(other, symbol));
    return known >= 0 ? known : symbols.push(symbol) - 1;
  };
  const messages: number[][] = [];
  const hasStarts = pick(3) === 0;
  let next = pick(pool.length);
  const jumpsOneIn = inOrder ? 4 : 1;
  for (let i = 0; i < seriesCount; i++) {
    next = pick(jumpsOneIn) === 0 ? pick(pool.length) : (next + 1) % pool.length;
    const references = pool[next]!.flatMap((label) => label.map(referenceOf));
    if (pick(100) === 0) references.push(pick(2 * symbols.length));
    if (pick(4) > 0) references.push(referenceOf(nameTag), referenceOf(text(pick, 9)));
    messages.push(lengthField(pick, 5, seriesV2Of(pick, references, hasStarts, referenceOf)));
    if (pick(30) === 0) messages.push(unknownField(pick));
  }
  const table = symbols.map((symbol) => lengthField(pick, 4, symbol));
  return [...(pick(10) === 0 ? [...messages, ...table] : [...table, ...messages])].flat();
}

const nameTag = [...Buffer.from('__name__')];

function seriesV2Of(
  pick: Pick,
  references: number[],
  hasStarts: boolean,
  referenceOf: (text: number[]) => number,
): number[] {
  const fields: number[][] = [];
  const numbers = references.map((reference) => varint(BigInt(reference), pick(40) === 0 ? 2 : 0));
  const cut = pick(15) === 0 ? pick(numbers.length + 1) : numbers.length;
  fields.push(lengthField(pick, 1, numbers.slice(0, cut).flat()));
  for (const number of numbers.slice(cut)) fields.push(field(pick, 1, 0, number));
  for (let n = pick(12) === 0 ? pick(4) : 1; n > 0; n--) {
    fields.push(pick(4) === 0 ? histogramOf(pick, 3) : sampleOf(pick, hasStarts));
  }
  if (pick(15) === 0) fields.push(unknownField(pick));
  if (pick(6) === 0) fields.push(exemplarOf(pick, referenceOf));
  if (pick(3) === 0) fields.push(metadataOf(pick, referenceOf));
  if (pick(60) === 0) fields.push(lengthField(pick, 4 + pick(2), text(pick, 9)));
  if (pick(20) === 0) fields.unshift(fields.pop()!);
  return fields.flat();
}

function equalTexts(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

function mutate(pick: Pick, bytes: Uint8Array): Uint8Array {
  const mutated = new Uint8Array(bytes);
  for (let i = 1 + pick(4); i > 0 && mutated.length > 0; i--) {
    const at = pick(mutated.length);
    const choice = pick(4);
    if (choice === 0) mutated[at] = pick(256);
    else if (choice === 1) mutated[at]! ^= 1 << pick(8);
    else if (choice === 2) mutated[at] = [0, 127, 128, 255][pick(4)]!;
    else return mutated.slice(0, at);
  }
  return mutated;
}

/** What a body came to, as text that two cores must agree on. */
function outcomeOf(
  core: WriteDecoderCore,
  body: Uint8Array,
  version: RemoteWriteVersion,
): string[] {
  const outcome = core.remoteWrite(body, version);
  if (outcome < 0) return [`problem ${outcome}`];
  // Before tags are asked for, which take the place of the body.
  const lines = [...histogramLines(core), ...noteLines(core)];
  const slots = core.rowSlots;
  const times = core.rowTimestamps;
  const values = core.rowValues.slice();
  const bits = new BigUint64Array(values.buffer);
  const starts = core.rowStartNanos?.slice();
  const all = core.tagsOfAll(slots);
  const named = [...slots, ...core.histograms.slots, ...core.exemplars.slots];
  assert.equal(
    core.hasOversizeRows,
    named.some((slot) => slot <= unresolvedSlot),
  );
  assert.deepEqual(
    core.rowGenerations,
    slots.map((slot) => core.generation[slot]!),
  );
  for (let row = 0; row < outcome; row++) {
    const slot = slots[row]!;
    const tags = Buffer.from(core.tags(slot)).toString('latin1');
    const again = all.tags.subarray(row === 0 ? 0 : all.ends[row - 1]!, all.ends[row]!);
    assert.equal(Buffer.from(again).toString('latin1'), tags);
    assert.equal(core.tagBytes(slot), tags.length);
    lines.push(`${core.refused[slot]} ${tags} ${times[row]} ${bits[row]} ${starts?.[row]}`);
  }
  return lines;
}

/** The histograms of the last body; what is wrong with a bad one. */
export function histogramLines(core: WriteDecoderCore): string[] {
  const { count, slots, timestampsMillis, startNanos, valueEnds, valueBytes } = core.histograms;
  const values = Array.from({ length: count }, (_, row) => {
    const value = valueBytes.slice(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
    if (value.length === 0) return core.histogramProblem(row);
    checkTypedValue(value);
    const { sumBits } = histogramOfValue(value);
    return `${sumBits} ${Buffer.from(value).toString('hex')}`;
  });
  return values.map((value, row) => {
    const slot = slots[row]!;
    const tags = Buffer.from(core.tags(slot)).toString('latin1');
    return `histogram ${core.refused[slot]} ${tags} ${timestampsMillis[row]} ${startNanos[row]} ${value}`;
  });
}

/** Exemplars and metadata of the last body. */
export function noteLines(core: WriteDecoderCore): string[] {
  const { exemplars, metadata } = core;
  const texts = Array.from({ length: metadata.count }, (_, row) => {
    assert.ok(Number.isSafeInteger(metadata.hash(row)));
    const parts = [metadata.name(row), metadata.help(row), metadata.unit(row)];
    const shown = parts.map((part) => Buffer.from(part).toString('latin1')).join('|');
    return `${metadata.type(row)} ${metadata.isUnresolved(row)} ${shown}`;
  });
  const values = Array.from({ length: exemplars.count }, (_, row) => {
    const { valueEnds, valueBytes } = exemplars;
    const value = valueBytes.slice(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
    assert.equal(value.length === 0, exemplars.problems[row] !== 0);
    if (value.length > 0) {
      checkTypedValue(value);
      exemplarOfValue(value);
    }
    return Buffer.from(value).toString('hex');
  });
  const seriesOf = (slot: number): string =>
    `${core.refused[slot]} ${Buffer.from(core.tags(slot)).toString('latin1')}`;
  const first = core.firstNamelessSlot;
  return [
    `nameless ${first > 0} ${Buffer.from(core.tags(first)).toString('latin1')}`,
    ...values.map(
      (value, row) =>
        `exemplar ${seriesOf(exemplars.slots[row]!)} ${exemplars.generations[row] === core.generation[exemplars.slots[row]!]} ${exemplars.timestampNanos[row]} ${exemplars.problems[row]} ${value}`,
    ),
    ...texts.map((each, row) => `metadata ${seriesOf(metadata.slot(row))} ${each}`),
  ];
}

/**
 * @param size number of bodies
 */
export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  const random = randomOf(pick);
  const hasTypeAndUnit = pick(2) === 0;
  const twin = new WriteDecoderTwin(hasTypeAndUnit);
  const kernel = new WriteDecoderKernel(random, writeDecoderMemoryBytesMin, hasTypeAndUnit);
  const pool = seriesPool(pick, 60);
  for (let i = 0; i < size; i++) {
    const version = pick(3) === 0 ? 2 : 1;
    countInputs('remote write');
    const make = version === 2 ? requestV2Of : requestOf;
    const raw = new Uint8Array(make(pick, pool, pick(40), i % 40 < 20));
    const choice = pick(3);
    let body: Uint8Array = encodeSnappy(choice === 1 ? mutate(pick, raw) : raw);
    if (choice === 2) body = mutate(pick, body);
    const [ofKernel, ofTwin] = [kernel, twin].map((core) => outcomeOf(core, body, version));
    assert.deepEqual(ofKernel, ofTwin, `seed ${seed}, body ${i}, version ${version}`);
  }
  fuzzEviction(pick, random, size);
  fuzzVerdicts(pick, random, size);
}

/** What the kernel judges itself, the rules would judge alike. */
function fuzzVerdicts(pick: Pick, random: Random, size: number): void {
  const kernel = new WriteDecoderKernel(random, writeDecoderMemoryBytesMin);
  const names = [
    'a',
    'job',
    '__name__',
    '__name_',
    '_x',
    '9a',
    'a9',
    'a-b',
    'a.b',
    '__',
    '',
    'Z_z0',
  ];
  const values = [
    '',
    'v',
    'a b~',
    'x'.repeat(15),
    'y'.repeat(16),
    'z'.repeat(40),
    'q"',
    'b\\',
    'é',
    '\n',
  ];
  for (let i = 0; i < size; i++) {
    const tags = Array.from({ length: pick(4) }, () => ({
      name: names[pick(names.length)]!,
      value: values[pick(values.length)]! + (pick(3) === 0 ? pick(1000) : ''),
    }));
    kernel.beginRows();
    kernel.addRow(encodeTags(tags), 1n, 1);
    if (kernel.newSlots.length === 0 || kernel.judgePlain(true) === 1) continue;
    const slot = kernel.rowSlots[0]!;
    assert.equal(tagsProblem(tags), null);
    const id = idOfTags(decodeTags(kernel.tags(slot)), 'quoted');
    assert.equal(kernel.idHash[slot], murmur3(Buffer.from(id)));
    assert.equal(kernel.idScheme[slot], idSchemeCode.quoted);
    assert.equal(kernel.refused[slot], 0);
  }
}

const rowsOfEviction = 1000;
/** Bodies until the budget of `writeDecoderMemoryBytesMin` is used up. */
const evictionBodiesMin = 20;

/**
 * More series than the budget holds, by rows and by bodies, whose series are looked up in groups as
 * most of them are new: rows stay right, the count bounded, a given-away slot changes its
 * generation.
 */
function fuzzEviction(pick: Pick, random: Random, size: number): void {
  const kernel = new WriteDecoderKernel(random, writeDecoderMemoryBytesMin);
  const seen = new Map<string, number>();
  let reused = 0;
  for (let i = 0; i < size; i++) {
    const numberEnd = 1 + i * rowsOfEviction;
    // Some in the order in which they came before, which is compared in place.
    let next = 0;
    const seriesPicked = Array.from({ length: rowsOfEviction }, () => {
      next = pick(3) === 0 ? (next + 1) % numberEnd : pick(numberEnd);
      return next;
    });
    if (pick(2) === 0) {
      kernel.beginRows();
      for (const n of seriesPicked) {
        assert.equal(kernel.addRow(encodeTags([tagOfNumber(n)]), BigInt(n), n), 0);
      }
    } else {
      const series = seriesPicked.map((n) => ({
        tags: [tagOfNumber(n)],
        samples: [{ timestampMillis: n, value: n }],
      }));
      assert.equal(kernel.remoteWrite(encodeRemoteWrite(series), 1), rowsOfEviction);
    }
    const { rowSlots, rowGenerations, rowTimestamps, rowValues } = kernel;
    seriesPicked.forEach((n, row) => {
      const slot = rowSlots[row]!;
      assert.deepEqual(decodeTags(kernel.tags(slot)), [tagOfNumber(n)]);
      assert.equal(rowGenerations[row], kernel.generation[slot]);
      assert.equal(rowTimestamps[row], BigInt(n));
      assert.equal(rowValues[row], n);
      const holder = `${slot} ${kernel.generation[slot]}`;
      assert.equal(seen.get(holder) ?? n, n, 'a slot and generation is one series for ever');
      seen.set(holder, n);
      if (kernel.generation[slot]! > 1) reused += 1;
    });
    assert.ok(kernel.seriesCount <= writeDecoderMemoryBytesMin / 256);
  }
  assert.ok(size < evictionBodiesMin || reused > 0, 'series were evicted');
}

function tagOfNumber(n: number): Tag {
  return { name: 'n', value: `${n}`.padEnd(10 + (n % 600), 'x') };
}

/**
 * Batches come back as they were built, raw and compact; a mutated one is refused with BAD_REQUEST
 * or read as something whole, and never costs more than its limits.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { count, countInputs } from '#test/sim/counts.ts';
import { changeFixed, replaced, varintOf, changedNumber } from '#test/sim/mutate.ts';
import {
  BatchBuilder,
  type TypedBatchRows,
  type TypedBatchView,
  compactBatch,
  readTypedBatch,
  type TimeUnitNanos,
} from './batch.ts';
import { BatchEncoder } from './encoder.ts';
import { BatchEncoderTwin } from './encoder_twin.ts';

type Pick = (below: number) => number;

/** Numbers from a seed (mulberry32). */
function numbers(seed: number): Pick {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** A 64-bit pattern: small, near a boundary, or anything. */
function bits64(pick: Pick): bigint {
  const kind = pick(5);
  if (kind === 0) return BigInt(pick(1000));
  if (kind === 1) return BigInt.asUintN(64, -BigInt(pick(1000)));
  if (kind === 2) return BigInt.asUintN(64, (1n << BigInt(pick(64))) - BigInt(pick(3)));
  if (kind === 3) return new BigUint64Array(new Float64Array([pick(2000) - 1000]).buffer)[0]!;
  return (BigInt(pick(2 ** 32)) << 32n) | BigInt(pick(2 ** 32));
}

/** One column's numbers: constant, counting, or each anything. */
function column<Element>(
  pick: Pick,
  rowCount: number,
  any: () => Element,
  next: (last: Element, step: number) => Element,
): Element[] {
  const kind = pick(4);
  const elements: Element[] = [];
  let last = any();
  const step = pick(5) - 1;
  for (let row = 0; row < rowCount; row++) {
    elements.push(last);
    if (kind === 1) last = next(last, step);
    else if (kind === 2) last = next(last, pick(100) - 50);
    else if (kind === 3) last = any();
  }
  return elements;
}

interface Content {
  readonly version: number;
  readonly derivesVersions: boolean;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigUint64Array;
  readonly valueBits: BigUint64Array;
  readonly unit: TimeUnitNanos;
  readonly startNanos: BigInt64Array | null;
  readonly typedRows: TypedBatchRows | null;
  readonly series: { tags: Uint8Array; scheme: number; id: Uint8Array }[];
}

const units = [1, 1_000, 1_000_000, 1_000_000_000] as const;

/** Some start times, of which one is none at least where they are not null. */
function startsOf(pick: Pick, rowCount: number): BigInt64Array | null {
  if (rowCount === 0 || pick(2) === 0) return null;
  const starts = BigInt64Array.from(
    column(
      pick,
      rowCount,
      () => BigInt.asIntN(64, bits64(pick)),
      (last, step) => BigInt.asIntN(64, last + BigInt(step)),
    ),
  );
  return starts.every((start) => start === 0n) ? null : starts;
}

function typedRowsOf(pick: Pick, seriesCount: number): TypedBatchRows | null {
  const rowCount = pick(2) === 0 ? 0 : pick(40);
  if (rowCount === 0) return null;
  let end = 0;
  const valueEnds = Uint32Array.from({ length: rowCount }, () => (end += pick(3) * pick(30)));
  const isKnown = seriesCount === 0 || pick(2) === 0;
  return {
    rowCount,
    slots: Uint32Array.from({ length: rowCount }, () => pick(isKnown ? 2 ** 32 : seriesCount)),
    generations: new Uint32Array(rowCount).fill(isKnown ? 1 + pick(9) : 0),
    timestamps: BigInt64Array.from({ length: rowCount }, () => BigInt.asIntN(64, bits64(pick))),
    timeUnitNanos: units[pick(4)]!,
    startNanos: startsOf(pick, rowCount),
    valueEnds,
    valueBytes: Uint8Array.from({ length: end }, () => pick(256)),
  };
}

function contentOf(pick: Pick): Content {
  const rowCount = pick(3) === 0 ? pick(4) : pick(300);
  const bytes = (): Uint8Array => Uint8Array.from({ length: pick(30) }, () => pick(256));
  const series = Array.from({ length: pick(6) }, () => ({
    tags: bytes(),
    scheme: pick(4),
    id: bytes(),
  }));
  const u32 = (): number => (pick(2) === 0 ? pick(100) : pick(2 ** 32));
  const wrap64 = (last: bigint, step: number): bigint => BigInt.asUintN(64, last + BigInt(step));
  const slots = Uint32Array.from(column(pick, rowCount, u32, (last, step) => last + step));
  const generations = Uint32Array.from(column(pick, rowCount, u32, (last) => last));
  for (let row = 0; row < rowCount; row++) {
    if (generations[row] !== 0) continue;
    if (series.length === 0) generations[row] = 1;
    else slots[row] = pick(series.length);
  }
  return {
    version: pick(2 ** 32) * 2 ** pick(21),
    derivesVersions: pick(2) === 0,
    slots,
    generations,
    timestamps: BigUint64Array.from(column(pick, rowCount, () => bits64(pick), wrap64)),
    valueBits: BigUint64Array.from(column(pick, rowCount, () => bits64(pick), wrap64)),
    unit: units[pick(4)]!,
    startNanos: startsOf(pick, rowCount),
    typedRows: typedRowsOf(pick, series.length),
    series,
  };
}

function build(builder: BatchBuilder, content: Content): Uint8Array {
  builder.begin(content.version, content.derivesVersions);
  for (const { tags, scheme, id } of content.series) builder.addSeries(tags, scheme, id);
  builder.setRows(
    content.slots.length,
    content.slots,
    content.generations,
    new BigInt64Array(content.timestamps.buffer),
    content.unit,
    new Float64Array(content.valueBits.buffer),
    content.startNanos,
  );
  if (content.typedRows !== null) builder.setTypedRows(content.typedRows);
  return builder.finish();
}

function checkSame(view: TypedBatchView, content: Content): void {
  assert.equal(view.version, content.version);
  assert.equal(view.derivesVersions, content.derivesVersions);
  assert.deepEqual(view.slots, content.slots);
  assert.deepEqual(view.generations, content.generations);
  const words = (array: BigInt64Array | Float64Array | BigUint64Array): Uint32Array =>
    new Uint32Array(array.buffer, array.byteOffset, array.length * 2);
  assert.deepEqual(words(view.timestamps), words(content.timestamps));
  assert.deepEqual(words(view.values), words(content.valueBits));
  if (view.rowCount > 0) assert.equal(view.timeUnitNanos, content.unit);
  assert.deepEqual(view.startNanos, content.startNanos);
  assert.deepEqual(plainOf(view.typedRows ?? null), plainOf(content.typedRows));
  assert.equal(view.seriesCount, content.series.length);
  content.series.forEach(({ tags, scheme, id }, i) => {
    assert.deepEqual(new Uint8Array(view.seriesTags(i)), tags);
    assert.equal(view.seriesIdScheme(i), scheme);
    assert.deepEqual(new Uint8Array(view.seriesId(i)), id);
  });
}

/** Without the buffers that columns lie in. */
function plainOf(rows: TypedBatchRows | null): unknown {
  if (rows === null) return null;
  return {
    ...rows,
    slots: [...rows.slots],
    generations: [...rows.generations],
    timestamps: [...rows.timestamps],
    startNanos: rows.startNanos === null ? null : [...rows.startNanos],
    valueEnds: [...rows.valueEnds],
    valueBytes: [...rows.valueBytes],
  };
}

/** The kernel's bytes are the twin's, and hold the rows. */
function checkEncoders(encoder: BatchEncoder, twin: BatchEncoderTwin, content: Content): void {
  const { version, derivesVersions, slots, generations, unit } = content;
  const rows = {
    rowCount: slots.length,
    slots,
    generations,
    timestamps: new BigInt64Array(content.timestamps.buffer),
    values: new Float64Array(content.valueBits.buffer),
  };
  const encoded = encoder.encode(version, rows, unit, derivesVersions);
  assert.deepEqual(encoded, twin.encode(version, rows, unit, derivesVersions));
  if (!generations.includes(0))
    checkSame(readTypedBatch(encoded), {
      ...content,
      series: [],
      startNanos: null,
      typedRows: null,
    });
}

function mutate(pick: Pick, bytes: Uint8Array): Uint8Array {
  const mutated = new Uint8Array(bytes);
  for (let i = 1 + pick(4); i > 0; i--) {
    // The header and the directories are hit as often as all the columns.
    const at = pick(pick(2) === 0 ? Math.min(208, mutated.length) : mutated.length);
    const choice = pick(4);
    if (choice === 0) mutated[at] = pick(256);
    else if (choice === 1) mutated[at]! ^= 1 << pick(8);
    else if (choice === 2) mutated[at] = [0, 127, 128, 255][pick(4)]!;
    else return mutated.slice(0, at);
  }
  return mutated;
}

/** Fields of header and directories: [place, width]. */
function fieldsOf(bytes: Uint8Array): [at: number, width: 1 | 2 | 4 | 8][] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const fields: [number, 1 | 2 | 4 | 8][] = [
    [4, 2],
    [6, 2],
    [8, 4],
    [12, 4],
    [16, 8],
    [24, 8],
  ];
  for (let section = 0; section < view.getUint16(6, true); section++) {
    const at = 32 + 16 * section;
    fields.push([at, 1], [at + 1, 1], [at + 2, 2], [at + 4, 4], [at + 8, 4], [at + 12, 4]);
    const directory = view.getUint32(at + 8, true);
    for (let column = 0; column < view.getUint16(at + 2, true); column++) {
      const entry = directory + 16 * column;
      fields.push([entry, 1], [entry + 1, 1], [entry + 2, 2], [entry + 4, 4], [entry + 8, 4]);
      fields.push([entry + 12, 4]);
      // The first element of the column, and whatever token stands after it.
      const start = view.getUint32(entry + 4, true);
      fields.push([start, 8], [start + 8, 1], [start + (view.getUint32(entry + 8, true) >> 1), 1]);
    }
  }
  return fields;
}

/** Numbers of header, directories and columns changed; what a reader decides by. */
function mutateFields(
  pick: Pick,
  bytes: Uint8Array,
  fields: readonly (readonly [at: number, width: 1 | 2 | 4 | 8])[],
): Uint8Array {
  const mutated = bytes.slice();
  for (let i = 1 + pick(2); i > 0; i--) changeFixed(pick, mutated, ...fields[pick(fields.length)]!);
  if (pick(6) > 0) return mutated;
  // A token of another length inside of a column.
  const at = 160 + pick(Math.max(1, mutated.length - 160));
  const token = varintOf(changedNumber(pick, BigInt(mutated[at] ?? 0), 64));
  return replaced(mutated, at, Math.min(mutated.length, at + token.length), token);
}

/** Reads all that a view offers. */
function readWhole(view: TypedBatchView): void {
  for (const { length } of [view.slots, view.generations, view.timestamps, view.values]) {
    assert.equal(length, view.rowCount);
  }
  for (let i = 0; i < view.seriesCount; i++) {
    view.seriesTags(i);
    view.seriesIdScheme(i);
    view.seriesId(i);
  }
}

/**
 * @param size number of batches
 */
export function fuzz(seed: number, size: number): void {
  const { stackTraceLimit } = Error;
  // Most inputs are refused by an error that nobody looks at.
  Error.stackTraceLimit = 0;
  try {
    fuzzBatches(seed, size);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function fuzzBatches(seed: number, size: number): void {
  const pick = numbers(seed);
  const encoder = new BatchEncoder();
  const twin = new BatchEncoderTwin();
  const builder = new BatchBuilder();
  for (let i = 0; i < size; i++) {
    const content = contentOf(pick);
    const bytes = build(builder, content);
    const compact = compactBatch(bytes);
    assert.ok(compact.length <= bytes.length);
    checkSame(readTypedBatch(bytes), content);
    checkSame(readTypedBatch(compact), content);
    assert.deepEqual(compactBatch(compact), compact);
    if (content.slots.length > 0) checkEncoders(encoder, twin, content);
    for (const whole of [bytes, compact]) {
      const fields = fieldsOf(whole);
      for (let input = 0; input < inputsOfBatch; input++) {
        const isBlind = input % 4 === 0;
        checkMutated(isBlind ? mutate(pick, whole) : mutateFields(pick, whole, fields));
      }
    }
  }
}

/** Ways in which each batch, raw and compact, is damaged. */
const inputsOfBatch = 20;

/** It is refused, or read as something whole, of which the compact form says the same. */
function checkMutated(mutated: Uint8Array): void {
  countInputs('batch');
  try {
    const view = readTypedBatch(mutated);
    readWhole(view);
    const again = readTypedBatch(compactBatch(mutated));
    readWhole(again);
    for (const column of ['slots', 'generations', 'timestamps', 'values'] as const) {
      const [a, b] = [view[column], again[column]].map(({ buffer, byteOffset, byteLength }) =>
        Buffer.from(buffer, byteOffset, byteLength),
      );
      assert.ok(a!.equals(b!), column);
    }
    assert.deepEqual(plainOf(again.typedRows), plainOf(view.typedRows));
    assert.deepEqual(again.startNanos, view.startNanos);
    assert.equal(again.version, view.version);
    assert.equal(again.derivesVersions, view.derivesVersions);
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
    count('refused: batch');
  }
}

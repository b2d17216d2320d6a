/**
 * A native histogram of remote write, read at leisure: why one is refused, and the plain twin of
 * engine/write_decoder/kernel/remote_write/histograms.ts. Rules are those of Prometheus (`Validate` of its histograms).
 */
import { typedBytesMax, typedFieldsMax } from '../codec/layout.ts';
import {
  bucketNumber,
  customSchema,
  histogramField,
  resetHint,
  schemaMax,
  schemaMin,
  staleBits,
  staleHistogram,
} from '../typed/histogram.ts';
import { bitsOfDouble, doubleOf, TypedValueWriter, valueKind } from '../typed/typed_value.ts';
import {
  Fields,
  Malformed,
  type Range,
  wireBytes,
  wireFixed64,
  wireVarint,
} from './wire_fields.ts';

/** Most buckets of one side, empty ones included; as many spans and custom bounds. */
const partsMax = 1 << 16;
/** Finer schemas than `schemaMax` up to here are known, and made coarser. */
const schemaReservedMax = 52;
/** All numbers of a whole histogram are below. */
const countsMax = 2n ** 63n;
/** A start time beyond what nanoseconds can say is none. */
const startMillisMax = 9_223_372_036_854n;

interface WireSpan {
  readonly offset: number;
  readonly length: number;
}

interface WireSide {
  readonly spans: WireSpan[];
  /** Of whole histograms, each less the one before. */
  readonly deltas: bigint[];
  /** Bits, of those of floats. */
  readonly counts: bigint[];
}

export interface WireHistogram {
  isFloat: boolean;
  isZeroFloat: boolean;
  /** A whole number, or bits. */
  count: bigint;
  zeroCount: bigint;
  sumBits: bigint;
  schema: number;
  zeroThreshold: number;
  hint: bigint;
  timestampMillis: bigint;
  /** Unix nanoseconds, 0 for none. */
  startNanos: bigint;
  readonly positive: WireSide;
  readonly negative: WireSide;
  readonly customBounds: number[];
}

const signed = (value: bigint): number => {
  const low = Number(BigInt.asUintN(32, value));
  return (low >>> 1) ^ -(low & 1);
};
const signedBig = (value: bigint): bigint => BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));

/**
 * @param hasStart a start time is among the fields of this version of remote write
 * @throws {Malformed} when it is no protobuf message of histograms
 */
export function readHistogram(
  bytes: Uint8Array,
  [start, end]: Range,
  hasStart: boolean,
): WireHistogram {
  const side = (): WireSide => ({ spans: [], deltas: [], counts: [] });
  const histogram: WireHistogram = {
    isFloat: false,
    isZeroFloat: false,
    count: 0n,
    zeroCount: 0n,
    sumBits: 0n,
    schema: 0,
    zeroThreshold: 0,
    hint: 0n,
    timestampMillis: 0n,
    startNanos: 0n,
    positive: side(),
    negative: side(),
    customBounds: [],
  };
  const fields = new Fields(bytes, start, end);
  while (fields.next()) readField(histogram, fields, bytes, hasStart);
  return histogram;
}

function readField(
  histogram: WireHistogram,
  fields: Fields,
  bytes: Uint8Array,
  hasStart: boolean,
): void {
  const { number } = fields;
  const side = number >= 11 ? histogram.positive : histogram.negative;
  switch (number) {
    case 1:
      histogram.count = integer(fields);
      histogram.isFloat = false;
      break;
    case 2:
      histogram.count = double(fields);
      histogram.isFloat = true;
      break;
    case 3:
      histogram.sumBits = double(fields);
      break;
    case 4:
      histogram.schema = signed(integer(fields));
      break;
    case 5:
      histogram.zeroThreshold = doubleOf(double(fields));
      break;
    case 6:
      histogram.zeroCount = integer(fields);
      histogram.isZeroFloat = false;
      break;
    case 7:
      histogram.zeroCount = double(fields);
      histogram.isZeroFloat = true;
      break;
    case 8:
    case 11:
      fields.expect(wireBytes);
      side.spans.push(readSpan(bytes, fields.range()));
      break;
    case 9:
    case 12:
      readList(fields, bytes, wireVarint, (list) => side.deltas.push(signedBig(list.varint())));
      break;
    case 10:
    case 13:
      readList(fields, bytes, wireFixed64, (list) => side.counts.push(list.fixed64()));
      break;
    case 14:
      histogram.hint = integer(fields);
      break;
    case 15:
      histogram.timestampMillis = BigInt.asIntN(64, integer(fields));
      break;
    case 16:
      readList(fields, bytes, wireFixed64, (list) =>
        histogram.customBounds.push(doubleOf(list.fixed64())),
      );
      break;
    default: {
      if (number !== 17 || !hasStart) return fields.skip();
      histogram.startNanos = startNanosOf(BigInt.asIntN(64, integer(fields)));
    }
  }
}

/** Of a start time on the wire; 0 for none, and for one that nanoseconds cannot say. */
export function startNanosOf(millis: bigint): bigint {
  return millis <= startMillisMax && millis >= -startMillisMax ? millis * 1_000_000n : 0n;
}

function integer(fields: Fields): bigint {
  fields.expect(wireVarint);
  return fields.varint();
}

/** Its bits. */
function double(fields: Fields): bigint {
  fields.expect(wireFixed64);
  return fields.fixed64();
}

/** Packed, or one number a field. */
function readList(
  fields: Fields,
  bytes: Uint8Array,
  wireType: number,
  take: (list: Fields) => void,
): void {
  if (fields.wireType === wireType) return take(fields);
  fields.expect(wireBytes);
  const list = new Fields(bytes, ...fields.range());
  while (!list.isAtEnd) take(list);
}

function readSpan(bytes: Uint8Array, [start, end]: Range): WireSpan {
  let [offset, length] = [0, 0];
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number > 2) fields.skip();
    else if (fields.number === 1) offset = signed(integer(fields));
    else length = Number(BigInt.asUintN(32, integer(fields)));
  }
  return { offset, length };
}

class NoHistogram extends Error {}

/** Longer messages are not read at leisure, which takes a tenth of a microsecond a byte. */
const explainedBytesMax = 16_384;

/** Why the message in a range is no histogram that can be stored; null when it is one. */
export function histogramProblem(bytes: Uint8Array, range: Range): string | null {
  const length = range[1] - range[0];
  if (length > explainedBytesMax) {
    return `histogram of ${length} bytes breaks a rule, and is too long to say which`;
  }
  try {
    valueOfWire(readHistogram(bytes, range, true));
    return null;
  } catch (error) {
    if (error instanceof NoHistogram || error instanceof Malformed) return error.message;
    throw error;
  }
}

/** The typed value of one, or null when there is a `histogramProblem`. */
export function valueOrNull(histogram: WireHistogram): Uint8Array | null {
  try {
    return valueOfWire(histogram);
  } catch (error) {
    if (error instanceof NoHistogram) return null;
    throw error;
  }
}

interface KeptBuckets {
  readonly index: bigint;
  /** A whole number, or bits. */
  count: bigint;
}

function valueOfWire(histogram: WireHistogram): Uint8Array {
  checkLengths(histogram);
  const { isFloat, isZeroFloat, sumBits, zeroThreshold, customBounds, count, hint } = histogram;
  if (sumBits === staleBits) return staleHistogram;
  // The other one of a pair that says either is zero.
  const zeroCount = isFloat === isZeroFloat ? histogram.zeroCount : 0n;
  const isCustom = histogram.schema === customSchema;
  if (isCustom) checkCustom(histogram, zeroCount);
  else checkExponential(histogram);
  const schema = Math.min(histogram.schema, schemaMax);
  const halvings = BigInt(histogram.schema - schema);
  const positive = keptBuckets(histogram, 'positive', halvings);
  const negative = keptBuckets(histogram, 'negative', halvings);
  if (isFloat) {
    checkFloat(count, 'count');
    checkFloat(zeroCount, 'zero count');
  } else checkTotal(count, sumBits, zeroCount + positive.total + negative.total);
  const kept = [
    ...positive.buckets.map((each) => ({
      ...each,
      number: bucketNumber(Number(each.index), false),
    })),
    ...negative.buckets.map((each) => ({
      ...each,
      number: bucketNumber(Number(each.index), true),
    })),
  ].sort((a, b) => a.number - b.number);
  if (kept.length + 7 > typedFieldsMax) {
    throw new NoHistogram(`histogram has more than ${typedFieldsMax - 7} buckets: ${kept.length}`);
  }
  const writer = new TypedValueWriter().begin(valueKind.histogram, isFloat ? 1 : 0);
  const putCount = (number: number, value: bigint): void => {
    if (value === 0n) return;
    if (isFloat) writer.doubleBits(number, value);
    else writer.uint(number, value);
  };
  if (schema !== 0) writer.int(histogramField.schema, BigInt(schema));
  if (hint === BigInt(resetHint.reset) || hint === BigInt(resetHint.gauge))
    writer.uint(histogramField.hint, hint);
  if (zeroThreshold !== 0) writer.double(histogramField.zeroThreshold, zeroThreshold);
  putCount(histogramField.count, count);
  if (!isCustom) putCount(histogramField.zeroCount, zeroCount);
  if (sumBits !== 0n) writer.doubleBits(histogramField.sum, sumBits);
  if (customBounds.length > 0)
    writer.bytes(
      histogramField.customBounds,
      new Uint8Array(Float64Array.from(customBounds).buffer),
    );
  for (const { number, count: each } of kept) putCount(number, each);
  return writer.finish();
}

function checkLengths({ positive, negative, customBounds }: WireHistogram): void {
  const lists = [positive, negative].flatMap(({ spans, deltas, counts }) => [
    spans,
    deltas,
    counts,
  ]);
  for (const { length } of [...lists, customBounds]) {
    if (length > partsMax) {
      throw new NoHistogram(
        `histogram has more than ${partsMax} buckets, spans or bounds: ${length}`,
      );
    }
  }
  if (customBounds.length * 8 > typedBytesMax / 2) {
    throw new NoHistogram(
      `histogram has more than ${typedBytesMax / 16} custom bounds: ${customBounds.length}`,
    );
  }
}

function checkExponential({ schema, customBounds, zeroThreshold }: WireHistogram): void {
  if (schema < schemaMin || schema > schemaReservedMax) {
    throw new NoHistogram(
      `histogram has a schema that is not ${customSchema} or from ${schemaMin} to ${schemaMax}: ${schema}`,
    );
  }
  if (customBounds.length > 0) {
    throw new NoHistogram(`histogram has custom bounds with schema ${schema}`);
  }
  if (!(zeroThreshold >= 0 && zeroThreshold < Infinity)) {
    throw new NoHistogram(
      `histogram has a zero threshold that is no number from 0: ${zeroThreshold}`,
    );
  }
}

function checkCustom(histogram: WireHistogram, zeroCount: bigint): void {
  const { isFloat, zeroThreshold, customBounds, positive, negative } = histogram;
  const zero = isFloat ? doubleOf(zeroCount) : Number(zeroCount);
  if (zero !== 0) throw new NoHistogram(`histogram has custom bounds and a zero count: ${zero}`);
  if (zeroThreshold !== 0) {
    throw new NoHistogram(`histogram has custom bounds and a zero threshold: ${zeroThreshold}`);
  }
  const { length } = isFloat ? negative.counts : negative.deltas;
  if (negative.spans.length > 0 || length > 0) {
    throw new NoHistogram('histogram has custom bounds and negative buckets');
  }
  for (const [i, bound] of customBounds.entries()) {
    if (!Number.isFinite(bound)) {
      throw new NoHistogram(`histogram has a custom bound that is no finite number: ${bound}`);
    }
    if (i > 0 && bound <= customBounds[i - 1]!) {
      throw new NoHistogram(
        `histogram has custom bounds that do not ascend: ${bound} after ${customBounds[i - 1]}`,
      );
    }
  }
  const first = positive.spans[0];
  if (first !== undefined && first.offset < 0) throw negativeOffset(0, first);
  let covered = 0;
  for (const { offset, length: spanLength } of positive.spans) covered += offset + spanLength;
  if (covered > customBounds.length + 1) {
    throw new NoHistogram(
      `histogram has buckets beyond its ${customBounds.length} custom bounds: ${covered}`,
    );
  }
}

function negativeOffset(place: number, { offset }: WireSpan): Error {
  return new NoHistogram(
    `histogram has a span that goes back: span ${place + 1}, offset ${offset}`,
  );
}

function keptBuckets(
  histogram: WireHistogram,
  name: 'positive' | 'negative',
  halvings: bigint,
): { readonly buckets: KeptBuckets[]; readonly total: bigint } {
  const { isFloat, [name]: side } = histogram;
  const counts = isFloat ? side.counts : side.deltas;
  const needed = side.spans.reduce((sum, { length }) => sum + length, 0);
  const buckets: KeptBuckets[] = [];
  let [next, bucket, running, total] = [0n, 0, 0n, 0n];
  for (const [i, span] of side.spans.entries()) {
    if (i > 0 && span.offset < 0) throw negativeOffset(i, span);
    if (needed !== counts.length) break;
    next += BigInt(span.offset);
    for (let j = 0; j < span.length; j++, bucket++, next++) {
      let count = counts[bucket]!;
      if (isFloat) checkFloat(count, `count of bucket ${bucket + 1}, ${name} side`);
      else {
        running = BigInt.asIntN(64, running + count);
        if (running < 0n) {
          throw new NoHistogram(
            `histogram has a negative count of bucket ${bucket + 1}, ${name} side: ${running}`,
          );
        }
        count = running;
        total += count;
      }
      if (count === 0n) continue;
      const index = halvings === 0n ? next : ((next - 1n) >> halvings) + 1n;
      if (BigInt.asIntN(32, index) !== index) {
        throw new NoHistogram(`histogram has a bucket beyond 32 bits: ${index}`);
      }
      const last = buckets.at(-1);
      if (last === undefined || last.index !== index) buckets.push({ index, count });
      else if (isFloat) last.count = bitsOfDouble(doubleOf(last.count) + doubleOf(count));
      else last.count += count;
    }
  }
  if (needed !== counts.length) {
    throw new NoHistogram(
      `histogram has spans of ${needed} buckets and counts of ${counts.length}, ${name} side`,
    );
  }
  return { buckets, total };
}

function checkFloat(bits: bigint, what: string): void {
  const value = doubleOf(bits);
  if (value < 0) throw new NoHistogram(`histogram has a negative ${what}: ${value}`);
}

function checkTotal(count: bigint, sumBits: bigint, inBuckets: bigint): void {
  if (count >= countsMax || inBuckets >= countsMax) {
    throw new NoHistogram(
      `histogram has counts beyond 2^63: ${count}, ${inBuckets} in its buckets`,
    );
  }
  // Observations that are NaN are in no bucket.
  const isGood = Number.isNaN(doubleOf(sumBits)) ? inBuckets <= count : inBuckets === count;
  if (isGood) return;
  throw new NoHistogram(`histogram has ${inBuckets} observations in its buckets, count ${count}`);
}

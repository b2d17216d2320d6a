/**
 * Bodies with all kinds of points, their fields in any order: a reader that knows most of their series, and forgets now and then
 * what it knows, must make the rows of the twin; and of damaged ones the rows of a reader that knows nothing.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { decodeTags } from '#lib/tags.ts';
import { countInputs } from '#test/sim/counts.ts';
import { changeFixed, type Pick, pickOf } from '#test/sim/mutate.ts';
import { histogramOfValue, isStaleHistogram } from '../typed/histogram.ts';
import type { WriteDecoder } from '../write_decoder/write_decoder.ts';
import { BytesWriter } from '../messages/bytes_writer.ts';
import { openReader, otlpSetting } from './otlp_testing.ts';
import { histogramText, outcomeOfTwin, type TwinOutcome } from './otlp_twin.ts';
import type { OtlpReader } from './reader.ts';
import type { OtlpSetting } from './points/types.ts';
import { wireFromOtlpJson } from './wire/json.ts';
import { type MessageShape, request } from './wire/shapes.ts';
import { Wire } from './wire/wire.ts';

function some<Item>(pick: Pick, items: readonly Item[]): Item {
  return items[pick(items.length)]!;
}

function list<Item>(pick: Pick, end: number, make: () => Item): Item[] {
  return Array.from({ length: pick(end) }, make);
}

const keys = [
  'a',
  'b',
  'a.b',
  'a_b',
  '',
  '__name__',
  'job',
  'host.name',
  'größe',
  '2nd',
  '_x',
  '\u{1f600}',
  '\uffff',
  '..',
];
const texts = ['', 'x', 'GET', '<&>', 'ä"\\', '200'];
const numbers = [0, -0, 1, 1.5, -2.25, 1e21, 1e-7, 'NaN', 'Infinity', '-Infinity', 0.1];

/** Mostly a text. */
function valueOf(pick: Pick, depth = 0): object {
  switch (pick(depth > 2 ? 6 : 12)) {
    case 0:
      return { boolValue: pick(2) === 0 };
    case 1:
      return {
        intValue: some(pick, ['0', '-1', '9223372036854775807', '-9223372036854775808', '300']),
      };
    case 2:
      return { doubleValue: some(pick, [1.5, -2, 1e21, 1e-7, 123456789]) };
    case 3:
      return { bytesValue: some(pick, ['', 'AQI=', 'AAEC']) };
    case 6:
      return { arrayValue: { values: list(pick, 4, () => valueOf(pick, depth + 1)) } };
    case 7:
      return {
        kvlistValue: {
          values: list(pick, 4, () => ({ key: some(pick, keys), value: valueOf(pick, depth + 1) })),
        },
      };
    case 8:
      return {};
    default:
      return { stringValue: some(pick, texts) };
  }
}

const attributesOf = (pick: Pick, end: number): object[] =>
  list(pick, end, () => ({
    key: pick(3) > 0 ? some(pick, ['a', 'b', 'c']) : some(pick, keys),
    value: valueOf(pick),
  }));

function nanosOf(pick: Pick): string {
  const millis = 1_700_000_000_000 + pick(3) * 200_000;
  if (pick(12) === 0)
    return some(pick, ['0', '999999', '1000000', '18446744073709551615', '9223372036854999999']);
  return `${millis}${some(pick, ['000000', '999999', '000001', '123456'])}`;
}

const countOf = (pick: Pick): string =>
  pick(30) === 0 ? some(pick, ['4503599627370497', '18446744073709551615']) : String(pick(5));

function countedOf(pick: Pick, counts: readonly string[]): string {
  const total = counts.reduce((sum, each) => sum + BigInt(each), 0n);
  return pick(8) === 0 ? countOf(pick) : String(BigInt.asUintN(64, total));
}

function pointOf(pick: Pick, kind: string): object {
  const point: Record<string, unknown> = {
    timeUnixNano: nanosOf(pick),
    attributes: attributesOf(pick, 4),
  };
  if (pick(2) === 0) point['startTimeUnixNano'] = nanosOf(pick);
  if (pick(8) === 0) point['flags'] = pick(4);
  if (kind === 'gauge' || kind === 'sum') {
    if (pick(2) === 0) point['asDouble'] = some(pick, numbers);
    else if (pick(10) > 0)
      point['asInt'] = some(pick, ['0', '7', '-9223372036854775808', '9007199254740993']);
    return point;
  }
  if (pick(3) > 0) point['sum'] = some(pick, [0, 1.5, -3]);
  if (kind === 'summary') {
    point['count'] = countOf(pick);
    point['quantileValues'] = list(pick, 4, () => ({
      quantile: some(pick, [0, 0.5, 0.99, 1]),
      value: some(pick, numbers),
    }));
    return point;
  }
  if (kind === 'histogram') {
    const bounds = some(pick, [[], [1], [0.005, 0.1, 2.5], [-1, 0, 1e-7], [2, 1], [1, 1]]);
    const length = pick(10) === 0 ? pick(5) : bounds.length + 1;
    const counts = Array.from({ length }, () => countOf(pick));
    return {
      ...point,
      count: countedOf(pick, counts),
      bucketCounts: counts,
      explicitBounds: bounds,
    };
  }
  const sideOf = (): { offset: number; bucketCounts: string[] } => ({
    offset: pick(40) - 20,
    bucketCounts: list(pick, 12, () => String(pick(3))),
  });
  const [positive, negative, zeroCount] = [sideOf(), sideOf(), String(pick(3))];
  const counts = [...positive.bucketCounts, ...negative.bucketCounts, zeroCount];
  const zeroThreshold = some(pick, [0, 0, 0.25, 'Infinity']);
  const scale = pick(16) - 5;
  return {
    ...point,
    count: countedOf(pick, counts),
    positive,
    negative,
    zeroCount,
    scale,
    zeroThreshold: zeroThreshold === 'Infinity' ? 1e308 : zeroThreshold,
  };
}

function metricOf(pick: Pick): object {
  const kind = some(pick, ['gauge', 'sum', 'sum', 'histogram', 'exponentialHistogram', 'summary']);
  const data: Record<string, unknown> = { dataPoints: list(pick, 6, () => pointOf(pick, kind)) };
  if (kind === 'sum') data['isMonotonic'] = pick(2) === 0;
  if (kind !== 'gauge' && kind !== 'summary')
    data['aggregationTemporality'] = pick(6) === 0 ? pick(3) : 2;
  const metric: Record<string, unknown> = {
    name: some(pick, ['m', 'http.requests', 'a.total', '2x', '...', '']),
  };
  if (pick(2) === 0) metric['unit'] = some(pick, ['s', '1', 'By/s', '{x}', '']);
  if (pick(2) === 0) metric['description'] = some(pick, ['', 'What it is.']);
  if (pick(30) > 0) metric[kind] = data;
  return metric;
}

function bodyOf(pick: Pick): object {
  const own = ['service.name', 'service.namespace', 'service.instance.id'];
  return {
    resourceMetrics: list(pick, 4, () => ({
      ...(pick(6) === 0
        ? {}
        : {
            resource: {
              attributes: [
                ...attributesOf(pick, 3),
                ...list(pick, 4, () => ({
                  key: some(pick, own),
                  value: { stringValue: some(pick, texts) },
                })),
              ],
            },
          }),
      scopeMetrics: list(pick, 3, () => ({
        scope:
          pick(3) === 0
            ? {}
            : {
                name: some(pick, ['', 'lib']),
                version: some(pick, ['', '1']),
                attributes: attributesOf(pick, 3),
              },
        ...(pick(3) === 0 ? { schemaUrl: some(pick, ['u', 'v']) } : {}),
        metrics: list(pick, 4, () => metricOf(pick)),
      })),
    })),
  };
}

/** Of one metric of numbers: more points than are read in one go, of series that most bodies have, in any order. */
function longBodyOf(pick: Pick): object {
  const kind = some(pick, ['gauge', 'sum']);
  const seriesCount = 1 + pick(120);
  const isInOrder = pick(2) === 0;
  const filling = 'x'.repeat(pick(300));
  const dataPoints = Array.from({ length: pick(1000) }, (_, index) => {
    const series = isInOrder ? index % seriesCount : pick(seriesCount);
    const attributes = [
      { key: 'a', value: { stringValue: `${series}` } },
      { key: 'b', value: { stringValue: filling } },
      ...(series % 7 === 0 ? attributesOf(pick, 2) : []),
    ];
    return { ...pointOf(pick, kind), attributes: series % 50 === 1 ? [] : attributes };
  });
  const metric = {
    name: some(pick, ['m', 'n']),
    [kind]: { aggregationTemporality: 2, dataPoints },
  };
  return { resourceMetrics: [{ scopeMetrics: [{ metrics: [metric] }] }] };
}

/** The same message with its fields in another order, those of one number as before, and unknown ones among them. */
function reordered(
  pick: Pick,
  bytes: Uint8Array,
  shape: MessageShape,
  isSplitting: boolean,
): Uint8Array {
  const wire = new Wire(bytes);
  const queues = new Map<number, Uint8Array[]>();
  for (let at = 0; at < bytes.length; ) {
    const key = wire.varint(at, bytes.length);
    const number = Math.floor(key / 8);
    const valueAt = wire.at;
    const past = wire.skip(valueAt, bytes.length, key % 8);
    const field = shape.byNumber.get(number)!;
    const out = new BytesWriter();
    if (field.shape === undefined) out.copy(bytes, at, past);
    else {
      wire.length(valueAt, bytes.length);
      const inner = reordered(pick, bytes.subarray(wire.at, past), field.shape, isSplitting);
      out.varint(key);
      out.varint(inner.length);
      out.copy(inner, 0, inner.length);
    }
    queues.set(number, [...(queues.get(number) ?? []), out.finish()]);
    at = past;
  }
  const parts: Uint8Array[] = [];
  while (queues.size > 0) {
    const number = isSplitting ? some(pick, [...queues.keys()]) : [...queues.keys()][0]!;
    const queue = queues.get(number)!;
    parts.push(queue.shift()!);
    if (queue.length === 0) queues.delete(number);
    if (pick(12) === 0)
      parts.push(some(pick, [Uint8Array.of(0xfa, 0x01, 1, 7), Uint8Array.of(0xf0, 0x01, 5)]));
  }
  return Buffer.concat(parts);
}

/** Rows as the twin tells them, or the error. */
async function outcomeOf(
  reader: OtlpReader,
  decoder: WriteDecoder,
  body: Uint8Array,
): Promise<TwinOutcome | string> {
  const outcome = {
    samples: [] as string[],
    histograms: [] as string[],
    pointCount: 0,
    refusedCount: 0,
  };
  const tagsOf = (slot: number): string =>
    decodeTags(decoder.tags(slot))
      .map(({ name, value }) => `${JSON.stringify(name)}=${JSON.stringify(value)}`)
      .join(',');
  try {
    const parts = reader.open(body);
    for (let part = parts.next(); part !== null; part = parts.next()) {
      if (part === 'unchecked') {
        await parts.check(() => Promise.resolve());
        continue;
      }
      const { rows, pointCount, refusedCount } = part;
      const bits = new BigUint64Array(rows.values.slice(0, rows.rowCount).buffer);
      const startOf = (starts: BigInt64Array | null, row: number): bigint =>
        (starts?.[row] ?? 0n) / 1_000_000n;
      for (let row = 0; row < rows.rowCount; row++) {
        outcome.samples.push(
          `${tagsOf(rows.slots[row]!)} ${rows.timestamps[row]} ${bits[row]} ${startOf(rows.startNanos, row)}`,
        );
      }
      const { histograms } = rows;
      for (let row = 0; row < (histograms?.rowCount ?? 0); row++) {
        const { slots, startNanos, timestamps, valueBytes, valueEnds } = histograms!;
        const value = valueBytes.slice(row === 0 ? 0 : valueEnds[row - 1], valueEnds[row]);
        const times = `${timestamps[row]} ${startOf(startNanos, row)}`;
        outcome.histograms.push(`${tagsOf(slots[row]!)} ${times} ${textOfValue(value)}`);
      }
      outcome.pointCount += pointCount;
      outcome.refusedCount += refusedCount;
      assert.equal(part.pointOfSample.length, rows.rowCount);
      assert.equal(part.pointOfHistogram.length, histograms?.rowCount ?? 0);
    }
    return outcome;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return error.message;
  }
}

function textOfValue(value: Uint8Array): string {
  if (isStaleHistogram(value)) return 'stale';
  const {
    count,
    customBounds,
    hint,
    negative,
    positive,
    schema,
    sumBits,
    zeroCount,
    zeroThreshold,
  } = histogramOfValue(value);
  const pairsOf = ({ indexes, counts }: typeof positive): [number, number][] =>
    Array.from(indexes, (index, i) => [index, counts[i]!]);
  return histogramText(
    schema,
    hint,
    zeroThreshold,
    zeroCount,
    count,
    sumBits,
    [...customBounds],
    pairsOf(positive),
    pairsOf(negative),
  );
}

function settingOf(pick: Pick): OtlpSetting {
  return {
    ...otlpSetting,
    translationStrategy: some(pick, [
      'UnderscoreEscapingWithSuffixes',
      'UnderscoreEscapingWithoutSuffixes',
      'NoUTF8EscapingWithSuffixes',
      'NoTranslation',
    ]),
    promotedAttributes: new Set(pick(2) === 0 ? ['a', 'service.name'] : []),
    promotesAll: pick(4) === 0,
    ignoredAttributes: new Set(['b']),
    keepsIdentifying: pick(2) === 0,
    promotesScope: pick(2) === 0,
    convertsHistograms: pick(2) === 0,
    storesDeltas: pick(2) === 0,
  };
}

/** @param size number of bodies */
export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  const setting = settingOf(pick);
  const cacheBytes = some(pick, [32 << 10, 1 << 20]);
  const { decoder, reader } = openReader(setting, false, 2 << 20, cacheBytes);
  for (let i = 0; i < size; i++) {
    const where = `seed ${seed}, body ${i}`;
    const json = pick(60) === 0 ? longBodyOf(pick) : bodyOf(pick);
    const plain = wireFromOtlpJson(json);
    const body = pick(2) === 0 ? plain : reordered(pick, plain, request, pick(2) === 0);
    countInputs('OTLP bodies');
    assert.deepEqual(await outcomeOf(reader, decoder, body), outcomeOfTwin(json, setting), where);
    if (body.length === 0) continue;
    for (let copies = 1 + pick(4); copies > 0; copies--) {
      const damaged = new Uint8Array(body);
      for (let changes = 1 + pick(3); changes > 0; changes--)
        changeFixed(pick, damaged, pick(damaged.length), 1);
      const cut = pick(4) === 0 ? damaged.subarray(0, pick(damaged.length)) : damaged;
      const fresh = openReader(setting, true);
      countInputs('damaged OTLP bodies');
      assert.deepEqual(
        await outcomeOf(reader, decoder, cut),
        await outcomeOf(fresh.reader, fresh.decoder, cut),
        `${where}, damaged`,
      );
    }
  }
}

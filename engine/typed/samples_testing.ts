/** Typed rows as monitoring and devices make them, by seed: for tests, fuzz and benchmarks. */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { valueOfExemplar } from './exemplar.ts';
import { type Histogram, resetHint, staleHistogram, valueOfHistogram } from './histogram.ts';
import type { TypedRows } from './chunk_twin.ts';
import { valueOfWindow } from './window.ts';
import { bitsOfDouble, TypedValueWriter, valueKind, type ValueKind } from './typed_value.ts';

const startNanos = 1_700_000_400_000_000_000n;
const none = { indexes: new Int32Array(0), counts: new Float64Array(0) };
const floatBits = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0]!;

export interface TypedSample {
  readonly name: string;
  readonly rows: TypedRows;
}

/** Rows every so many seconds, written some milliseconds after their time. */
function rowsOf(values: readonly Uint8Array[], numbers: SeededNumbers, seconds = 15): TypedRows {
  const timestampNanos = BigInt64Array.from(
    values,
    (_, row) => startNanos + BigInt(row * seconds) * 1_000_000_000n,
  );
  const lag = 64 * (5 + numbers.below(200));
  const rowVersions = Float64Array.from(
    timestampNanos,
    (nanos) => Number(versionAtNanos(nanos)) + lag,
  );
  return { timestampNanos, values, rowVersions, startNanos: null };
}

interface Shape {
  /** Observations of a row, on average. */
  readonly perRow: number;
  readonly schema: number;
  readonly isGauge?: boolean;
  /** Counts are scaled, as a rule's rates are. */
  readonly scale?: number;
}

/** Request durations: log-normal, slower at times. */
export function histogramValues(
  numbers: SeededNumbers,
  rowCount: number,
  { perRow, schema, isGauge = false, scale }: Shape,
): Uint8Array[] {
  const median = 0.002 * 10 ** (2 * numbers.fraction());
  const width = 0.4 + 0.6 * numbers.fraction();
  let counts = new Map<number, number>();
  let [count, sum, zeroCount, load] = [0, 0, 0, 1];
  return Array.from({ length: rowCount }, (_, row) => {
    if (isGauge) {
      counts = new Map();
      [count, sum, zeroCount] = [0, 0, 0];
    }
    load = Math.min(4, Math.max(0.25, load * Math.exp(0.1 * numbers.normal())));
    const observed = Math.round(Math.max(0, perRow * load + Math.sqrt(perRow) * numbers.normal()));
    for (let i = 0; i < observed; i++) {
      const seconds = median * load ** 0.3 * Math.exp(width * numbers.normal());
      const index = Math.ceil(Math.log2(seconds) * 2 ** schema);
      if (numbers.below(5000) === 0) zeroCount += 1;
      else counts.set(index, (counts.get(index) ?? 0) + 1);
      count += 1;
      sum += Number(seconds.toPrecision(9));
    }
    const indexes = Int32Array.from([...counts.keys()].sort((a, b) => a - b));
    const factor = scale ?? 1;
    const histogram: Histogram = {
      isFloat: scale !== undefined,
      schema,
      hint: isGauge ? resetHint.gauge : row === 0 ? resetHint.reset : resetHint.unknown,
      zeroThreshold: 2 ** -128,
      count: count * factor,
      zeroCount: zeroCount * factor,
      sumBits: bitsOfDouble(sum * factor),
      customBounds: new Float64Array(0),
      positive: { indexes, counts: Float64Array.from(indexes, (i) => counts.get(i)! * factor) },
      negative: none,
    };
    return valueOfHistogram(histogram);
  });
}

const bounds = Float64Array.of(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10);

/** Counters over bounds that are given. */
export function customHistogramValues(numbers: SeededNumbers, rowCount: number): Uint8Array[] {
  const counts = new Float64Array(bounds.length + 1);
  let sum = 0;
  return Array.from({ length: rowCount }, () => {
    for (let i = 0; i < 20; i++) {
      counts[Math.min(bounds.length, Math.floor(Math.abs(numbers.normal()) * 4))]! += 1;
      sum += numbers.fraction();
    }
    const indexes = Int32Array.from(counts, (_, i) => i).filter((i) => counts[i]! > 0);
    return valueOfHistogram({
      isFloat: false,
      schema: -53,
      hint: resetHint.unknown,
      zeroThreshold: 0,
      count: counts.reduce((a, b) => a + b),
      zeroCount: 0,
      sumBits: bitsOfDouble(sum),
      customBounds: bounds,
      positive: { indexes, counts: Float64Array.from(indexes, (i) => counts[i]!) },
      negative: none,
    });
  });
}

/** What a device tells: floats, integers, states, the name of its software, and where it is. */
export function deviceValues(numbers: SeededNumbers, rowCount: number): Uint8Array[] {
  let [temperature, humidity, voltage] = [18 + 8 * numbers.fraction(), 45, 3.7];
  let [latitude, longitude] = [48 + numbers.fraction(), 11 + numbers.fraction()];
  let [uptime, sent, failed, battery] = [numbers.below(1e6), numbers.below(1e5), 0, 100];
  let [state, mode] = [1, 2];
  const software = `v${2 + numbers.below(3)}.${numbers.below(10)}.${numbers.below(20)}`;
  const writer = new TypedValueWriter();
  const text = (value: string): Uint8Array => Buffer.from(value);
  return Array.from({ length: rowCount }, () => {
    temperature += 0.1 * numbers.normal();
    humidity += 0.3 * numbers.normal();
    voltage = Math.max(3, voltage - 0.0005 * numbers.fraction());
    latitude += 1e-5 * numbers.normal();
    longitude += 1e-5 * numbers.normal();
    uptime += 60;
    sent += 1 + numbers.below(3);
    if (numbers.below(50) === 0) failed += 1;
    if (numbers.below(200) === 0) battery = Math.max(1, battery - 1);
    if (numbers.below(100) === 0) state = 1 + numbers.below(4);
    if (numbers.below(300) === 0) mode = 1 + numbers.below(3);
    const place = writer
      .beginFields()
      .double(1, Number(latitude.toFixed(6)))
      .double(2, Number(longitude.toFixed(6)))
      .finish();
    writer
      .begin(valueKind.message, 1)
      .double(1, Number(temperature.toFixed(1)))
      .double(2, Number(humidity.toFixed(1)))
      .double(3, Number(voltage.toFixed(3)))
      .double(4, Number((20 + 5 * numbers.normal()).toFixed(2)))
      .floatBits(5, floatBits(-60 - numbers.below(30)))
      .floatBits(6, floatBits(numbers.fraction()))
      .uint(7, BigInt(uptime))
      .uint(8, BigInt(sent));
    if (failed > 0) writer.int(9, BigInt(failed));
    return writer
      .int(10, BigInt(battery))
      .int(11, BigInt(state))
      .int(12, BigInt(mode))
      .bytes(13, text(software))
      .message(14, place)
      .finish();
  });
}

/** Anything that is canonical. */
export function randomValue(numbers: SeededNumbers): Uint8Array {
  const kinds: readonly ValueKind[] = Object.values(valueKind);
  const kind = kinds[numbers.below(kinds.length)]!;
  const writer = new TypedValueWriter().begin(kind, numbers.below(2));
  addRandomFields(writer, numbers, 1 + numbers.below(10), 0);
  return writer.finish();
}

/** What traces leave beside a counter: labels of their own each time, values of a few buckets. */
export function exemplarValues(numbers: SeededNumbers, rowCount: number): Uint8Array[] {
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => numbers.below(16).toString(16)).join('');
  return Array.from({ length: rowCount }, () => {
    const seconds = 0.002 * Math.exp(numbers.normal());
    const labels = [
      { name: Buffer.from('span_id'), value: Buffer.from(hex(16)) },
      { name: Buffer.from('trace_id'), value: Buffer.from(hex(32)) },
    ];
    return valueOfExemplar(bitsOfDouble(Number(seconds.toFixed(6))), labels);
  });
}

function addRandomFields(
  writer: TypedValueWriter,
  numbers: SeededNumbers,
  count: number,
  depth: number,
): void {
  let number = 0;
  for (let i = 0; i < count; i++) {
    number += numbers.below(20) === 0 ? 1 + numbers.below(1 << 20) : 1 + numbers.below(3);
    const word = (BigInt(numbers.u32()) << 32n) | BigInt(numbers.u32());
    const some = word >> BigInt(numbers.below(64));
    switch (numbers.below(depth < 3 ? 6 : 5)) {
      case 0:
        writer.int(number, BigInt.asIntN(64, numbers.below(2) === 0 ? some : -some));
        break;
      case 1:
        writer.uint(number, some);
        break;
      case 2:
        if (numbers.below(4) === 0) writer.doubleBits(number, word);
        else writer.double(number, numbers.below(1000) / 10);
        break;
      case 3:
        writer.floatBits(
          number,
          numbers.below(4) === 0 ? numbers.u32() : floatBits(numbers.below(100) / 8),
        );
        break;
      case 4:
        writer.bytes(
          number,
          Uint8Array.from({ length: numbers.below(12) }, () => numbers.below(3)),
        );
        break;
      default: {
        const inner = new TypedValueWriter().beginFields();
        addRandomFields(inner, numbers, numbers.below(5), depth + 1);
        writer.message(number, inner.finish());
      }
    }
  }
}

/** Values of a few shapes, so that fields come and go. */
export function mixedValues(numbers: SeededNumbers, rowCount: number): Uint8Array[] {
  const shapes = Array.from({ length: 1 + numbers.below(5) }, () => randomValue(numbers));
  return Array.from({ length: rowCount }, () =>
    numbers.below(4) === 0 ? randomValue(numbers) : shapes[numbers.below(shapes.length)]!,
  );
}

/** Fields that are there or not, row by row. */
function sparseValues(numbers: SeededNumbers, rowCount: number): Uint8Array[] {
  const often = 1 + numbers.below(5);
  return Array.from({ length: rowCount }, (_, row) => {
    const writer = new TypedValueWriter().begin(valueKind.message, 1);
    for (let number = 1; number < 8; number++) {
      if (numbers.below(often + number) > 1) continue;
      if (number % 3 === 0) writer.double(number, row + numbers.below(10));
      else
        writer.uint(
          number,
          BigInt(numbers.below(number === 4 ? 3 : 1000) + (number === 5 ? 0 : 1)),
        );
    }
    return writer.finish();
  });
}

const makers: readonly (readonly [
  name: string,
  make: (numbers: SeededNumbers, rowCount: number) => Uint8Array[],
])[] = [
  ['histogram, counter', (n, rows) => histogramValues(n, rows, { perRow: 200, schema: 3 })],
  ['histogram, few', (n, rows) => histogramValues(n, rows, { perRow: 3, schema: 3 })],
  [
    'histogram, gauge',
    (n, rows) => histogramValues(n, rows, { perRow: 40, schema: 2, isGauge: true }),
  ],
  [
    'histogram, floats',
    (n, rows) => histogramValues(n, rows, { perRow: 50, schema: 1, scale: 1 / 15 }),
  ],
  ['histogram, custom bounds', customHistogramValues],
  ['device', deviceValues],
  ['exemplars', exemplarValues],
  ['fields that come and go', sparseValues],
  ['anything', mixedValues],
];

export const typedSampleNames: readonly string[] = makers.map(([name]) => name);

/** Rows of one of the names, with irregular times, versions of their own, or starts now and then. */
export function typedSample(seed: number, rowCount: number, name?: string): TypedSample {
  const numbers = new SeededNumbers(seed);
  const [chosen, make] =
    makers.find(([each]) => each === name) ?? makers[numbers.below(makers.length)]!;
  const rows = rowsOf(make(numbers, rowCount), numbers);
  return { name: chosen, rows };
}

/** The same rows, with a stale marker, irregular times, lags and starts as chance has it. */
export function varied(rows: TypedRows, numbers: SeededNumbers): TypedRows {
  const values = [...rows.values];
  if (numbers.below(4) === 0) values[values.length - 1] = staleHistogram;
  const unit = [1n, 1_000n, 1_000_000n, 1_000_000_000n][numbers.below(4)]!;
  const timestampNanos =
    numbers.below(2) === 0
      ? rows.timestampNanos
      : rows.timestampNanos.map((nanos) => nanos + BigInt(numbers.below(9)) * unit);
  const rowVersions =
    numbers.below(2) === 0
      ? rows.rowVersions
      : rows.rowVersions.map(
          (version) => version + (numbers.below(8) === 0 ? numbers.below(1 << 20) : 0),
        );
  const starts = [
    null,
    timestampNanos.map(() => startNanos - 5_000_000_000n),
    timestampNanos.map((nanos) => (numbers.below(3) === 0 ? 0n : nanos - 60_000_000_000n)),
  ];
  return { values, timestampNanos, rowVersions, startNanos: starts[numbers.below(3)]! };
}

/** Windows that differ in what their order goes by. */
export function windowValues(numbers: SeededNumbers, count: number): Uint8Array[] {
  return Array.from({ length: count }, () =>
    valueOfWindow({
      deletions: BigInt(numbers.below(3)) * 1_700_000_000_000n,
      rows: numbers.below(3) * 100,
      lags: numbers.below(2) * numbers.below(1 << 24),
      others: numbers.below(2),
      last: numbers.below(3),
      min: -numbers.below(2),
      max: numbers.below(2),
      sum: numbers.below(5) / 4,
      resets: 0,
      lastNumber: 0,
      first: 0,
    }),
  );
}

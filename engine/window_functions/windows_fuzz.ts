/**
 * The fast window functions and their twin give the same bits for any chunks, grid and function.
 * `assertSame` says which may differ by how much, and why.
 */
import assert from 'node:assert/strict';
import { encodeRawChunk } from '../codec/chunk.ts';
import { encodeRowsChunk } from '../codec/chunk_rows.ts';
import type { ChunkRows } from '../codec/chunk.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import {
  encodeFloatChunk,
  encodeFloatLagsChunk,
  encodeFloatStartsChunk,
} from '../codec/codec_twin.ts';
import { mergeChunks } from '../codec/decoder_twin.ts';
import { absentBits, makeRowBuffer } from './row.ts';
import type { RowBuffer } from './row.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import {
  windowFunctions,
  type WindowEvaluator,
  type WindowFunction,
  type WindowRequest,
} from './windows.ts';
import { WindowsKernel } from './kernel.ts';
import { WindowsTwin } from './windows_twin.ts';

const oddBits = [
  0x7ff0000000000002n,
  0x7ff8000000000001n,
  0x7ff0000000000000n,
  0xfff0000000000000n,
  0x8000000000000000n,
  0x7fefffffffffffffn,
];

/** One series of chunks that may overlap. */
function chunksOf(random: SeededNumbers, rowsMax: number): Uint8Array {
  const kind = random.below(4);
  const stepNanos = [15_000_000_000n, 1_000_000_000n, 1_500_000n, 60_000_000_000n][
    random.below(4)
  ]!;
  const chunks: Uint8Array[] = [];
  let next = 1_700_000_000_000_000_000n;
  for (let chunk = random.below(4); chunk >= 0; chunk--) {
    const rowCount = 1 + random.below(rowsMax);
    if (random.below(4) === 0) next -= BigInt(random.below(20)) * stepNanos;
    const timestampNanos = new BigInt64Array(rowCount);
    const bits = new BigUint64Array(rowCount);
    const values = new Float64Array(bits.buffer);
    let held = random.below(100);
    for (let i = 0; i < rowCount; i++) {
      timestampNanos[i] = next;
      next += stepNanos + (random.below(8) === 0 ? BigInt(random.below(1_000_000)) : 0n);
      held += random.below(7) - 2;
      if (kind === 0) values[i] = held;
      else if (kind === 1) values[i] = held / 100;
      else if (kind === 2) values[i] = (random.below(1_000_000) - 500_000) * 1e-7 * held;
      else if (random.below(10) === 0) bits[i] = oddBits[random.below(oddBits.length)]!;
      else values[i] = held;
      if (random.below(30) === 0) held = 0;
    }
    const rows: ChunkRows = { timestampNanos, values, version: 100 + random.below(3) };
    const rowVersions = values.map(() => rows.version - random.below(3));
    const startNanos = timestampNanos.map((nanos) => (random.below(4) === 0 ? nanos : 1n));
    const forms = [
      () => encodeRawChunk(rows),
      () => encodeRowsChunk({ ...rows, rowVersions }),
      () => encodeFloatChunk(rows),
      () => encodeFloatLagsChunk({ ...rows, rowVersions }),
      () => encodeFloatStartsChunk({ ...rows, rowVersions, startNanos }),
    ];
    chunks.push(forms[random.below(forms.length)]!());
    if (random.below(6) === 0) chunks.push(chunks[chunks.length - 1]!);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

function bundleOf(series: readonly Uint8Array[]): SeriesBundle {
  const chunkOffset = new Uint32Array(series.length + 1);
  series.forEach((bytes, i) => (chunkOffset[i + 1] = chunkOffset[i]! + bytes.length));
  return {
    seriesCount: series.length,
    tagsData: new Uint8Array(0),
    tagsOffset: new Uint32Array(series.length + 1),
    idScheme: new Uint8Array(series.length),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(series.length + 1),
    chunkData: new Uint8Array(Buffer.concat(series)),
    chunkOffset,
  };
}

function requestOf(random: SeededNumbers, windowFunction: WindowFunction): WindowRequest {
  const stepCount = 1 + random.below(60);
  const start = 1_700_000_000_000 + random.below(600_000) - 60_000;
  const parameter = (): Float64Array =>
    new Float64Array(stepCount).fill((random.below(130) - 5) / 100);
  return {
    function: windowFunction,
    stepCount,
    referenceStartMillis: start,
    referenceStepMillis: random.below(5) === 0 ? 0 : 1 + random.below(60_000),
    rangeMillis: random.below(10) === 0 ? 0 : 1 + random.below(900_000),
    evaluationStartMillis: start + 1000,
    evaluationStepMillis: 1000,
    parameters: [parameter(), parameter()],
  };
}

/** NaNs that were computed may have any sign and payload, and be quiet or signalling. */
function comparable(bits: bigint): bigint {
  const magnitude = bits & 0x7fffffffffffffffn;
  return magnitude > 0x7ff0000000000000n ? 0x7ff8000000000000n : bits;
}

interface Forms {
  readonly kernel: WindowsKernel;
  readonly twin: WindowsTwin;
}

/** One row of each form. */
interface Rows {
  readonly ofKernel: RowBuffer;
  readonly ofTwin: RowBuffer;
  /** By step: the largest number of the window. */
  readonly largest: readonly number[];
}

/**
 * By how much the fast form may be away from the definition, where it is not the same arithmetic.
 * Sums and means: blocks of rows are added in another order, so the last bit may be rounded
 * otherwise. Variances: one pass over the rows instead of a mean first, so what is small beside the
 * rows' own size is lost. Quantiles: 0 and -0 are equal, so either may stand at a rank.
 */
function toleranceOf(name: WindowFunction, expected: number, largest: number): number {
  const size = Math.abs(expected);
  if (name === 'sum' || name === 'avg') return 1e-14 * size;
  if (name === 'stddev') return 1e-11 * size + 1e-13 * largest;
  if (name === 'stdvar') return 1e-11 * size + (1e-13 * largest) ** 2;
  return 0;
}

const mayRoundOtherwise: ReadonlySet<WindowFunction> = new Set([
  'sum',
  'avg',
  'stddev',
  'stdvar',
  'quantile',
  'mad',
]);

function assertSame(name: WindowFunction, rows: Rows, label: string): void {
  const { ofKernel, ofTwin, largest } = rows;
  for (let step = 0; step < ofTwin.bits.length; step++) {
    const place = `${label}, ${name}, step ${step}`;
    const [value, expected] = [ofKernel.values[step]!, ofTwin.values[step]!];
    const isNumber = !Number.isNaN(value) && !Number.isNaN(expected);
    if (!isNumber || value !== expected) {
      if (isNumber && mayRoundOtherwise.has(name)) {
        const tolerance = toleranceOf(name, expected, largest[step]!);
        const text = `${place}: ${value} instead of ${expected}`;
        assert.ok(Math.abs(value - expected) <= tolerance, text);
        continue;
      }
    } else if (mayRoundOtherwise.has(name)) continue;
    assert.equal(comparable(ofKernel.bits[step]!), comparable(ofTwin.bits[step]!), place);
  }
}

/** Rows of both forms, with a step on either side that stays as it is. */
function rowsOf(
  forms: Forms,
  request: WindowRequest,
  evaluate: (windows: WindowEvaluator, request: WindowRequest, target: RowBuffer) => void,
): Rows {
  const row = (windows: WindowEvaluator, name: WindowFunction): RowBuffer => {
    const target = makeRowBuffer(request.stepCount + 2);
    evaluate(windows, { ...request, function: name }, target);
    return target;
  };
  const [least, greatest] = [row(forms.twin, 'min').values, row(forms.twin, 'max').values];
  return {
    ofKernel: row(forms.kernel, request.function),
    ofTwin: row(forms.twin, request.function),
    largest: Array.from(least, (value, step) =>
      Math.max(Math.abs(value), Math.abs(greatest[step]!)),
    ),
  };
}

/** Rows after evaluation, or `null` when the chunks are refused. */
function rowsOrRefused(evaluate: () => number): number | null {
  try {
    return evaluate();
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    return null;
  }
}

/** Damaged chunks for each function: both refuse them or both give the same. */
function fuzzDamaged(random: SeededNumbers, forms: Forms, label: string): void {
  const good = chunksOf(random, 20);
  const startNanos = 1_699_999_000_000_000_000n;
  const endNanos = startNanos + 100_000_000_000_000n;
  for (const name of windowFunctions) {
    const bad = good.slice();
    for (let flips = 1 + random.below(3); flips > 0; flips--) {
      bad[random.below(bad.length)]! ^= 1 << random.below(8);
    }
    const bundle = bundleOf([bad]);
    const evaluate = (windows: WindowEvaluator, request: WindowRequest, target: RowBuffer) =>
      rowsOrRefused(() => windows.evaluate(request, bundle, 0, startNanos, endNanos, target, 1));
    const request = requestOf(random, name);
    const place = `${label}, damaged`;
    const spare = makeRowBuffer(request.stepCount + 2);
    const kernelRows = evaluate(forms.kernel, request, spare);
    assert.equal(kernelRows, evaluate(forms.twin, request, spare), `${place}, ${name}`);
    if (kernelRows !== null) assertSame(name, rowsOf(forms, request, evaluate), place);
  }
}

/** The rows of a subquery: columns without stale markers. */
function fuzzColumns(random: SeededNumbers, forms: Forms, label: string): void {
  const rows = mergeChunks(chunksOf(random, 100), 0n, 2n ** 62n);
  const bits = new BigUint64Array(rows.values.buffer);
  const kept = Array.from(bits.keys()).filter((row) => bits[row] !== absentBits);
  const times = Float64Array.from(kept, (row) => Number(rows.timestampNanos[row]! / 1_000_000n));
  const values = new Float64Array(BigUint64Array.from(kept, (row) => bits[row]!).buffer);
  for (const name of windowFunctions) {
    if (name === 'instant' || name === 'instantTime') continue;
    const request = requestOf(random, name);
    const both = rowsOf(forms, request, (windows, wanted, target) =>
      windows.evaluateColumns(wanted, times, values, kept.length, target, 1),
    );
    assertSame(name, both, `${label}, columns`);
  }
}

export function fuzz(seed: number, size: number): void {
  const random = new SeededNumbers(seed);
  const forms: Forms = { kernel: new WindowsKernel(), twin: new WindowsTwin() };
  for (let round = 0; round < size; round++) {
    const label = `seed ${seed}, round ${round}`;
    fuzzDamaged(random, forms, label);
    fuzzColumns(random, forms, label);
    const count = 1 + random.below(3);
    const regular = chunksOf(random, 200);
    const bundle = bundleOf(
      Array.from({ length: count }, () =>
        random.below(3) === 0 ? regular : chunksOf(random, random.below(30) === 0 ? 6000 : 300),
      ),
    );
    const startNanos = 1_700_000_000_000_000_000n - BigInt(random.below(1000)) * 1_000_000_000n;
    const endNanos = startNanos + BigInt(1 + random.below(9000)) * 1_000_000_000n;
    const requests = windowFunctions.map((name) => requestOf(random, name));
    for (let index = 0; index < count; index++) {
      for (const request of requests) {
        const decoded: number[] = [];
        const rows = rowsOf(forms, request, (windows, wanted, target) => {
          const rowCount = windows.evaluate(wanted, bundle, index, startNanos, endNanos, target, 1);
          decoded.push(rowCount);
        });
        const place = `${label}, series ${index}`;
        assert.equal(new Set(decoded).size, 1, `${place}: one number of rows`);
        assertSame(request.function, rows, place);
      }
    }
  }
}

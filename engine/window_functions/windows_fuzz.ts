/**
 * The windows kernel and its twin give the same bits for any chunks, grid and function (sums: all
 * but the last).
 */
import assert from 'node:assert/strict';
import { encodeRawChunk } from '../codec/chunk.ts';
import { encodeRowsChunk } from '../codec/chunk_rows.ts';
import type { ChunkRows } from '../codec/chunk.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { encodeFloatChunk } from '../codec/codec_twin.ts';
import { isAbsent, makeRowBuffer } from './row.ts';
import type { RowBuffer } from './row.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import type { WindowFunction, WindowRequest } from './windows.ts';
import { WindowsKernel } from './kernel.ts';
import { WindowsTwin } from './windows_twin.ts';

const functions: readonly WindowFunction[] = [
  'instant',
  'instantTime',
  'rate',
  'increase',
  'delta',
  'irate',
  'idelta',
  'changes',
  'resets',
  'sum',
  'avg',
  'min',
  'max',
  'count',
  'last',
  'first',
  'present',
  'stddev',
  'stdvar',
  'deriv',
  'predictLinear',
  'quantile',
];

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
    const forms = [
      () => encodeRawChunk(rows),
      () => encodeRowsChunk({ ...rows, rowVersions }),
      () => encodeFloatChunk(rows),
    ];
    chunks.push(forms[random.below(3)]!());
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
  const parameter = new Float64Array(stepCount).fill(random.below(120) / 100);
  return {
    function: windowFunction,
    stepCount,
    referenceStartMillis: start,
    referenceStepMillis: random.below(5) === 0 ? 0 : 1 + random.below(60_000),
    rangeMillis: 1 + random.below(900_000),
    evaluationStartMillis: start + 1000,
    evaluationStepMillis: 1000,
    parameters: [parameter],
  };
}

/** NaNs that were computed may have any sign and payload. */
function comparable(bits: BigUint64Array): bigint[] {
  return Array.from(bits, (word) =>
    (word & 0x7ff8000000000000n) === 0x7ff8000000000000n ? 0x7ff8000000000000n : word,
  );
}

/** Sums of blocks are as exact as the twin's, but may round the last bit otherwise. */
function assertClose(a: RowBuffer, b: RowBuffer, place: string): void {
  a.values.forEach((value, step) => {
    const other = b.values[step]!;
    if (Number.isNaN(value) || Number.isNaN(other)) {
      assert.equal(isAbsent(a.words, step), isAbsent(b.words, step), place);
      assert.ok(Number.isNaN(value) && Number.isNaN(other), place);
    } else if (value !== other) {
      assert.ok(Math.abs(value - other) <= 1e-14 * Math.abs(other), `${place}: ${value} ${other}`);
    }
  });
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
function fuzzDamaged(
  random: SeededNumbers,
  pair: { kernel: WindowsKernel; twin: WindowsTwin },
  label: string,
): void {
  const good = chunksOf(random, 20);
  const startNanos = 1_699_999_000_000_000_000n;
  const endNanos = startNanos + 100_000_000_000_000n;
  for (const windowFunction of functions) {
    const bad = good.slice();
    for (let flips = 1 + random.below(3); flips > 0; flips--) {
      bad[random.below(bad.length)]! ^= 1 << random.below(8);
    }
    const bundle = bundleOf([bad]);
    const request = requestOf(random, windowFunction);
    const [ofKernel, ofTwin] = [request, request].map(() => makeRowBuffer(request.stepCount));
    const range = [startNanos, endNanos] as const;
    const kernelRows = rowsOrRefused(() =>
      pair.kernel.evaluate(request, bundle, 0, ...range, ofKernel!, 0),
    );
    const twinRows = rowsOrRefused(() =>
      pair.twin.evaluate(request, bundle, 0, ...range, ofTwin!, 0),
    );
    const place = `${label}, damaged, ${windowFunction}`;
    assert.equal(kernelRows, twinRows, place);
    if (kernelRows === null) continue;
    if (windowFunction === 'sum' || windowFunction === 'avg') continue;
    assert.deepEqual(comparable(ofKernel!.bits), comparable(ofTwin!.bits), place);
  }
}

export function fuzz(seed: number, size: number): void {
  const random = new SeededNumbers(seed);
  const kernel = new WindowsKernel();
  const twin = new WindowsTwin();
  for (let round = 0; round < size; round++) {
    fuzzDamaged(random, { kernel, twin }, `seed ${seed}, round ${round}`);
    const count = 1 + random.below(3);
    const regular = chunksOf(random, 200);
    const bundle = bundleOf(
      Array.from({ length: count }, () =>
        random.below(3) === 0 ? regular : chunksOf(random, random.below(10) === 0 ? 6000 : 300),
      ),
    );
    const startNanos = 1_700_000_000_000_000_000n - BigInt(random.below(1000)) * 1_000_000_000n;
    const endNanos = startNanos + BigInt(1 + random.below(9000)) * 1_000_000_000n;
    for (const windowFunction of functions) {
      const request = requestOf(random, windowFunction);
      for (let index = 0; index < count; index++) {
        const ofKernel = makeRowBuffer(request.stepCount + 2);
        const ofTwin = makeRowBuffer(request.stepCount + 2);
        const kernelRows = kernel.evaluate(
          request,
          bundle,
          index,
          startNanos,
          endNanos,
          ofKernel,
          1,
        );
        const twinRows = twin.evaluate(request, bundle, index, startNanos, endNanos, ofTwin, 1);
        const place = `seed ${seed}, round ${round}, ${windowFunction}, series ${index}`;
        assert.equal(kernelRows, twinRows, place);
        if (windowFunction === 'sum' || windowFunction === 'avg') {
          assertClose(ofKernel, ofTwin, place);
        } else assert.deepEqual(comparable(ofKernel.bits), comparable(ofTwin.bits), place);
      }
    }
  }
}

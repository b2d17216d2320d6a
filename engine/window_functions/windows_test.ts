import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeRawChunk } from '../codec/chunk.ts';
import { encodeFloatChunk } from '../codec/codec_twin.ts';
import { absentBits, makeRowBuffer } from './row.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import {
  tooDear,
  type WindowEvaluator,
  type WindowFunction,
  type WindowRequest,
} from './windows.ts';
import { WindowsKernel } from './kernel.ts';
import { WindowsTwin } from './windows_twin.ts';

const originMillis = 1_700_000_000_000;
const staleBits = 0x7ff0000000000002n;

function bundleOf(chunks: readonly Uint8Array[]): SeriesBundle {
  const chunkData = new Uint8Array(Buffer.concat(chunks));
  return {
    seriesCount: 1,
    tagsData: new Uint8Array(0),
    tagsOffset: new Uint32Array(2),
    idScheme: new Uint8Array(1),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(2),
    chunkData,
    chunkOffset: Uint32Array.of(0, chunkData.length),
  };
}

/** A row every ten seconds. */
function rowsOf(
  values: Float64Array,
  first = 0,
): { timestampNanos: BigInt64Array; values: Float64Array } {
  const timestampNanos = BigInt64Array.from(
    { length: values.length },
    (_, i) => BigInt(originMillis + (first + i) * 10_000) * 1_000_000n,
  );
  return { timestampNanos, values };
}

function request(
  windowFunction: WindowFunction,
  stepCount: number,
  rangeMillis: number,
): WindowRequest {
  return {
    function: windowFunction,
    stepCount,
    referenceStartMillis: originMillis,
    referenceStepMillis: 10_000,
    rangeMillis,
    evaluationStartMillis: originMillis,
    evaluationStepMillis: 10_000,
    parameters: [],
  };
}

function evaluate(
  windows: WindowEvaluator,
  wanted: WindowRequest,
  chunks: readonly Uint8Array[],
): BigUint64Array {
  const target = makeRowBuffer(wanted.stepCount);
  windows.evaluate(wanted, bundleOf(chunks), 0, 0n, 2n ** 62n, target, 0);
  return target.bits;
}

const forms: readonly (readonly [string, () => WindowEvaluator])[] = [
  ['kernel', () => new WindowsKernel()],
  ['twin', () => new WindowsTwin()],
];

for (const [name, make] of forms) {
  test(`a stale marker ends a series and keeps its bits apart from NaN (${name})`, () => {
    const bits = BigUint64Array.of(0x3ff0000000000000n, staleBits, 0x7ff8000000000000n);
    const chunks = [encodeFloatChunk({ ...rowsOf(new Float64Array(bits.buffer)), version: 1 })];
    assert.deepEqual(
      [...evaluate(make(), request('instant', 4, 15_000), chunks)],
      [0x3ff0000000000000n, absentBits, 0x7ff8000000000000n, 0x7ff8000000000000n],
    );
    assert.deepEqual(
      [...new Float64Array(evaluate(make(), request('count', 3, 30_000), chunks).buffer)],
      [1, 1, 2],
    );
  });

  test(`of rows with one time the higher version counts, whatever order chunks have (${name})`, () => {
    const old = encodeRawChunk({ ...rowsOf(Float64Array.of(1, 2, 3, 4)), version: 5 });
    const rewrite = encodeRawChunk({ ...rowsOf(Float64Array.of(20, 30), 1), version: 6 });
    const late = encodeRawChunk({ ...rowsOf(Float64Array.of(9), 5), version: 5 });
    const wanted = request('last', 6, 10_000);
    for (const chunks of [
      [old, rewrite, late],
      [late, rewrite, old, old],
      [rewrite, late, old, late, rewrite],
    ]) {
      const bits = evaluate(make(), wanted, chunks);
      assert.equal(bits[4], absentBits);
      const values = [...new Float64Array(bits.buffer)];
      assert.deepEqual([...values.slice(0, 4), values[5]], [1, 20, 30, 4, 9]);
    }
  });

  test(`a malformed chunk is refused by name, not read (${name})`, () => {
    const chunk = encodeFloatChunk({ ...rowsOf(Float64Array.of(1.5, 2.25, 3)), version: 1 });
    assert.throws(() => evaluate(make(), request('sum', 2, 60_000), [chunk.subarray(0, 9)]), {
      code: 'BAD_REQUEST',
    });
  });

  test(`large values do not swallow small ones in sums of many windows (${name})`, () => {
    const values = new Float64Array(2000);
    for (let i = 0; i < values.length; i++) values[i] = i === 5 ? 1e17 : i === 7 ? -1e17 : 0.1;
    const bits = evaluate(make(), request('sum', 2000, 5_000_000), [
      encodeRawChunk({ ...rowsOf(values), version: 1 }),
    ]);
    const sums = new Float64Array(bits.buffer);
    assert.ok(Math.abs(sums[400]! - 39.9) < 1e-9, String(sums[400]));
    assert.ok(Math.abs(sums[1900]! - 50) < 1e-9, String(sums[1900]));
  });
}

test('the kernel gives the memory of long series back', () => {
  const kernel = new WindowsKernel();
  const before = kernel.memoryBytes;
  const long = Array.from({ length: 8 }, (_, i) =>
    encodeRawChunk({ ...rowsOf(new Float64Array(60_000).fill(i), i * 60_000), version: 1 }),
  );
  const short = [encodeRawChunk({ ...rowsOf(Float64Array.of(1, 2)), version: 1 })];
  assert.equal(new Float64Array(evaluate(kernel, request('sum', 1, 1), long).buffer)[0], 0);
  assert.ok(kernel.memoryBytes > 64 * 1024 * 1024);
  // An order statistic copies its window, beside the memory of the kernel.
  const held = kernel.memoryBytes;
  const whole = { ...request('mad', 1, 1e12), referenceStartMillis: originMillis + 1e12 / 2 };
  assert.equal(new Float64Array(evaluate(kernel, whole, long).buffer)[0], 2);
  assert.ok(kernel.memoryBytes >= held + 8 * 60_000 * 8);
  for (let i = 0; i < 1100; i++) {
    const bits = evaluate(kernel, request('sum', 2, 60_000), short);
    assert.deepEqual([...new Float64Array(bits.buffer)], [1, 3]);
  }
  assert.equal(kernel.memoryBytes, before);
});

test('an evaluator keeps nothing of another, nor of the function before', () => {
  const [one, other] = [new WindowsKernel(), new WindowsKernel()];
  const before = one.memoryBytes;
  const chunkOf = (...values: number[]) => [
    encodeRawChunk({ ...rowsOf(Float64Array.from(values)), version: 1 }),
  ];
  const many = chunkOf(...Array.from({ length: 3000 }, (_, i) => i));
  const wanted = (name: WindowFunction): WindowRequest => ({
    ...request(name, 1, 1e12),
    referenceStartMillis: originMillis + 1e12 / 2,
  });
  const ask = (windows: WindowsKernel, name: WindowFunction, chunks: readonly Uint8Array[]) =>
    new Float64Array(evaluate(windows, wanted(name), chunks).buffer)[0];
  for (let round = 0; round < 3; round++) {
    assert.equal(ask(one, 'mad', chunkOf(1, 2, 4, 9)), 1.5);
    assert.equal(ask(other, 'mad', many), 750);
    assert.equal(ask(one, 'changes', chunkOf(1, 1, 2)), 1);
    assert.equal(ask(other, 'resets', many), 0);
    assert.equal(ask(one, 'mad', chunkOf(5, 5, 8)), 0);
  }
  assert.equal(one.memoryBytes, before);
});

/** Every function that looks at each row of a window, over values that its fast ways do not cover. */
const dear: Readonly<Record<string, (i: number) => number>> = {
  rate: (i) => (i % 7) + 0.5,
  increase: (i) => (i % 7) + 0.5,
  sum: (i) => i + 0.1,
  avg: (i) => i + 0.1,
  min: (i) => i,
  max: (i) => -i,
  stddev: (i) => i,
  deriv: (i) => i,
  quantile: (i) => i,
  mad: (i) => i,
  timeOfMax: (i) => i,
};
for (const [name, valueOf] of Object.entries(dear)) {
  test(`what would hold up others is said before it is done: ${name}`, () => {
    const rows = 5_000;
    const steps = 4_000;
    const half = new Float64Array(steps).fill(0.5);
    const of = (rangeMillis: number): WindowRequest => ({
      ...request(name as WindowFunction, steps, rangeMillis),
      parameters: [half],
    });
    const values = Float64Array.from({ length: rows }, (_, i) => valueOf(i));
    const chunks = [encodeFloatChunk({ ...rowsOf(values), version: 1 })];
    const windows = new WindowsKernel();
    const target = makeRowBuffer(steps);
    const run = (wanted: WindowRequest, unitsMax: number): number =>
      windows.evaluate(wanted, bundleOf(chunks), 0, 0n, 2n ** 62n, target, 0, unitsMax);
    const small = of(20_000);
    const large = of(1e9);
    assert.equal(run(large, 300_000), tooDear);
    assert.equal(run(small, 300_000), rows, 'small windows are cheap');
    const expected = [...evaluate(windows, large, chunks)];
    assert.equal(run(large, 1e12), rows);
    assert.deepEqual([...target.bits], expected, 'what was given up has left nothing behind');
    assert.equal(run(small, rows), tooDear, 'the rows alone');
  });
}

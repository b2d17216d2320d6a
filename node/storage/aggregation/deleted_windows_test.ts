import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WindowFold } from '#engine/aggregation/fold.ts';
import { apart, mergeTyped, readTyped } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { bitsOfDouble, TypedValueWriter, valueKind } from '#engine/typed/typed_value.ts';
import { type AggregatedWindow, windowOfValue } from '#engine/typed/window.ts';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { type DeletedRange, DeletedWindows, knowsDeletions } from './deleted_windows.ts';

const second = 1_000_000_000n;
const fold = new WindowFold();

/** Windows of rows at some multiples of a second, in the fold. */
function foldSome(numbers: SeededNumbers, startNanos: bigint, resolution: bigint, count: number) {
  fold.begin(resolution, count);
  const times: bigint[] = [];
  const first = startNanos - resolution + 1n;
  const seconds = Number((BigInt(count) * resolution) / second);
  for (let at = numbers.below(20); at < seconds; at += 1 + numbers.below(40)) {
    times.push(first + BigInt(at) * second);
  }
  fold.add(
    BigInt64Array.from(times),
    Float64Array.from(times, () => numbers.below(100)),
  );
  fold.end();
}

function windowsOf(chunks: readonly Uint8Array[]): Map<bigint, AggregatedWindow> {
  const { timestampNanos, values } = readTyped(apart(chunks).typed, allTimes);
  return new Map(
    values.flatMap((value, i): [bigint, AggregatedWindow][] => {
      return value[0] === valueKind.window ? [[timestampNanos[i]!, windowOfValue(value)]] : [];
    }),
  );
}

/** A value at a time that a window could have, written by somebody. */
function byHand(nanos: bigint): Uint8Array {
  const writer = new TypedValueWriter();
  writer.begin(valueKind.message, 0);
  writer.uint(1, 5n);
  const value = writer.finish();
  return encodeTypedRows({
    timestampNanos: BigInt64Array.of(nanos),
    valueBytes: value,
    valueEnds: Uint32Array.of(value.length),
    rowVersions: Float64Array.of(1),
    startNanos: null,
  });
}

test('each window says the last deletion that touches it, and one of which nothing is left says that', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const numbers = new SeededNumbers(seed);
    const resolution = [second, 7n * second, 60n * second, 3600n * second][numbers.below(4)]!;
    const count = 1 + numbers.below(150);
    const startNanos = (BigInt(numbers.below(2 ** 20)) - 2n ** 18n) * resolution;
    const slice = { startNanos, endNanos: startNanos + BigInt(count) * resolution };
    let before: Uint8Array[] = [];
    for (let i = 0; i < numbers.below(3); i++) {
      foldSome(numbers, startNanos, resolution, count);
      const versions = Float64Array.from(fold.endNanos, () => {
        return numbers.below(3) === 0 ? numbers.below(60) * 2 ** 32 : 0;
      });
      before.push(fold.chunks(versions));
    }
    // A volume has merged them, where they are not too many.
    if (numbers.below(2) === 0) {
      before.push(byHand(startNanos + BigInt(numbers.below(count)) * resolution));
      before = [mergeTyped(apart(before).typed, allTimes)];
    }
    const seconds = Number((slice.endNanos - startNanos) / second);
    const deletions = Array.from({ length: numbers.below(6) }, (_, i): DeletedRange => {
      const from = startNanos + BigInt(numbers.below(seconds + 60) - 30) * second;
      const to = from + BigInt(numbers.below(seconds)) * second + BigInt(numbers.below(2));
      return { startNanos: from, endNanos: to, version: (10 * i + 5) * 2 ** 32 };
    });
    foldSome(numbers, startNanos, resolution, numbers.below(4) === 0 ? 0 : count);
    const made = windowsOf([fold.chunks()]);

    const old = windowsOf(before);
    const wanted = new Map<bigint, object>();
    for (let end = startNanos; end < slice.endNanos; end += resolution) {
      const touching = deletions.filter(
        (one) =>
          one.startNanos < one.endNanos &&
          one.startNanos <= end &&
          one.endNanos > end - resolution + 1n,
      );
      const own = Math.max(0, ...touching.map(({ version }) => version));
      const said = BigInt(Math.max(own, Number(old.get(end)?.deletions ?? 0n)));
      const window = made.get(end);
      if (window !== undefined) wanted.set(end, { ...window, deletions: said });
      else if (old.has(end) && own > 0) wanted.set(end, { rows: 0, deletions: said });
    }
    const deleted = new DeletedWindows(slice, resolution);
    // What was done for a series before is over.
    deleted.chunks(fold, before, [{ ...slice, version: 2 ** 50 }], resolution);
    const got = windowsOf([deleted.chunks(fold, before, deletions, resolution)]);
    const seen = [...got].map(([end, window]): [bigint, object] => {
      if (window.rows > 0) return [end, window];
      assert.equal(bitsOfDouble(window.last), staleBits);
      return [end, { rows: 0, deletions: window.deletions }];
    });
    assert.deepEqual(seen, [...wanted], `seed ${seed}`);
    assert.equal(
      knowsDeletions(before),
      [...old.values()].some((one) => one.deletions > 0n),
    );
  }
});

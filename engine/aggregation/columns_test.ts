import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { encodeTypedRows } from '../typed/codec.ts';
import { inColumns } from '../typed/codec_fuzz.ts';
import { deviceValues } from '../typed/samples_testing.ts';
import { valueKind } from '../typed/typed_value.ts';
import { type AggregatedWindow, countOf, valueOfWindow, windowOfValue } from '../typed/window.ts';
import { WindowColumnsReader } from './columns.ts';

const reader = new WindowColumnsReader();
const names = ['count', 'last', 'min', 'max', 'sum', 'resets', 'lastNumber', 'first'] as const;
const staleBits = 0x7ff0000000000002n;
const stale = new Float64Array(BigUint64Array.of(staleBits).buffer)[0]!;
const bitsOf = (values: Float64Array) =>
  [...new BigUint64Array(values.buffer, values.byteOffset, values.length)].map(String);

function chunkOf(values: readonly Uint8Array[]): { chunk: Uint8Array; times: bigint[] } {
  const timestampNanos = BigInt64Array.from(
    values,
    (_, i) => 1_700_000_100_000_000_000n + BigInt(i) * 300_000_000_000n,
  );
  const rowVersions = Float64Array.from(timestampNanos, (nanos) => Number(versionAtNanos(nanos)));
  const rows = inColumns({ timestampNanos, values, rowVersions, startNanos: null });
  return { chunk: encodeTypedRows(rows), times: [...timestampNanos] };
}

test('columns that are asked for come with the ends of the windows, zeros and all', () => {
  const numbers = new SeededNumbers(1);
  for (let round = 0; round < 200; round++) {
    const values = Array.from({ length: 1 + numbers.below(100) }, () =>
      numbers.below(10) === 0
        ? deviceValues(numbers, 1)[0]!
        : valueOfWindow({
            deletions: BigInt(numbers.below(2)),
            rows: numbers.below(3),
            lags: numbers.below(2),
            others: numbers.below(2),
            last: numbers.below(3) / 2,
            min: -numbers.below(2),
            max: numbers.below(2),
            sum: round % 2 === 0 ? 1 : numbers.below(5),
            resets: 0,
            lastNumber: numbers.below(2),
            first: numbers.below(2),
          }),
    );
    const { chunk, times } = chunkOf(values);
    const asked = names.filter(() => numbers.below(2) === 0);
    const read = reader.read(chunk, asked);
    const windows = values.flatMap((value, i) =>
      value[0] === valueKind.window ? [withCount(times[i]!, windowOfValue(value))] : [],
    );
    for (const [i, name] of asked.entries()) {
      assert.deepEqual(
        [...read[i]!.endNanos],
        windows.map(({ end }) => end),
      );
      const wanted = Float64Array.from(windows, (window) => window[name]);
      assert.deepEqual(bitsOf(read[i]!.values), bitsOf(wanted), `${name} of round ${round}`);
    }
  }
});

test('a stale marker stays one, in a column of all windows and of some', () => {
  const one = { ...windowOfValue(staleWindow), rows: 1, others: 0 };
  for (const last of [0, 5]) {
    const { chunk } = chunkOf([valueOfWindow({ ...one, last }), staleWindow]);
    const { values } = reader.read(chunk, ['last'])[0]!;
    assert.deepEqual(bitsOf(values), bitsOf(Float64Array.of(last, 0)).with(1, String(staleBits)));
  }
});

const withCount = (end: bigint, window: AggregatedWindow) => ({
  ...window,
  end,
  count: countOf(window),
});

const staleWindow = valueOfWindow({
  deletions: 0n,
  rows: 2,
  lags: 0,
  others: 1,
  last: stale,
  min: 1,
  max: 1,
  sum: 1,
  resets: 0,
  lastNumber: 1,
  first: 0,
});

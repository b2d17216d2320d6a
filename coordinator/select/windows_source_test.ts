/** Windows of recent samples, which nodes have not made yet. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { floatsOfWindows } from '#engine/aggregation/floats.ts';
import { WindowFold } from '#engine/aggregation/fold.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import { type ReadFloatRows, readFloats } from '#engine/store/chunk_merge.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import { MemoryStorage, withChunks } from '#test/conformance/promql/memory_storage.ts';
import type { SourceSetup } from './namespace_source.ts';
import { PlacesByRules } from './places_by_rules.ts';
import { recentWindows } from './recent_windows.ts';
import type { Matcher, SelectRange, SelectResult } from './storage.ts';
import { WindowsSource } from './windows_source.ts';

const { signal } = new AbortController();
const nanosPerMilli = 1_000_000n;
const minute = 60_000;
const hour = 60 * minute;
const now = Math.floor(1_700_000_000_000 / hour) * hour;
const bitsOf = (value: number) => new BigUint64Array(Float64Array.of(value).buffer)[0]!;

/** Nodes have made nothing yet. */
const setup = {
  session: { fetch: async () => ({ bundle: emptyBundle, exhaustive: true, warnings: [] }) },
  turningOf: () => ({ work: Turns.of(realEnv.clock).begin(signal) }),
  onFetched: () => {},
} as unknown as SourceSetup;

/** Windows of a minute that end in the last hours, of two days of rows, one every 15 s, which count up. */
function windowsOf(hours: number, endMillis: number, series = 1): Promise<SelectResult> {
  const storage = new MemoryStorage();
  for (let i = 0; i < series; i++) {
    const tags = [
      { name: '__name__', value: 'm' },
      { name: 'i', value: String(i) },
    ];
    for (let row = 0, millis = now - 48 * hour; millis <= now; row++, millis += 15_000) {
      storage.add(tags, millis, bitsOf(row));
    }
  }
  const recent = {
    fromNanos: BigInt(now - 48 * hour) * nanosPerMilli,
    resolutionNanos: BigInt(minute) * nanosPerMilli,
    nowNanos: BigInt(now) * nanosPerMilli,
    within: () => ({
      rows: {
        selectAny: ([matchers]: readonly (readonly Matcher[])[], range: SelectRange) =>
          storage.select(matchers!, range),
        dropped: null,
      },
      kept: null,
    }),
  };
  const windows = { namespace: 'minutes', resolutionMillis: minute, column: 'last' } as const;
  const source = new WindowsSource(setup, windows, null, recent);
  const range = {
    startNanos: BigInt(now - hours * hour) * nanosPerMilli + 1n,
    endNanos: BigInt(endMillis) * nanosPerMilli + 1n,
  };
  const limits = { seriesMax: 0, requireExhaustive: false };
  return source.select([{ name: '__name__', kind: '=', value: 'm' }], range, limits, signal);
}

function rowsOf({ bundle }: SelectResult, index: number): [minutes: number, value: number][] {
  const { chunkData, chunkOffset } = bundle;
  const chunks = chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
  const { timestampNanos, values } = readFloats([chunks], allTimes);
  return Array.from(timestampNanos, (nanos, i) => [
    (Number(nanos / nanosPerMilli) - now) / minute,
    values[i]!,
  ]);
}

/** The last of the rows up to the end of each minute. */
const wantedOf = (hours: number): [minutes: number, value: number][] =>
  Array.from({ length: 60 * hours }, (_, i) => {
    const minutes = i + 1 - 60 * hours;
    return [minutes, 4 * (48 * 60 + minutes)];
  });

test('more windows than a chunk has are made of recent samples', async () => {
  const result = await windowsOf(40, now);
  assert.deepEqual(rowsOf(result, 0), wantedOf(40));
});

test('a range up to the end of all time has the windows of the rows that there are', async () => {
  const wanted = wantedOf(10);
  for (const endMillis of [now, 9_223_372_036_854, Number.MAX_SAFE_INTEGER]) {
    const result = await windowsOf(10, endMillis, 3);
    for (const index of [0, 1, 2]) assert.deepEqual(rowsOf(result, index), wanted);
  }
});

test('a long series comes to the windows that its rows come to in one go, restarts of a counter and all', async () => {
  const second = 1_000_000_000n;
  const resolutionNanos = 60n * second;
  const startNanos = 1_700_000_040n * second + 1n;
  const count = 300_000;
  const timestampNanos = BigInt64Array.from(
    { length: count },
    (_, i) => startNanos - 1n + BigInt(i + 1) * second,
  );
  // With the first row of every fourth window, and within others; most have passed what they had come to when those end.
  const values = Float64Array.from({ length: count }, (_, i) => {
    const within = i % 240 < 230 ? i % 240 : (i % 240) - 230;
    return within * within;
  });
  const fold = new WindowFold();
  fold
    .begin(resolutionNanos, count / 60)
    .add(timestampNanos, values)
    .end();
  const wanted = floatsOfWindows(apart([fold.chunks()]).typed, 'counter', resolutionNanos);
  const range = { startNanos, endNanos: startNanos + BigInt(count) * second };
  const chunks = fold.floats(timestampNanos, values);
  const { work } = setup.turningOf(signal);
  const made = await recentWindows(chunks, range, resolutionNanos, 'counter', work);
  const plain = ({ timestampNanos: times, values: all }: ReadFloatRows): string =>
    Array.from(times, (nanos, i) => `${nanos}: ${all[i]}`).join('\n');
  assert.equal(plain(readFloats(made, allTimes)), plain(readFloats(wanted, allTimes)));
});

const staleBits = 0x7ff0000000000002n;
const allRange = { startNanos: 0n, endNanos: 2n ** 62n };
const numberOf = (bits: bigint): number => new Float64Array(BigUint64Array.of(bits).buffer)[0]!;

/** What a window of rows is read as; null where it is left out. */
function textOf(rows: readonly bigint[], type: string, column: string): string | null {
  const numbers = rows.filter((bits) => bits !== staleBits).map(numberOf);
  if (column === 'value' && rows.at(-1) === staleBits) return 'NaN';
  const sum = numbers.reduce((a, b) => a + b, 0);
  const of: Readonly<Record<string, number | undefined>> = {
    Max: Math.max(...numbers),
    Min: Math.min(...numbers),
    Sum: sum,
    Count: numbers.length,
    Mean: sum / numbers.length,
    Last: numbers.at(-1),
  };
  return numbers.length === 0 ? null : String(of[type]);
}

test('values of windows go by the rules that held when they began, whoever has made them', async () => {
  const policy = {
    resolutionNanos: BigInt(minute) * nanosPerMilli,
    retentionNanos: BigInt(720 * hour) * nanosPerMilli,
  };
  const storagePolicies = [{ resolution: '1m', retention: '720h' }];
  // By the minutes before now at which they come to hold: in what nodes have made, near where that ends, and behind it.
  const changes = [
    [150, 'Max'],
    [90, 'Sum'],
    [61, 'Min'],
    [30, 'Count'],
    [20, 'Mean'],
    [10, 'Last'],
  ] as const;
  const sets = ruleSetsOf(
    ...changes.map(([before, type]) => {
      const rule = { name: 'all', filter: 'i:1', aggregations: [type], storagePolicies };
      const cutoverNanos = BigInt(now - before * minute) * nanosPerMilli;
      return [cutoverNanos, { mappingRules: [rule] }] as const;
    }),
  );
  const storage = new MemoryStorage();
  /** Of the minute that begins so long before now; every tenth ends with a stale marker, after a single number or none. */
  const rowsIn = (before: number): bigint[] => {
    if (before % 10 === 0) return before % 20 === 0 ? [staleBits] : [bitsOf(before), staleBits];
    return [7, 3, 11, 5].map((value) => bitsOf((value * before) % 101));
  };
  for (const i of ['1', '2']) {
    const tags = [
      { name: '__name__', value: 'm' },
      { name: 'i', value: i },
    ];
    for (let before = 180; before > 0; before--) {
      for (const [at, bits] of rowsIn(before).entries()) {
        storage.add(tags, now - before * minute + (at + 1) * 15_000, bits);
      }
    }
  }
  const rows = {
    selectAny: ([matchers]: readonly (readonly Matcher[])[], range: SelectRange) =>
      storage.select(matchers!, range),
    dropped: null,
  };
  const ofNodes = async () => ({
    ...withChunks(await storage.select([], allRange), (chunks) => {
      const { timestampNanos, values } = readFloats([chunks], allTimes);
      const fold = new WindowFold().begin(policy.resolutionNanos, timestampNanos.length);
      fold.add(timestampNanos, values).end();
      return [fold.chunks()];
    }),
    responses: 1,
  });
  const setupOfBoth = { ...setup, session: { fetch: ofNodes } } as unknown as SourceSetup;
  const recent = {
    fromNanos: BigInt(now - hour) * nanosPerMilli,
    resolutionNanos: policy.resolutionNanos,
    nowNanos: BigInt(now) * nanosPerMilli,
    within: () => ({ rows, kept: null }),
  };
  const minutes = {
    namespace: 'minutes',
    resolutionMillis: minute,
    fromMillis: 0,
    takesAll: true,
    policy,
  };
  const places = new PlacesByRules(sets, [minutes]);
  for (const column of ['value', 'numericValue', 'max'] as const) {
    const windows = { namespace: 'minutes', resolutionMillis: minute, column };
    const source = new WindowsSource(setupOfBoth, windows, null, recent, places);
    const range = {
      startNanos: BigInt(now - 175 * minute) * nanosPerMilli,
      endNanos: BigInt(now) * nanosPerMilli + 1n,
    };
    const limits = { seriesMax: 0, requireExhaustive: false };
    const result = await source.selectAny([[]], range, limits, signal);
    for (const [index, isOfRule] of [
      [0, true],
      [1, false],
    ] as const) {
      const wanted: [minutes: number, text: string][] = [];
      for (let before = 176; before > 0; before--) {
        const type = isOfRule
          ? (changes.findLast(([from]) => from >= before)?.[1] ?? 'Last')
          : 'Last';
        const text = textOf(rowsIn(before), column === 'max' ? 'Max' : type, column);
        if (text !== null) wanted.push([1 - before, text]);
      }
      const found = rowsOf(result, index).map(([at, value]) => [at, String(value)]);
      assert.deepEqual(found, wanted, `${column} ${index}`);
    }
  }
});

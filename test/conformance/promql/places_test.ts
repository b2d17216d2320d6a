/**
 * Queries over series that are not everywhere: each series of each step is read from the finest namespace that has all that the
 * step looks at, and comes to what a query of that namespace alone comes to.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { noFeatures } from '#coordinator/promql/parse/features.ts';
import { PlacesByRules } from '#coordinator/select/places_by_rules.ts';
import type {
  Matcher,
  Restriction,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  Timeline,
} from '#coordinator/select/storage.ts';
import { floatsOfWindows } from '#engine/aggregation/floats.ts';
import { WindowFold } from '#engine/aggregation/fold.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { realEnv } from '#lib/env/real.ts';
import type { Tag } from '#lib/tags.ts';
import { columnWithoutRules, OverMemory, withChunks } from './memory_storage.ts';

const never = new AbortController().signal;
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const nanosPerMilli = 1_000_000n;
const begin = Math.floor(1_700_000_000_000 / day) * day;
const end = begin + 3 * day;
const cutover = begin + day + 10 * hour;
const finePolicy = { resolution: '5m', retention: '100h' };
const coarsePolicy = { resolution: '1h', retention: '1000h' };
const policyOf = (minutes: number, hours: number) => ({
  resolutionNanos: BigInt(minutes * minute) * nanosPerMilli,
  retentionNanos: BigInt(hours * hour) * nanosPerMilli,
});
const fine = {
  namespace: 'fine',
  resolutionMillis: 5 * minute,
  fromMillis: begin,
  takesAll: false,
  policy: policyOf(5, 100),
};
const coarse = {
  namespace: 'coarse',
  resolutionMillis: hour,
  fromMillis: begin,
  takesAll: true,
  policy: policyOf(60, 1000),
};

const rules = {
  mappingRules: [
    { name: 'fine', filter: 'host:a', storagePolicies: [finePolicy] },
    { name: 'gone', filter: 'host:b', drop: true },
    { name: 'coarse', filter: 'host:b', storagePolicies: [coarsePolicy] },
    { name: 'others', filter: '__name__:other host:*', drop: true },
  ],
  rollupRules: [
    {
      name: 'by team',
      filter: 'host:*',
      transforms: [{ rollup: { metricName: 'g_by_team', groupBy: ['team'] } }],
      storagePolicies: [finePolicy],
    },
  ],
};
const sets = ruleSetsOf([BigInt(cutover) * nanosPerMilli, rules]);
const places = new PlacesByRules(sets, [fine, coarse]);

/** From when to when, in rows' times, a source has a series. */
function kept(tags: readonly Tag[], source: string): readonly [number, number] {
  const host = tags.find(({ name }) => name === 'host')?.value;
  const always = [0, Infinity] as const;
  const none = [0, 0] as const;
  if (host === undefined) return source === 'fine' ? [cutover, Infinity] : none;
  if (source === 'fine') return host === 'a' ? [cutover, Infinity] : none;
  if (source === 'coarse') return always;
  return host === 'b' ? [0, cutover] : always;
}

/** Each source has what the rules say, and no more. */
class Sources extends OverMemory {
  readonly tags: Tag[][] = [];
  readonly asked: string[] = [];
  #timeline: Timeline | null = null;

  with(timeline: Timeline | null): this {
    this.#timeline = timeline;
    return this;
  }

  timeline(): Timeline | null {
    return this.#timeline;
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    _limits: SelectLimits,
    _signal: AbortSignal,
    windows: SelectWindows | null = null,
    restriction: Restriction | null = null,
  ): Promise<SelectResult> {
    const source = windows?.namespace ?? 'samples';
    this.asked.push(source);
    const result = await this.all.select(matchers, range);
    const resolutionMillis = source === 'fine' ? fine.resolutionMillis : hour;
    return withChunks(result, (chunks, bytes) => {
      const { timestampNanos, values } = readFloats([chunks], allTimes);
      let [from, to] = kept(tagsOf(bytes), source);
      // A window is of the rules of when it begins.
      if (windows !== null && from > 0)
        from = Math.ceil(from / resolutionMillis) * resolutionMillis;
      if (restriction !== null && !restriction.takes(bytes)) to = 0;
      const places = [...timestampNanos.keys()].filter((at) => {
        const millis = Number(timestampNanos[at]! / nanosPerMilli);
        return windows === null ? millis >= from && millis < to : millis > from && millis <= to;
      });
      if (places.length === 0) return [];
      const times = BigInt64Array.from(places, (at) => timestampNanos[at]!);
      const numbers = Float64Array.from(places, (at) => values[at]!);
      const fold = new WindowFold();
      if (windows === null) return [fold.floats(times, numbers)];
      fold.begin(BigInt(resolutionMillis) * nanosPerMilli, times.length);
      fold.add(times, numbers).end();
      return floatsOfWindows(
        apart([fold.chunks()]).typed,
        columnWithoutRules(windows.column),
        BigInt(resolutionMillis) * nanosPerMilli,
      );
    });
  }
}

function tagsOf(bytes: Uint8Array): readonly Tag[] {
  const key = Buffer.from(bytes).toString('latin1');
  return known.get(key)!;
}

const known = new Map<string, readonly Tag[]>();
const storage = new Sources();
const bitsOf = (value: number) => new BigUint64Array(Float64Array.of(value).buffer)[0]!;
for (const [host, team] of [
  ['a', 'x'],
  ['b', 'x'],
  ['c', 'y'],
  [null, 'x'],
  [null, 'y'],
] as const) {
  const tags =
    host === null
      ? [
          { name: '__name__', value: 'g_by_team' },
          { name: '__rollup__', value: 'true' },
          { name: 'team', value: team },
        ]
      : [
          { name: '__name__', value: 'g' },
          { name: 'host', value: host },
          { name: 'team', value: team },
        ];
  for (let millis = begin + 15_000, i = 0; millis <= end; millis += 30_000, i++) {
    storage.all.add(tags, millis, bitsOf(((i * 31) % 101) + (host ?? team).charCodeAt(0)));
  }
}
{
  const { bundle } = await storage.all.select([], { startNanos: 0n, endNanos: 2n ** 62n });
  const { decodeTags } = await import('#lib/tags.ts');
  for (let i = 0; i < bundle.seriesCount; i++) {
    const bytes = bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!);
    known.set(Buffer.from(bytes).toString('latin1'), decodeTags(bytes));
  }
}

const engine = new PromqlEngine(storage, {
  clock: realEnv.clock,
  features: { ...noFeatures, experimentalFunctions: true, extendedRangeSelectors: true },
});
const options = {
  lookbackMillis: 5 * minute,
  samplesMax: 10_000_000,
  limits: { seriesMax: 0, requireExhaustive: false },
};

/** Values by the labels of a series, at steps of an hour from `begin` + 8 h on. */
async function answer(query: string, timeline: Timeline | null): Promise<Map<string, number[]>> {
  storage.with(timeline);
  const first = begin + 8 * hour;
  const { value } = await engine.rangeQuery(query, first, end, hour, options, never);
  const { matrix, grid } = value as unknown as {
    matrix: { labels: { tags: Tag[] }[]; stepCount: number; buffer: { values: Float64Array } };
    grid: { stepCount: number };
  };
  return new Map(
    matrix.labels.map(({ tags }, index) => {
      const at = index * matrix.stepCount;
      const key = tags
        .filter(({ name }) => name === 'host' || name === 'team')
        .map((tag) => tag.value)
        .join();
      return [key, [...matrix.buffer.values.slice(at, at + grid.stepCount)]];
    }),
  );
}

const alone = (of: typeof fine | typeof coarse): Timeline => ({
  samplesFromMillis: Infinity,
  resolutions: [of],
  places: null,
});

/** How far back a step looks in each source. */
const looks: Readonly<Record<string, Readonly<Record<'samples' | 'fine', number>>>> = {
  'max_over_time({__name__=~"g.*"}[4h])': { samples: 4 * hour, fine: 4 * hour },
  'avg_over_time({__name__=~"g.*"}[4h])': { samples: 4 * hour, fine: 4 * hour },
  // Its edges look for a row before them.
  'increase({__name__=~"g.*"}[4h])': { samples: 4 * hour, fine: 4 * hour + 10 * minute },
  '{__name__=~"g.*"}': { samples: 5 * minute, fine: 10 * minute },
};

for (const [query, look] of Object.entries(looks)) {
  for (const samplesFromMillis of [begin, end - 12 * hour]) {
    test(`${query}, samples of ${(end - samplesFromMillis) / hour} hours`, async () => {
      const whole = await answer(query, { samplesFromMillis, resolutions: [fine, coarse], places });
      const only = {
        samples: await answer(query, null),
        fine: await answer(query, alone(fine)),
        coarse: await answer(query, alone(coarse)),
      };
      const sourceOf = (key: string, reference: number): keyof typeof only => {
        const host = key.split(',')[0];
        if (key === 'x' || key === 'y') return 'fine';
        // Rows of the very time of the change are of before.
        if (host === 'b' && reference > cutover) return 'coarse';
        if (reference - look.samples >= samplesFromMillis) return 'samples';
        return host === 'a' && reference - look.fine >= cutover ? 'fine' : 'coarse';
      };
      assert.deepEqual([...whole.keys()].sort(), ['a,x', 'b,x', 'c,y', 'x', 'y']);
      const used = new Set<string>();
      for (const [key, values] of whole) {
        for (const [step, value] of values.entries()) {
          const reference = begin + 8 * hour + step * hour;
          const source = sourceOf(key, reference);
          used.add(`${key} ${source}`);
          const expected = only[source].get(key)?.[step] ?? NaN;
          assert.ok(
            Object.is(value, expected),
            `${key} at ${(reference - begin) / hour} h of ${source}: ${value}, not ${expected}`,
          );
        }
      }
      assert.ok(used.has('b,x coarse') && used.has('x fine') && used.has('a,x samples'));
      if (samplesFromMillis > begin) assert.ok(used.has('a,x fine') && used.has('a,x coarse'));
    });
  }
}

test('nobody is asked who cannot have what a query is about', async () => {
  const asked = async (query: string): Promise<string> => {
    storage.asked.length = 0;
    await answer(query, { samplesFromMillis: begin, resolutions: [fine, coarse], places });
    return [...new Set(storage.asked)].sort().join();
  };
  // What does not take all may have what others have put there.
  assert.equal(await asked('max_over_time(g{host="c"}[4h])'), 'fine,samples');
  assert.equal(await asked('max_over_time(g{host="b"}[4h])'), 'coarse,fine,samples');
});

test('what is told of windows is told where some were read', async () => {
  const told = async (query: string): Promise<readonly string[]> => {
    storage.with({ samplesFromMillis: begin, resolutions: [fine, coarse], places });
    const result = await engine.rangeQuery(query, end - hour, end, hour, options, never);
    return [...result.warnings, ...result.infos];
  };
  // What does not take all is asked, and has none of it.
  assert.deepEqual(await told('changes(g{host="c"}[2m])'), []);
  const [warning, info] = await told('changes(g{host="b"}[2m])');
  assert.match(warning!, /changes is of the last samples of windows of 3600 s/);
  assert.match(info!, /the range of changes is shorter than four windows of 3600 s/);
});

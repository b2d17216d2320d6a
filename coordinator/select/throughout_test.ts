/** What aggregated namespaces alone have of names and series, through the API of a coordinator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { nowSeconds, testCluster, TestCoordinator } from '../coordinator_testing.ts';
import { makeWindows } from '../windows_testing.ts';
import { dividedRange, partsThroughout } from './throughout_source.ts';
import type { RowsAsked, Timeline } from './storage.ts';

const day = 86_400;

const seriesOf = (part: string, days: number) => ({
  tags: [
    { name: '__name__', value: 'm' },
    { name: `only_${part}`, value: 'yes' },
    { name: 'part', value: part },
  ],
  windows: [{ endNanos: BigInt(nowSeconds() - days * day) * 1_000_000_000n, last: 1, max: 2 }],
});

test('names and series that windows alone have are found, where the range goes back so far', async () => {
  await using test = await TestCoordinator.openReady();
  await makeWindows(test, [seriesOf('old', 5), seriesOf('both', 5)]);
  const row = { timestamp: nowSeconds() - 60, value: 1 };
  for (const part of ['both', 'new']) {
    const tags = { __name__: 'm', [`only_${part}`]: 'yes', part };
    assert.equal((await test.post('/api/v1/json/write', { tags, ...row })).status, 200);
  }
  const dataOf = async (path: string, since: string) => {
    const { status, json, text } = await test.get(`/api/v1/${path}${since}`);
    assert.equal(status, 200, text);
    return json.data;
  };
  const recent = `start=${nowSeconds() - 3_600}`;
  assert.deepEqual(await dataOf('label/part/values?', ''), ['both', 'new', 'old']);
  assert.deepEqual(await dataOf('label/part/values?', recent), ['both', 'new']);
  assert.deepEqual(await dataOf('labels?', ''), [
    '__name__',
    'only_both',
    'only_new',
    'only_old',
    'part',
  ]);
  const partsOf = (series: readonly { readonly part: string }[]) =>
    series.map(({ part }) => part).sort();
  assert.deepEqual(partsOf(await dataOf('series?match[]=m', '')), ['both', 'new', 'old']);
  assert.deepEqual(partsOf(await dataOf('series?match[]=m&', recent)), ['both', 'new']);
  const long = `start=${nowSeconds() - 10 * day}&end=${nowSeconds() - 3 * day}`;
  assert.deepEqual(partsOf(await dataOf('series?match[]=m&', long)), ['both', 'old']);
});

test('a range that is the answer has samples, and the last numbers of windows where these are no more', async () => {
  await using test = await TestCoordinator.openReady();
  const { tags, windows } = seriesOf('both', 5);
  const ended = { endNanos: windows[0]!.endNanos + 3_600_000_000_000n, last: Number.NaN, max: 7 };
  await makeWindows(test, [{ tags, windows: [...windows, ended] }]);
  // The second in which the windows were made: it may be over by now.
  const now = Number(windows[0]!.endNanos / 1_000_000_000n) + 5 * day;
  const row = { tags: { __name__: 'm', only_both: 'yes', part: 'both' }, timestamp: now - 60 };
  assert.equal((await test.post('/api/v1/json/write', { ...row, value: 3 })).status, 200);
  const rowsOf = async (query: string): Promise<unknown> => {
    const { status, json, text } = await test.get(`/api/v1/query?query=${query}&time=${now}`);
    assert.equal(status, 200, text);
    return json.data.result.flatMap(({ values }: { values: unknown }) => values);
  };
  const all = [
    [now - 5 * day, '1'],
    [now - 5 * day + 3_600, '7'],
    [now - 60, '3'],
  ];
  assert.deepEqual(await rowsOf('m[10d]'), all);
  assert.deepEqual(await rowsOf('(m[5d] offset 4d)'), all.slice(0, 2));
  assert.deepEqual(await rowsOf('m[5m]'), all.slice(2));
});

test('windows of before their namespace was made ready are not looked for', async () => {
  await using test = await TestCoordinator.openReady();
  await makeWindows(test, [seriesOf('old', 5)]);
  const day5 = `/api/v1/query?query=m&time=${nowSeconds() - 5 * day}`;
  assert.equal((await test.get(day5)).json.data.result.length, 1);
  await new NamespaceStore(test.kv, testCluster).update(
    (registry) =>
      new Map(registry).set('coarse', {
        ...registry.get('coarse')!,
        completeSinceNanos: BigInt(nowSeconds()) * 1_000_000_000n,
      }),
    new AbortController().signal,
  );
  await test.topology.until(
    ({ namespaces }) => (namespaces.get('coarse')?.completeSinceNanos ?? 0n) > 0n,
    new AbortController().signal,
  );
  const { headers } = await test.get(day5);
  assert.equal(headers['tsdb-namespaces'], 'default');
});

test('what lies before the samples goes to the finest windows that have all of it', () => {
  const hour = 3_600_000;
  const resolutionOf = (namespace: string, resolutionMillis: number, fromHours: number) => ({
    namespace,
    resolutionMillis,
    fromMillis: fromHours * hour,
    takesAll: true,
  });
  const timeline = {
    samplesFromMillis: 100 * hour,
    resolutions: [resolutionOf('fine', 60_000, 50), resolutionOf('coarse', hour, 10)],
    places: null,
  };
  const [fine, coarse] = timeline.resolutions;
  const nanosOf = (hours: number) => BigInt(hours * hour) * 1_000_000n;
  const divided = (fromHours: number, toHours: number) =>
    dividedRange(timeline, { startNanos: nanosOf(fromHours), endNanos: nanosOf(toHours) });
  const rangeOf = (from: number, to: number) => ({
    startNanos: nanosOf(from),
    endNanos: nanosOf(to),
  });
  assert.equal(divided(100, 120), null);
  assert.equal(dividedRange(null, rangeOf(0, 1)), null);
  // The window that ends at the seam is asked, samples after it.
  assert.deepEqual(divided(60, 120), {
    of: fine,
    windows: { startNanos: nanosOf(60), endNanos: nanosOf(100) + 1n },
    samples: { startNanos: nanosOf(100) + 1n, endNanos: nanosOf(120) },
  });
  const inHour = { ...timeline, samplesFromMillis: 100 * hour - 1_000 };
  assert.deepEqual(dividedRange(inHour, rangeOf(20, 120)), {
    of: coarse,
    windows: { startNanos: nanosOf(20), endNanos: nanosOf(100) + 1n },
    samples: { startNanos: nanosOf(100) + 1n, endNanos: nanosOf(120) },
  });
  assert.deepEqual(divided(20, 30), {
    of: coarse,
    windows: rangeOf(20, 30),
    samples: null,
  });
  assert.equal(divided(0, 120)!.of.namespace, 'coarse');
  // Windows that go back no further than samples tell nothing more.
  const short = { ...timeline, resolutions: [resolutionOf('short', 60_000, 100)] };
  assert.equal(dividedRange(short, rangeOf(0, 120)), null);
});

test('with rules a range is cut where they changed, and whoever may have some of it is asked', () => {
  const hour = 3_600_000;
  const resolutionOf = (namespace: string, hours: number, fromHours: number, takesAll = true) => ({
    namespace,
    resolutionMillis: hours * hour,
    fromMillis: fromHours * hour,
    takesAll,
  });
  const all = resolutionOf('all', 1, 10);
  const long = resolutionOf('long', 6, 20, false);
  const short = resolutionOf('short', 1, 60, false);
  const asked: string[] = [];
  const told = ({ of, afterMillis, untilMillis }: RowsAsked): string =>
    `${of?.namespace ?? 'samples'} ${afterMillis / hour}-${untilMillis / hour}`;
  const timeline: Timeline = {
    samplesFromMillis: 100 * hour,
    resolutions: [short, all, long],
    places: {
      changes: (_lists, after, until) =>
        [50, 100, 110].map((hours) => hours * hour).filter((at) => at > after && at < until),
      parts: (_lists, sources) => {
        asked.push(sources.map(told).join());
        return [{ of: sources[0]!.of, restriction: null }];
      },
      kept: () => assert.fail(),
      types: () => assert.fail(),
    },
  };
  const nanosOf = (hours: number) => BigInt(hours * hour) * 1_000_000n;
  const range = { startNanos: 1n, endNanos: nanosOf(120) + 1n };
  const parts = partsThroughout(timeline, [], range).map(({ of, range: part, isBehindSeam }) => {
    const name = of?.namespace ?? 'samples';
    const hours = [part.startNanos, part.endNanos].map((nanos) => (nanos - 1n) / nanosOf(1));
    return `${name} ${hours.join('-')} ${isBehindSeam}`;
  });
  assert.deepEqual(asked, [
    'all 0-50,long 0-50,short 0-50',
    'all 50-100,long 50-100,short 50-100',
    'samples 100-110,short 100-110,all 100-110,long 100-110',
    'samples 110-120,short 110-120,all 110-120,long 110-120',
  ]);
  assert.deepEqual(parts, [
    'all 0-50 true',
    'all 50-100 true',
    'samples 100-110 true',
    'samples 110-120 true',
  ]);
  // Without any that takes all, and with the last window of each source whole.
  const some = { ...timeline, resolutions: [short, long] };
  const places = {
    ...timeline.places!,
    changes: () => [],
    parts: (_lists: unknown, sources: readonly RowsAsked[]) =>
      sources.map(({ of }) => ({ of, restriction: null })),
  };
  const apart = partsThroughout({ ...some, places }, [], range).map(({ of, range: part }) => {
    const hours = [part.startNanos, part.endNanos].map((nanos) => (nanos - 1n) / nanosOf(1));
    return `${of?.namespace ?? 'samples'} ${hours.join('-')}`;
  });
  assert.deepEqual(apart, [
    'long 0-102',
    'short 0-100',
    'samples 100-120',
    'short 100-120',
    'long 100-120',
  ]);
  // Behind the samples' begin, too, windows that go back so far come before finer ones that do not.
  const late = { ...timeline, resolutions: [resolutionOf('late', 1, 110, false), long] };
  const behind = partsThroughout({ ...late, places }, [], range);
  assert.deepEqual(
    behind.map(({ of }) => of?.namespace ?? 'samples'),
    ['long', 'samples', 'long', 'late'],
  );
});

/** What is read from windows and is so recent that nodes have made none of it yet. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import { Metrics } from '#lib/metrics.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { FetchOptions, FetchResult } from '#cluster/session/types.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { Fanout } from './fanout.ts';
import { selectMetrics } from './metrics.ts';
import type { ReadSession } from './namespace_source.ts';
import type { SelectResult } from './storage.ts';
import { applyRules, makeWindows } from '../windows_testing.ts';

const day = 86_400;
const never = new AbortController().signal;

test('a range that is longer than samples are kept ends with the newest of them', async () => {
  await using test = await TestCoordinator.openReady();
  const tags = [{ name: '__name__', value: 'm' }];
  const endNanos = BigInt(nowSeconds() - 5 * day) * 1_000_000_000n;
  await makeWindows(test, [{ tags, windows: [{ endNanos, last: 1, max: 2 }] }]);
  const hourStart = Math.floor((nowSeconds() - 7_200) / 3_600) * 3_600;
  for (const [seconds, value] of [
    [hourStart - 90, 5],
    [hourStart - 60, 7],
    [nowSeconds() - 30, 100],
  ] as const) {
    const row = { tags: { __name__: 'm' }, timestamp: seconds, value };
    assert.equal((await test.post('/api/v1/json/write', row)).status, 200);
  }
  const valueOf = async (query: string): Promise<string> => {
    const { json, text } = await test.get(`/api/v1/query?query=${encodeURIComponent(query)}`);
    assert.equal(json.data.result.length, 1, text);
    return json.data.result[0].value[1];
  };
  assert.equal(await valueOf('max_over_time(m[10d] offset 1h)'), '7');
  assert.equal(await valueOf('count_over_time(m[10d] offset 1h)'), '4');
  assert.equal(await valueOf('sum_over_time(m[10d] offset 1h)'), '15');
});

test('what rules drop is found in windows of its newest rows, by value and by name', async () => {
  await using test = await TestCoordinator.openReady();
  await makeWindows(test, []);
  const hour = 3_600;
  const lastHour = Math.floor(nowSeconds() / hour) * hour;
  const dropped = (cutoverSeconds: number, filter: string) => {
    const storagePolicies = [{ resolution: '1h', retention: '720h' }];
    const mappingRules = [
      { name: 'noise', filter, drop: true },
      { name: 'kept', filter: `${filter} kept:yes`, storagePolicies, aggregations: ['Sum'] },
    ];
    return applyRules(test, { mappingRules }, BigInt(cutoverSeconds) * 1_000_000_000n);
  };
  await dropped(1, 'env:dev');
  await dropped(lastHour - hour, 'env:none');
  const write = async (tags: object, seconds: number, value: number): Promise<void> => {
    const row = { tags: { __name__: 'm', ...tags }, timestamp: seconds, value };
    const { status, text } = await test.post('/api/v1/json/write', row);
    assert.equal(status, 200, text);
  };
  const rowsOf = (namespace: string): number =>
    (test.node.namespaces.get(namespace) ?? []).reduce((sum, { rows }) => sum + rows.size, 0);
  for (let probe = 1; rowsOf('_dropped') === 0; probe++) {
    assert.ok(probe < 400, 'rows are kept aside');
    await write({ env: 'dev', kept: 'yes', probe: 'yes' }, lastHour - 2 * hour - probe, probe);
    await realEnv.clock.sleep(25, never);
  }
  // Of hours in which rules drop, and of the last one, in which they do not any more.
  for (const kept of ['yes', 'no']) {
    for (const [seconds, value] of [
      [lastHour - 2 * hour - 60, 9],
      [lastHour - 2 * hour - 30, 7],
      [lastHour - hour, 5],
      [lastHour - 60, 3],
    ] as const) {
      await write({ env: 'dev', kept }, seconds, value);
    }
  }
  const answer = async (path: string, headers = {}) => {
    const { status, text } = await test.send('GET', `/api/v1/${path}`, undefined, headers);
    assert.equal(status, 200, text);
    return JSON.parse(text).data;
  };
  const values = async (query: string, headers = {}): Promise<Record<string, string>> => {
    const path = `query?query=${encodeURIComponent(query)}&time=${lastHour}`;
    const { result } = await answer(path, headers);
    return Object.fromEntries(
      result.map(({ metric, value }: { metric: { kept: string }; value: string[] }) => [
        metric.kept,
        value[1],
      ]),
    );
  };
  // Samples have the last hour alone of it, windows all.
  assert.deepEqual(await values('sum_over_time(m{probe=""}[10h])'), { yes: '24', no: '3' });
  assert.deepEqual(await values('sum_over_time(m{probe=""}[10h] offset 1h)'), { yes: '21' });
  assert.deepEqual(await values('m{probe=""} offset 1h'), { yes: '5' });
  // The value of a window is what the rule says.
  assert.deepEqual(await values('m{probe=""} offset 2h'), { yes: '16' });
  assert.deepEqual(await values('last_over_time(m{probe=""}[4h] offset 2h)'), { yes: '7' });
  assert.deepEqual(await values('m{probe=""}'), { yes: '3', no: '3' });
  const chosen = { 'tsdb-metrics-type': 'aggregated', 'tsdb-storage-policy': '1h:720h' };
  assert.deepEqual(await values('sum_over_time(m{probe=""}[10h])', chosen), { yes: '24', no: '3' });
  await write({ env: 'dev', kept: 'yes', only: 'windows' }, lastHour - 2 * hour, 1);
  const range = `start=${lastHour - 5 * hour}&end=${lastHour - 90 * 60}`;
  assert.deepEqual(await answer(`label/only/values?${range}`), ['windows']);
  const series = await answer(`series?match[]=m{only="windows"}&${range}`);
  assert.equal(series.length, 1);
});

test('what somebody has written by its name is read beside windows of recent time, and none that has not ended', async () => {
  await using test = await TestCoordinator.openReady();
  await makeWindows(test, []);
  const hour = 3_600;
  const lastHour = Math.floor(nowSeconds() / hour) * hour;
  const write = async (more: object, seconds: number, value: number): Promise<void> => {
    const row = { tags: { __name__: 'm', ...more }, timestamp: seconds, value };
    const { status, text } = await test.post('/api/v1/json/write', row);
    assert.equal(status, 200, text);
  };
  await write({ by: 'rows' }, lastHour - 60, 1);
  await write({ by: 'rows' }, lastHour + 1, 2);
  const tags = [
    { name: '__name__', value: 'm' },
    { name: 'by', value: 'hand' },
  ];
  const bits = new BigUint64Array(Float64Array.of(7).buffer)[0]!;
  const rows = new Map([[BigInt(lastHour - 2 * hour) * 1_000_000_000n, bits]]);
  test.node.seriesOf('coarse').push({
    id: '',
    tags: encodeTags(tags),
    decoded: tags,
    slot: 0,
    rows,
    startNanos: new Map(),
  });
  const path = `query?query=${encodeURIComponent('sum by (by) (sum_over_time(m[10d]))')}&time=${lastHour + hour}`;
  const { text } = await test.get(`/api/v1/${path}`);
  const found = JSON.parse(text).data.result.map(
    ({ metric, value }: { metric: { by: string }; value: [number, string] }) => [
      metric.by,
      value[1],
    ],
  );
  assert.deepEqual(Object.fromEntries(found), { rows: '1', hand: '7' });
});

const now = 1_700_000_000n * 1_000_000_000n;
const hourNanos = 3_600_000_000_000n;
/** Samples are kept for 360 hours. */
const range = { startNanos: now - 480n * hourNanos, endNanos: now };

/** @param dropped the namespace of rows that rules drop; null where there is none */
function selectWindows(
  fetch: (options: FetchOptions) => Promise<FetchResult>,
  dropped: string | null,
): Promise<SelectResult> {
  const kept = { retentionNanos: 360n * hourNanos, completeSinceNanos: 0n };
  const fanout = new Fanout(
    { fetch } as unknown as ReadSession,
    {
      samples: () => [{ name: 'default', schemas: null, ...kept }],
      windows: () => [
        {
          name: 'coarse',
          takesAll: dropped === null,
          retentionNanos: 9_000n * hourNanos,
          resolutionNanos: hourNanos,
          completeSinceNanos: 0n,
        },
      ],
      dropped: () => (dropped === null ? null : { name: dropped, ...kept }),
      madeAfterNanos: () => 72n * hourNanos,
    },
    selectMetrics(new Metrics()),
    () => ({ work: Turns.of(realEnv.clock).begin(never) }) as Turning,
    { nowNanos: () => now },
  );
  const limits = { seriesMax: 0, requireExhaustive: false };
  const windows = { namespace: 'coarse', resolutionMillis: 3_600_000, column: 'max' } as const;
  return fanout.select([], range, limits, never, windows);
}

test('of samples that are kept for long only those are read of which nodes may have made no windows yet', async () => {
  const asked: string[] = [];
  await selectWindows(async ({ namespace, startNanos, endNanos }) => {
    const hours = (nanos: bigint): bigint => (nanos - now) / hourNanos;
    asked.push(`${namespace} ${hours(startNanos)} to ${hours(endNanos)}`);
    return { bundle: emptyBundle, exhaustive: true, warnings: [], responses: 1 };
  }, null);
  assert.deepEqual(asked.sort(), ['coarse -480 to -70', 'coarse -70 to 0', 'default -71 to 0']);
});

test('an answer of windows says what any of its reads says: that fewer replicas answered', async () => {
  const warned = (isFewer: (asked: FetchOptions) => boolean): Promise<SelectResult> =>
    selectWindows(async (asked) => {
      const warnings = isFewer(asked) ? ['fewer'] : [];
      return { bundle: emptyBundle, exhaustive: true, warnings, responses: 1 };
    }, '_dropped');
  for (const name of ['default', '_dropped', 'coarse']) {
    const { warnings } = await warned(({ namespace }) => namespace === name);
    assert.deepEqual(warnings, ['fewer'], name);
  }
  const { warnings } = await warned(({ startNanos }) => startNanos === range.startNanos);
  assert.deepEqual(warnings, ['fewer'], 'windows that nodes have made');
});

/** An aggregated namespace of the fake node with windows in it, for tests of what is read beside samples. */
import { changedRuleSet } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import type { RuleHistory } from '#cluster/aggregation_rules/sets/set.ts';
import { RuleSetStore } from '#cluster/aggregation_rules/sets/store.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { doubleOf } from '#engine/typed/typed_value.ts';
import { valueOfWindow } from '#engine/typed/window.ts';
import { encodeTags, type Tags } from '#lib/tags.ts';
import { type TestCoordinator, testCluster } from './coordinator_testing.ts';

const { signal } = new AbortController();

export interface TestWindow {
  readonly endNanos: bigint;
  /** NaN for a stale marker. */
  readonly last: number;
  readonly max: number;
  readonly resets?: number;
}

/** Makes an aggregated namespace of 30 days that is READY. @param all takes what no rule says something of */
export async function makeAggregated(
  test: TestCoordinator,
  name: string,
  resolutionDuration: string,
  all: boolean,
): Promise<void> {
  const attributes = { resolutionDuration, downsampleOptions: { all } };
  const options = {
    flushEnabled: true,
    retentionOptions: { retentionPeriodDuration: '720h', blockSizeDuration: '24h' },
    indexOptions: { enabled: true, blockSizeDuration: '24h' },
    aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
  };
  const path = '/api/v1/services/tsdb/namespace';
  // All nodes have to say that they make windows.
  test.node.instanceId = test.topology.view.placement!.instances[0]!.id;
  for (const [url, body] of [
    ['/api/v1/services/tsdb/upgrade/finish', {}],
    [path, { name, options }],
    [`${path}/ready`, { name }],
  ] as const) {
    const answer = await test.post(url, body);
    if (answer.status !== 200) throw new Error(answer.text);
  }
}

/** Has all rules of a file hold from a time on, be it long ago. */
export async function applyRules(
  test: TestCoordinator,
  file: object,
  cutoverNanos: bigint = 1n,
): Promise<void> {
  let ids = 0;
  await new RuleSetStore(test.kv, testCluster).update(
    'default',
    (set) => changedRuleSet(set, [cutoverNanos, file], () => `${cutoverNanos} ${ids++}`),
    signal,
  );
}

/** As an aggregated namespace of a time in which the samples of before were still there, as far as they go back. */
export async function sayComplete(
  test: TestCoordinator,
  name: string,
  completeSinceNanos = 0n,
): Promise<void> {
  await new NamespaceStore(test.kv, testCluster).update(
    (registry) => new Map(registry).set(name, { ...registry.get(name)!, completeSinceNanos }),
    signal,
  );
  await test.topology.until(
    ({ namespaces }) => namespaces.get(name)?.completeSinceNanos === completeSinceNanos,
    signal,
  );
}

/** Has the rules that stand hold as if they had been written long ago. */
export async function holdSinceEver(test: TestCoordinator): Promise<void> {
  const since = <R>(histories: readonly RuleHistory<R>[]): RuleHistory<R>[] =>
    histories.map(({ id, versions }) => ({
      id,
      versions: [{ ...versions.at(-1)!, cutoverNanos: 1n }],
    }));
  await new RuleSetStore(test.kv, testCluster).update(
    'default',
    (set) => ({
      ...set,
      version: set.version + 1,
      mappingRules: since(set.mappingRules),
      rollupRules: since(set.rollupRules),
    }),
    signal,
  );
}

/** Makes namespace "coarse", an hour for 30 days, and its windows by series. */
export async function makeWindows(
  test: TestCoordinator,
  all: readonly { readonly tags: Tags; readonly windows: readonly TestWindow[] }[],
): Promise<void> {
  await makeAggregated(test, 'coarse', '1h', true);
  await sayComplete(test, 'coarse');
  for (const [slot, { tags, windows }] of all.entries()) {
    const rows = new Map(
      windows.map(({ endNanos, last, max, resets = 0 }) => {
        const isStale = Number.isNaN(last);
        const value = valueOfWindow({
          deletions: 0n,
          rows: 2,
          lags: 0,
          others: isStale ? 1 : 0,
          last: isStale ? doubleOf(staleBits) : last,
          min: isStale ? max : Math.min(last, max),
          max,
          sum: isStale ? max : last + max,
          resets,
          lastNumber: isStale ? max : 0,
          first: resets,
        });
        return [endNanos, value];
      }),
    );
    const tagBytes = encodeTags(tags);
    const series = { id: '', tags: tagBytes, decoded: tags, slot, rows, startNanos: new Map() };
    test.node.seriesOf('coarse').push(series);
  }
}

/**
 * What is written, and the rules that roll it up: a hundred series of ten apps, counters and gauges, all of whole numbers, so
 * that sums are the same numbers in whatever order they are added up.
 */
import type { StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import { latenessNanos } from '#cluster/rollups/parts/lateness.ts';
import { sortTags, type Tags } from '#lib/tags.ts';

const nanosPerMilli = 1_000_000n;

export const windowMillis = 10_000;
/** Rows may be acknowledged so late; what is held back comes a lateness sooner. */
export const bufferPastMillis = 40_000;
/** A change of rules waits for it, too. */
export const bufferFutureMillis = 2_000;
/** Of windows, which are kept for longer than any run. */
const retention = '48h';

export const policy: StoragePolicy = {
  resolutionNanos: BigInt(windowMillis) * nanosPerMilli,
  retentionNanos: 48n * 3_600n * 1_000_000_000n,
};
/** How long after its end a window is made first. */
export const latenessMillis: number = Number(latenessNanos(policy.resolutionNanos) / nanosPerMilli);
/** What was acknowledged so long after the end of its window is in it for good. */
export const settleMillis: number = bufferPastMillis + latenessMillis;
/** As headers name it. */
export const policyText: string = `${windowMillis / 1_000}s:${retention}`;

const apps = 10;
const countersOfApp = 6;
const gaugesOfApp = 4;
const zones = 3;
/** Says nothing half of the time, for windows that have no rows. */
const quietApp = apps - 1;
const quietMillis = 3 * windowMillis;

export interface SoakSeries {
  readonly tags: Tags;
  readonly isCounter: boolean;
  readonly isQuietAt: (millis: number) => boolean;
}

export const allSeries: readonly SoakSeries[] = Array.from({ length: apps }, (_, app) =>
  Array.from({ length: countersOfApp + gaugesOfApp }, (__, pod): SoakSeries => {
    const isCounter = pod < countersOfApp;
    return {
      tags: sortTags([
        { name: '__name__', value: isCounter ? 'soak_requests' : 'soak_level' },
        { name: 'app', value: `app${app}` },
        { name: 'pod', value: `pod${pod}` },
        { name: 'zone', value: `zone${pod % zones}` },
      ]),
      isCounter,
      isQuietAt: (millis) => app === quietApp && Math.floor(millis / quietMillis) % 2 === 1,
    };
  }),
).flat();

const storagePolicies = [{ resolution: `${windowMillis / 1_000}s`, retention }];
const rule = (name: string, filter: string, ...transforms: readonly object[]): object => ({
  name,
  filter,
  transforms,
  storagePolicies,
});
const rollup = (
  metricName: string,
  groupBy: readonly string[],
  ...aggregations: readonly string[]
): object => ({ rollup: { metricName, groupBy, aggregations } });
const transform = (type: string): object => ({ transform: { type } });
const aggregate = (type: string): object => ({ aggregate: { type } });

const counters = '__name__:soak_requests app:*';
const gauges = '__name__:soak_level app:*';

/** As a file of rules. */
export const rules: object = {
  rollupRules: [
    rule(
      'total',
      counters,
      transform('Increase'),
      rollup('soak_requests_total', ['app'], 'Sum'),
      transform('Add'),
    ),
    rule('rows', 'app:*', rollup('soak_rows', ['app'], 'Count', 'Max')),
    rule(
      'rate',
      counters,
      aggregate('Last'),
      rollup('soak_requests_rate', ['app'], 'Sum'),
      transform('PerSecond'),
    ),
    rule(
      'zones',
      gauges,
      aggregate('Last'),
      rollup('soak_level_app', ['app', 'zone'], 'Sum'),
      rollup('soak_level_zone', ['zone'], 'Max'),
    ),
    rule('now', gauges, rollup('soak_level_now', ['zone'], 'Last', 'Min', 'Mean')),
  ],
};

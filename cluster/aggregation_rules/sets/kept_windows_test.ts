import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags, sortTags } from '#lib/tags.ts';
import { KeptWindows } from './kept_windows.ts';
import { ruleSetOf } from './sets_testing.ts';
import { type RuleSet } from './set.ts';
import { RulesOverTime, RuleSetsOverTime } from './over_time.ts';

const minute = 60_000_000_000n;
const hour = 60n * minute;
const storagePolicies = [{ resolution: '5m', retention: '720h' }];
const keep = (filter: string): object => ({ name: 'keep', filter, storagePolicies });
const drop = (filter: string): object => ({ name: 'drop', filter, drop: true });

type Change = readonly [cutoverNanos: bigint, mappingRules: readonly object[]];

const setOf = (...changes: readonly Change[]): RuleSet =>
  ruleSetOf(...changes.map(([nanos, mappingRules]) => [nanos, { mappingRules }] as const));

test('ranges of windows are those of asking the rules of each window', () => {
  const resolutionNanos = 7n * minute;
  const hours = (n: number): bigint => BigInt(n) * hour;
  const target = {
    policy: { resolutionNanos: 5n * minute, retentionNanos: 720n * hour },
    resolutionNanos,
  };
  let seed = 7;
  const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;
  for (let round = 0; round < 50; round++) {
    const changes = Array.from({ length: 1 + random(5) }, (_, i): Change => {
      const rules = [
        keep(
          `host:{${'abc'
            .slice(0, 1 + random(3))
            .split('')
            .join(',')}}`,
        ),
      ];
      if (random(2) === 0) rules.push(drop(`host:${'abc'[random(3)]}`));
      return [hours(10 + 3 * i), rules];
    });
    const rules = new RulesOverTime(setOf(...changes));
    const sets = new RuleSetsOverTime(new Map([['of', rules]]));
    const slice = { startNanos: resolutionNanos * 60n, endNanos: resolutionNanos * 260n };
    const takesAll = random(2) === 0;
    const kept = new KeptWindows(sets, { ...target, takesAll }, slice);
    for (const host of ['a', 'b', 'c', 'd']) {
      const tags = sortTags([
        { name: '__m3_namespace__', value: 'of' },
        { name: 'host', value: host },
      ]);
      const ranges = kept.of(encodeTags(tags));
      for (let end = slice.startNanos; end < slice.endNanos; end += resolutionNanos) {
        const { mappings, drops } = rules.at(end - resolutionNanos).match(tags);
        const isKept = mappings.length > 0 || (takesAll && drops.length === 0);
        const isIn = ranges.some((range) => end >= range.startNanos && end < range.endNanos);
        assert.equal(isIn, isKept, `${round} ${host} ${end}`);
      }
      for (const [i, { startNanos }] of ranges.entries()) {
        assert.ok(i === 0 || startNanos > ranges[i - 1]!.endNanos, 'ranges that touch are one');
      }
    }
  }
});

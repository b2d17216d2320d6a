import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyRuleSet, rulesAt, withRules } from './set.ts';
import { rulesOfFile } from './file.ts';
import { nextCutoverNanos, RulesOverTime } from './over_time.ts';

const second = 1_000_000_000n;
const minute = 60n * second;
const hour = 60n * minute;

test('a change holds from a window of the coarsest resolution on, a minute from now at least', () => {
  const now = 10n * hour + 58n * minute + 30n * second;
  assert.equal(nextCutoverNanos(now, []), 11n * hour);
  assert.equal(nextCutoverNanos(now, [5n * minute, 10n * second]), 11n * hour);
  assert.equal(nextCutoverNanos(now + minute, [5n * minute]), 11n * hour + 5n * minute);
  assert.equal(nextCutoverNanos(now, [5n * minute, 24n * hour]), 24n * hour);
  assert.equal(nextCutoverNanos(now + 30n * second, [hour]), 11n * hour, 'just in time');
  assert.equal(nextCutoverNanos(now, [hour], 10n * minute), 12n * hour, 'for rows that are ahead');
  // Windows of both end there.
  assert.equal(nextCutoverNanos(now, [7n * minute, 5n * minute]), 11n * hour + 5n * minute);
  assert.equal(nextCutoverNanos(now, [7n * hour, 11n * hour]), 11n * hour, 'the coarsest alone');
});

test('each window is of the rules that hold when it begins', () => {
  const storagePolicies = [{ resolution: '5m', retention: '90d' }];
  let set = emptyRuleSet;
  let count = 0;
  for (const [at, filter] of [
    [10n, 'app:a'],
    [20n, 'app:{a,b}'],
    [30n, 'app:none'],
  ] as const) {
    const rules = rulesOfFile({ mappingRules: [{ name: 'x', filter, storagePolicies }] }, '');
    const newId = (): string => String((count += 1));
    set = withRules(set, rules, { cutoverNanos: at, nowMillis: 0, by: '', newId });
  }
  const rules = new RulesOverTime(set);
  const takes = (nanos: bigint, app: string): boolean =>
    rules.at(nanos).match([{ name: 'app', value: app }]).mappings.length > 0;
  for (let nanos = 5n; nanos < 35n; nanos++) {
    const filter = rulesAt(set, nanos).mappingRules[0]?.filterText ?? '';
    assert.deepEqual(
      [takes(nanos, 'a'), takes(nanos, 'b')],
      [filter.includes('a,') || filter === 'app:a', filter.includes('b}')],
      String(nanos),
    );
  }
  assert.equal(rules.at(10n), rules.at(19n), 'one index for each stretch');
  assert.ok(rules.isSame(10n, 19n) && !rules.isSame(19n, 20n) && rules.isSame(30n, 1000n));
});

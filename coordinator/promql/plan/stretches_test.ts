import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { encodeTags } from '#lib/tags.ts';
import { PlacesByRules } from '../../select/places_by_rules.ts';
import { lookbackOverWindows, rangeOverWindows, stretchesOf } from './stretches.ts';

const fine = { namespace: '5m', resolutionMillis: 300, fromMillis: -9_000, takesAll: true };
const coarse = {
  namespace: '1h',
  resolutionMillis: 3_600,
  fromMillis: -100_000,
  takesAll: true,
};
const timeline = { samplesFromMillis: 1_000, resolutions: [fine, coarse], places: null };

const told = (startMillis: number, stepMillis: number, stepCount: number, rangeMillis: number) =>
  stretchesOf(
    timeline,
    { startMillis, stepMillis, stepCount },
    (of) => rangeOverWindows(rangeMillis, of),
    [],
  ).map(
    ({ from, count, parts }) =>
      `${from}+${count} ${parts.map(({ of }) => of?.namespace ?? 'samples').join()}`,
  );

test('a step reads samples when its whole range has some, else the finest windows that have it', () => {
  assert.deepEqual(told(2_000, 100, 5, 1_000), ['0+5 samples']);
  assert.deepEqual(told(1_900, 100, 5, 1_000), ['0+1 5m', '1+4 samples']);
  // Four windows of five minutes go back to before samples begin.
  assert.deepEqual(told(-8_000, 1_000, 12, 100), ['0+1 1h', '1+9 5m', '10+2 samples']);
  assert.deepEqual(told(-8_000, 0, 1, 100), ['0+1 1h']);
  // Before all of them the one that goes back furthest.
  assert.deepEqual(told(-500_000, 1_000, 2, 100), ['0+2 1h']);
  assert.deepEqual(told(0, 100, 0, 100), ['0+0 5m']);
});

test('ranges have four windows, and looks two', () => {
  assert.equal(rangeOverWindows(100, null), 100);
  assert.equal(rangeOverWindows(100, fine), 1_200);
  assert.equal(rangeOverWindows(2_000, fine), 2_000);
  assert.equal(lookbackOverWindows(300, coarse), 7_200);
});

test('a drop that has ended matters to the steps that look at its time, in each source by how far it looks', () => {
  const hour = 3_600_000;
  const resolutionOf = (namespace: string, hours: number) => ({
    namespace,
    resolutionMillis: hours * hour,
    fromMillis: -100 * hour,
    takesAll: true,
    policy: {
      resolutionNanos: BigInt(hours * hour) * 1_000_000n,
      retentionNanos: 3_600_000_000_000_000n,
    },
  });
  const coarse = resolutionOf('coarse', 24);
  const kept = { resolution: '24h', retention: '1000h' };
  const rules = [
    { name: 'x', filter: 'app:a', drop: true },
    { name: 'y', filter: 'app:a', storagePolicies: [kept] },
  ];
  const at = (hours: number): bigint => BigInt(hours * hour) * 1_000_000n;
  const sets = ruleSetsOf([at(24), { mappingRules: rules }], [at(48), { mappingRules: [] }]);
  const stretches = stretchesOf(
    { samplesFromMillis: 0, resolutions: [coarse], places: new PlacesByRules(sets, [coarse]) },
    { startMillis: 40 * hour, stepMillis: hour, stepCount: 100 },
    (of) => lookbackOverWindows(hour, of),
    [],
  );
  const tags = encodeTags([{ name: 'app', value: 'a' }]);
  const read = stretches.flatMap(({ count, parts }) => {
    const taking = parts.filter(({ restriction }) => restriction?.takes(tags) ?? true);
    return Array.from({ length: count }, () =>
      taking.map(({ of }) => of?.namespace ?? 'samples').join(),
    );
  });
  assert.equal(read.length, 100);
  // A step at 48 h reads rows of before the change, one at 49 h none.
  assert.deepEqual(
    [...read.entries()].filter(([i, of]) => i > 0 && of !== read[i - 1]),
    [[9, 'samples']],
  );
  assert.equal(read[0], 'coarse');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import { ruleSetsOf } from '../sets/sets_testing.ts';
import { KnownSeries } from './known_series.ts';
import { type KnownRoutes, SeriesRoutes } from './series_routes.ts';

const policy = { resolutionNanos: 60_000_000_000n, retentionNanos: 144_000_000_000_000n };
const storagePolicies = [{ resolution: '1m', retention: '40h' }];
const rule = (name: string, groupBy: readonly string[]): object => ({
  name,
  filter: 'app:*',
  transforms: [{ rollup: { metricName: name, groupBy, aggregations: ['Sum'] } }],
  storagePolicies,
});
const sets = ruleSetsOf([1n, { rollupRules: [rule('all', []), rule('by_zone', ['zone'])] }]);
const matcher = sets.all[0]!.at(2n);

const tagsOf = (pod: number, zone: string): Uint8Array =>
  encodeTags([
    { name: 'app', value: 'a' },
    { name: 'pod', value: String(pod) },
    { name: 'zone', value: zone },
  ]);

function routesIn(routes: SeriesRoutes, tags: Uint8Array): KnownRoutes {
  routes.of(tags);
  routes.by(matcher, tags);
  return routes.last;
}

test('series that go into the same outputs have the same routes, and are matched once', () => {
  const routes = new SeriesRoutes(policy, realEnv.random);
  routes.begin(sets);
  const [x, y] = [routesIn(routes, tagsOf(1, 'x')), routesIn(routes, tagsOf(1, 'y'))];
  assert.equal(x.routes.length, 2);
  assert.equal(x.routes[0], y.routes[0]);
  assert.notEqual(x.routes[1], y.routes[1]);
  for (let pod = 0; pod < 10_000; pod++) {
    assert.equal(routesIn(routes, tagsOf(pod, pod % 2 === 0 ? 'x' : 'y')), pod % 2 === 0 ? x : y);
  }
  routes.begin(sets);
  for (let pod = 0; pod < 10_000; pod++) {
    assert.equal(routes.of(tagsOf(pod, pod % 2 === 0 ? 'x' : 'y')), pod % 2 === 0 ? x : y);
  }
});

test('while rules change a series is known by those of before, too', () => {
  const changed = ruleSetsOf(
    [1n, { rollupRules: [rule('all', []), rule('by_zone', ['zone'])] }],
    [100n, { rollupRules: [rule('all', [])] }],
    [200n, { rollupRules: [rule('by_zone', ['zone'])] }],
  );
  const matchers = [2n, 100n, 200n].map((nanos) => changed.all[0]!.at(nanos));
  const routes = new SeriesRoutes(policy, realEnv.random);
  routes.begin(changed);
  const tags = tagsOf(1, 'x');
  const counts = (...of: readonly number[]): number[] => {
    routes.of(tags);
    return of.map((at) => routes.by(matchers[at]!, tags).length);
  };
  assert.deepEqual(counts(0, 1), [2, 1]);
  const known = routes.last;
  assert.deepEqual(counts(0, 1, 0), [2, 1, 2]);
  assert.equal(routes.last, known);
  assert.deepEqual(counts(1, 2, 0, 2), [1, 1, 2, 1]);
});

test('what is known is forgotten with other rules, and when most series are gone', () => {
  const routes = new SeriesRoutes(policy, realEnv.random);
  const tags = tagsOf(-1, 'x');
  const isKnown = (): boolean => routes.of(tags).matcher !== null;
  routes.begin(sets);
  routesIn(routes, tags);
  // Maps of times without rows, and of other series.
  for (let map = 0; map < 5; map++) {
    routes.begin(sets);
    if (map % 2 === 0) continue;
    for (let i = 0; i < 5_000; i++) routesIn(routes, tagsOf(map * 5_000 + i, 'x'));
    assert.ok(isKnown(), `map ${map}`);
  }
  for (let map = 5; map < 9; map++) {
    routes.begin(sets);
    for (let i = 0; i < 5_000; i++) routesIn(routes, tagsOf(map * 5_000 + i, 'x'));
  }
  assert.ok(!isKnown());
  routesIn(routes, tags);
  routes.begin(ruleSetsOf([1n, { rollupRules: [] }]));
  assert.ok(!isKnown());
});

test('of more series than there is room for the first ones are known', () => {
  const known = new KnownSeries(6_000, realEnv.random);
  for (let i = 0; i < 7_000; i++) {
    assert.equal(known.find(tagsOf(i, 'x')), 0);
    known.set(i + 1);
  }
  assert.equal(known.count, 6_000);
  for (let i = 0; i < 7_000; i++) assert.equal(known.find(tagsOf(i, 'x')), i < 6_000 ? i + 1 : 0);
  known.forget();
  assert.equal(known.find(tagsOf(1, 'x')), 0);
});

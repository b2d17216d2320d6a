import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tag } from '#lib/tags.ts';
import { keepsWindows, type RuleMatch, RuleMatcher, valueTypeOf } from './match.ts';
import { rulesOfFile } from './sets/file.ts';

const storagePolicies = [{ resolution: '1m', retention: '30d' }];

function tagsOf(tags: Readonly<Record<string, string>>): Tag[] {
  return Object.entries(tags).map(([name, value]) => ({ name, value }));
}

function match(rules: unknown, tags: Readonly<Record<string, string>>): RuleMatch {
  return new RuleMatcher(rulesOfFile(rules, '')).match(tagsOf(tags));
}

/** Outputs of a rule with this rollup, of a series with these tags. */
function outputs(
  rollup: object,
  tags: Readonly<Record<string, string>>,
  rule: object = {},
): Record<string, string>[] {
  const rules = {
    rollupRules: [{ filter: '', transforms: [{ rollup }], storagePolicies, ...rule }],
  };
  return match(rules, tags).pipelines.map(({ output }) =>
    Object.fromEntries(output!.map(({ name, value }) => [name, value])),
  );
}

test('mapping rules that match are named, and those that drop beside them', () => {
  const rules = {
    mappingRules: [
      { name: 'web', filter: 'app:web', storagePolicies },
      { name: 'all', filter: '__name__:*', storagePolicies },
      { name: 'db', filter: 'app:db', storagePolicies },
      { name: 'no dev', filter: 'env:dev', drop: true },
    ],
  };
  const names = (tags: Readonly<Record<string, string>>): string[][] => {
    const { mappings, drops } = match(rules, tags);
    return [mappings.map(({ name }) => name), drops.map(({ name }) => name)];
  };
  assert.deepEqual(names({ __name__: 'up', app: 'web', env: 'dev' }), [['all', 'web'], ['no dev']]);
  assert.deepEqual(names({ __name__: 'up' }), [['all'], []]);
});

test('of rules with paths the first counts that matches, and those behind one that goes on', () => {
  const fine = [{ resolution: '10s', retention: '2d' }];
  const rules = {
    mappingRules: [
      { name: 'rest', path: { pattern: '.', order: 9 }, storagePolicies, aggregations: ['Min'] },
      { name: 'cpu', path: { contains: '.cpu', order: 1 }, storagePolicies: fine, onlyNamed: true },
      { name: 'web', path: { pattern: '^web', order: 0, continue: true }, storagePolicies },
      { name: 'tagged', filter: '__g0__:web*', storagePolicies },
      { name: 'sums', path: { pattern: 'count$', order: 0 }, aggregations: ['Sum'] },
    ],
  };
  const matcher = new RuleMatcher(rulesOfFile(rules, ''));
  const tags = (path: string) =>
    path.split('.').map((value, node) => ({ name: `__g${node}__`, value }));
  const names = (of: Tag[]) => matcher.match(of).mappings.map(({ name }) => name);
  assert.deepEqual(names(tags('web1.cpu')), ['tagged', 'web', 'cpu']);
  assert.deepEqual(names(tags('db.cpu.user')), ['cpu']);
  assert.deepEqual(names(tags('db.count')), ['rest'], 'what says how to read names no place');
  assert.deepEqual(names([...tags('web1.cpu'), { name: 'a', value: 'b' }]), ['tagged']);
  assert.deepEqual(names(tagsOf({ __name__: 'web1.cpu' })), []);
  const minute = { resolutionNanos: 60_000_000_000n, retentionNanos: 2_592_000_000_000_000n };
  const all = { policy: minute, takesAll: true };
  assert.ok(keepsWindows(matcher.match(tags('web1.cpu')), all), 'another rule names it');
  assert.ok(!keepsWindows(matcher.match(tags('db.cpu')), all), 'what is named is all');
  assert.deepEqual(matcher.pathReading(tags('web1.cpu')), {
    stepNanos: 10_000_000_000n,
    aggregation: null,
  });
  assert.deepEqual(matcher.pathReading(tags('db.count')), {
    stepNanos: 60_000_000_000n,
    aggregation: 'Sum',
  });
  assert.equal(matcher.pathReading(tags('db.mem')).aggregation, 'Min');
  const readAs = (...lists: string[][]): string | null => {
    const mappingRules = lists.map((aggregations, order) => {
      return { path: { pattern: 'x', order, continue: true }, aggregations };
    });
    return new RuleMatcher(rulesOfFile({ mappingRules }, '')).pathReading(tags('x')).aggregation;
  };
  assert.equal(readAs(['P99', 'Max']), 'Max', 'as PromQL reads windows');
  assert.equal(readAs(['P99'], ['Max']), 'Max');
  assert.equal(readAs(['P99']), null);
  assert.equal(matcher.pathReading(tagsOf({ __g1__: 'x' })).stepNanos, null);
});

test('values of windows are what the first rule says that names their policy and a type that they have', () => {
  const minute = { resolutionNanos: 60_000_000_000n, retentionNanos: 2_592_000_000_000_000n };
  const hour = { resolutionNanos: 3_600_000_000_000n, retentionNanos: 31_104_000_000_000_000n };
  const hours = [{ resolution: '1h', retention: '360d' }];
  const rule = (name: string, aggregations: string[], policies: object = storagePolicies) => ({
    name,
    filter: '__name__:*',
    aggregations,
    storagePolicies: policies,
  });
  const typesOf = (...mappingRules: object[]): string[] => {
    const found = match({ mappingRules }, { __name__: 'x' });
    return [valueTypeOf(found, minute), valueTypeOf(found, hour)];
  };
  assert.deepEqual(typesOf(), ['Last', 'Last']);
  assert.deepEqual(typesOf(rule('a', ['Max'])), ['Max', 'Last']);
  assert.deepEqual(typesOf(rule('a', ['Max']), rule('b', ['Sum'], hours)), ['Max', 'Sum']);
  assert.deepEqual(typesOf(rule('a', ['Max']), rule('b', ['Sum'])), ['Max', 'Last']);
  assert.deepEqual(typesOf(rule('b', ['Sum']), rule('a', ['Max'])), ['Max', 'Last']);
  assert.deepEqual(typesOf(rule('a10', ['Sum']), rule('a9', ['Max'])), ['Max', 'Last']);
  // What says nothing wins against nobody; `Last` is a type like others.
  assert.deepEqual(typesOf(rule('a', []), rule('b', ['Mean'])), ['Mean', 'Last']);
  assert.deepEqual(typesOf(rule('a', ['Last']), rule('b', ['Mean'])), ['Last', 'Last']);
  assert.deepEqual(typesOf(rule('a', ['P99', 'Count', 'Min'])), ['Count', 'Last']);
  assert.deepEqual(typesOf(rule('a', ['P99'])), ['Last', 'Last']);
  assert.deepEqual(typesOf(rule('a', ['P99']), rule('b', ['Min'])), ['Min', 'Last']);
  const other = { ...rule('a', ['Max']), filter: '__name__:y' };
  assert.deepEqual(typesOf(other), ['Last', 'Last']);
});

test('of rules with paths those that count say as what windows are read, behind rules without', () => {
  const policy = { resolutionNanos: 60_000_000_000n, retentionNanos: 2_592_000_000_000_000n };
  const path = (name: string, pattern: string, order: number, more: object) => ({
    name,
    path: { pattern, order },
    storagePolicies,
    ...more,
  });
  const max = path('max', 'cpu', 2, { aggregations: ['Max'] });
  const goesOn = path('first', '^web', 1, { path: { pattern: '^web', order: 1, continue: true } });
  const inTheWay = path('first', '^web', 1, {});
  const ofAll = { name: 'all', filter: '__g0__:*', aggregations: ['Min'], storagePolicies };
  const readingAlone = { name: 'read', path: { pattern: 'cpu' }, aggregations: ['Sum'] };
  const typeOf = (...mappingRules: object[]): string =>
    valueTypeOf(match({ mappingRules }, { __g0__: 'web', __g1__: 'cpu' }), policy);
  assert.equal(typeOf(max), 'Max');
  assert.equal(typeOf(goesOn, max), 'Max');
  assert.equal(typeOf(inTheWay, max), 'Last');
  assert.equal(typeOf(max, ofAll), 'Min');
  assert.equal(typeOf(readingAlone), 'Last', 'it is about how Graphite reads');
});

test('every series is a gauge to filters, and tags for rules alone are in nothing that is made', () => {
  const rules = {
    mappingRules: [
      { name: 'a', filter: '__m3_type__:gauge', storagePolicies },
      { name: 'b', filter: 'pod:a __m3_type__:!{counter,timer}', storagePolicies },
      { name: 'c', filter: 'pod:b __m3_type__:g*', storagePolicies },
    ],
    rollupRules: [
      {
        filter: '__m3_type__:* pod:*',
        transforms: [{ rollup: { metricName: 'all', excludeBy: ['pod'] } }],
        storagePolicies,
      },
    ],
  };
  const tags = { __name__: 'x', __m3_namespace__: 'default', pod: 'a' };
  const { mappings, pipelines } = match(rules, tags);
  assert.deepEqual(
    mappings.map(({ name }) => name),
    ['a', 'b'],
  );
  assert.deepEqual(pipelines[0]!.output, tagsOf({ __name__: 'all', __rollup__: 'true' }));
});

test('a rollup keeps the tags that it groups by, of series that have all of these', () => {
  const rollup = { metricName: 'by_app', groupBy: ['app', 'env'] };
  assert.deepEqual(outputs(rollup, { __name__: 'x', app: 'a', env: 'b', pod: 'c' }), [
    { __name__: 'by_app', __rollup__: 'true', app: 'a', env: 'b' },
  ]);
  assert.deepEqual(outputs(rollup, { __name__: 'x', app: 'a', pod: 'c' }), []);
  assert.deepEqual(outputs({ metricName: 'total' }, { __name__: 'x', app: 'a' }), [
    { __name__: 'total', __rollup__: 'true' },
  ]);
});

test('a rollup leaves out the tags that it excludes, whether a series has them or not', () => {
  const rollup = { metricName: '{{ .MetricName }}_sum', excludeBy: ['pod', 'zone'] };
  assert.deepEqual(outputs(rollup, { __name__: "$'x", app: 'a', pod: 'c' }), [
    { __name__: "$'x_sum", __rollup__: 'true', app: 'a' },
  ]);
});

test('what a rule makes has the tags of the rule', () => {
  const rule = { tags: tagsOf({ team: 'core', __m3_drop_timestamp__: 'true' }) };
  assert.deepEqual(outputs({ metricName: 'x', groupBy: ['app'] }, { app: 'a' }, rule), [
    { __name__: 'x', __rollup__: 'true', app: 'a', team: 'core' },
  ]);
});

test('the stages of a rule are those after its first aggregation', () => {
  const rollup = (metricName: string, groupBy: string[]): object => ({
    rollup: { metricName, groupBy, aggregations: ['Sum'] },
  });
  const stages = (...transforms: unknown[]): unknown => {
    const rules = { rollupRules: [{ filter: '', transforms, storagePolicies }] };
    const [pipeline] = match(rules, { app: 'a', env: 'b' }).pipelines;
    return [pipeline!.aggregations, pipeline!.output, pipeline!.stages];
  };
  const byApp = tagsOf({ __name__: 'x', __rollup__: 'true', app: 'a' });
  const byBoth = tagsOf({ __name__: 'x', __rollup__: 'true', app: 'a', env: 'b' });
  const ofStage = { type: 'rollup', output: byApp, aggregations: ['Sum'] };
  assert.deepEqual(stages({ transform: { type: 'Increase' } }, rollup('x', ['app'])), [
    [],
    null,
    [{ type: 'transform', transform: 'Increase' }, ofStage],
  ]);
  assert.deepEqual(stages({ aggregate: { type: 'Max' } }, rollup('x', ['app'])), [
    ['Max'],
    null,
    [ofStage],
  ]);
  assert.deepEqual(stages(rollup('x', ['app', 'env']), rollup('x', ['app'])), [
    ['Sum'],
    byBoth,
    [ofStage],
  ]);
});

test('what has more tags than a series may have is not made', () => {
  const rollup = { metricName: '{{ .MetricName }}_of_all_pods', excludeBy: ['pod'] };
  const made = (tags: Readonly<Record<string, string>>): number => outputs(rollup, tags).length;
  assert.equal(made({ __name__: 'x'.repeat(65_400) }), 1);
  assert.equal(made({ __name__: 'x'.repeat(65_480) }), 0, 'with its name');
  assert.equal(made({ __name__: 'x', app: 'y'.repeat(65_480) }), 0, 'with a tag more');
  assert.equal(made({ __name__: 'x', app: '\u20ac'.repeat(22_000) }), 0, 'of long characters');
  assert.equal(made({ __name__: 'x', app: '\u20ac'.repeat(21_000) }), 1);
  const many = (count: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, '1']));
  assert.deepEqual([made(many(1_021)), made(many(1_022))], [1, 0], 'with two tags more');
});

test('names with zeros in them do not pass for tags of another series', () => {
  const rules = {
    rollupRules: [
      {
        filter: '',
        transforms: [{ rollup: { metricName: '{{ .MetricName }}', groupBy: ['t'] } }],
        storagePolicies,
      },
    ],
  };
  const matcher = new RuleMatcher(rulesOfFile(rules, ''));
  const nameOf = (name: string, t: string): string | undefined =>
    matcher
      .match(tagsOf({ __name__: name, t }))
      .pipelines[0]!.output!.find((tag) => tag.name === '__name__')?.value;
  assert.equal(nameOf('x\x005 y', 'z'), 'x\x005 y');
  assert.equal(nameOf('x', 'y\x001 z'), 'x');
});

test('what it takes to match is known, also of patterns that take many steps', () => {
  const unitsOf = (pattern: string): number =>
    new RuleMatcher(
      rulesOfFile({ mappingRules: [{ filter: `app:${pattern}`, storagePolicies }] }, ''),
    ).mappingUnits(100);
  assert.equal(unitsOf('a?c*'), unitsOf('abc'));
  assert.ok(unitsOf(`*${'?'.repeat(4_000)}`) > unitsOf('abc') + 4_000);
});

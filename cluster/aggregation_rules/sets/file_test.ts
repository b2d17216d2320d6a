import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fields } from '../../fields.ts';
import { filterMatches } from '../filter.ts';
import { pathPatterns } from '../path_patterns.ts';
import { mappingRuleOf, rulesOfFile } from './file.ts';
import { ruleSetOfR2 } from './r2_json.ts';

const storagePolicies = [{ resolution: '5m', retention: '90d' }];
const rollup = { metricName: 'by_app', groupBy: ['zone', 'app'], aggregations: ['sum'] };

test('rules are read as M3 writes them', () => {
  const { mappingRules, rollupRules } = rulesOfFile(
    {
      mappingRules: [
        { name: 'keep', filter: 'app:*', aggregations: ['last', 'P99'], storagePolicies },
        { filter: 'env:dev', drop: true },
      ],
      rollupRules: [
        {
          name: 'by app',
          filter: '__name__:http_*',
          transforms: [
            { transform: { type: 'Increase' } },
            { rollup },
            { transform: { type: 'Add' } },
          ],
          storagePolicies,
          tags: [{ name: 'kind', value: 'rollup' }],
        },
      ],
    },
    'downsample.rules',
  );
  const policies = [{ resolutionNanos: 300_000_000_000n, retentionNanos: 7_776_000_000_000_000n }];
  const [keep, drop] = mappingRules;
  assert.deepEqual(keep, {
    name: 'keep',
    filterText: 'app:*',
    filter: keep!.filter,
    path: null,
    onlyNamed: false,
    tags: [],
    drop: 'none',
    aggregations: ['Last', 'P99'],
    storagePolicies: policies,
  });
  assert.deepEqual(drop, {
    name: 'downsample.rules.mappingRules[1]',
    filterText: 'env:dev',
    filter: drop!.filter,
    path: null,
    onlyNamed: false,
    tags: [],
    drop: 'ifOnlyMatch',
    aggregations: [],
    storagePolicies: [],
  });
  const [{ name, tags, targets, keepOriginal }] = rollupRules as [(typeof rollupRules)[0]];
  assert.deepEqual(
    { name, tags, keepOriginal },
    { name: 'by app', tags: [{ name: 'kind', value: 'rollup' }], keepOriginal: false },
  );
  assert.deepEqual(targets, [
    {
      operations: [
        { type: 'transform', transform: 'Increase' },
        {
          type: 'rollup',
          metricName: 'by_app',
          by: 'group',
          tags: ['app', 'zone'],
          aggregations: ['Sum'],
        },
        { type: 'transform', transform: 'Add' },
      ],
      storagePolicies: policies,
      resendEnabled: false,
    },
  ]);
});

test('rules that nothing can be made of are refused with field, reason and value', () => {
  const mapping = (fields: object): unknown => ({ mappingRules: [{ filter: 'a:*', ...fields }] });
  const rolling = (...transforms: unknown[]): unknown => ({
    rollupRules: [{ filter: 'a:*', transforms, storagePolicies }],
  });
  const refusals: readonly (readonly [unknown, string])[] = [
    [
      mapping({}),
      'mappingRules[0].storagePolicies: none is given: what matches would be kept nowhere',
    ],
    [
      mapping({ storagePolicies: [{ resolution: '5m', retention: '5m' }] }),
      'mappingRules[0].storagePolicies[0].retention: not longer than the resolution',
    ],
    [
      mapping({ storagePolicies: [...storagePolicies, ...storagePolicies] }),
      'mappingRules[0].storagePolicies[1]: the same as mappingRules[0].storagePolicies[0]',
    ],
    [
      mapping({ drop: true, storagePolicies }),
      'mappingRules[0].storagePolicies: a rule that drops has none',
    ],
    [
      mapping({ drop: true, aggregations: ['Sum'] }),
      'mappingRules[0].aggregations: a rule that drops has none',
    ],
    [
      mapping({ filter: 'a' }),
      'mappingRules[0].filter: filter has no ":" between tag and pattern: a',
    ],
    [mapping({ storagePolicies, match: 1 }), 'unknown field: mappingRules[0].match'],
    [rolling(), 'rollupRules[0].transforms: none is given'],
    [
      rolling({ transform: { type: 'Increas' } }),
      'rollupRules[0].transforms[0].transform.type: not one of Absolute, PerSecond, Increase, Add, Reset: Increas',
    ],
    [
      rolling({ rollup, transform: { type: 'Add' } }),
      'rollupRules[0].transforms[0]: not one of rollup, transform and aggregate: 2 of them',
    ],
    [
      rolling({ rollup }, { aggregate: { type: 'Sum' } }),
      'rollupRules[0].transforms[1]: aggregate can only be the first',
    ],
    [
      rolling({ transform: { type: 'Increase' } }),
      'rollupRules[0].transforms: none is a rollup, which alone makes a series',
    ],
    [
      rolling({ transform: { type: 'Add' } }, { rollup }),
      'rollupRules[0].transforms[0].transform: Add is of what a rollup makes, and comes after one',
    ],
    [
      rolling({ rollup }, { transform: { type: 'Add' } }, { rollup }),
      'rollupRules[0].transforms[1].transform: Add can only be the last, for it goes on from what is stored',
    ],
    [
      rolling({ rollup }, { transform: { type: 'Reset' } }, { transform: { type: 'Absolute' } }),
      'rollupRules[0].transforms[1].transform: Reset is of what a rollup makes, and can only be the last',
    ],
    [
      rolling({ rollup: { ...rollup, excludeBy: ['b'] } }),
      'rollupRules[0].transforms[0].rollup: groupBy and excludeBy are both given',
    ],
    [
      rolling({ rollup: { ...rollup, metricName: '' } }),
      'rollupRules[0].transforms[0].rollup.metricName: it is not given',
    ],
    [
      rolling({ rollup: { ...rollup, groupBy: ['a', 'a'] } }),
      'rollupRules[0].transforms[0].rollup.groupBy[1]: given twice: a',
    ],
    [
      rolling({ rollup }, { rollup: { ...rollup, metricName: 'all', groupBy: ['env'] } }),
      'rollupRules[0].transforms[1].rollup.groupBy: the rollup before has left it out: env',
    ],
  ];
  for (const [value, message] of refusals) {
    assert.throws(() => rulesOfFile(value, ''), { code: 'BAD_REQUEST', message });
  }
  for (const metricName of ['{{ .MetricName }}{{ .MetricName }}', '{{ .Name }}', 'a }}']) {
    assert.throws(() => rulesOfFile(rolling({ rollup: { ...rollup, metricName } }), ''), {
      message: /metricName: "\{\{ \.MetricName \}\}" can stand in it once/,
    });
  }
});

test('two rules of one kind and name are refused', () => {
  const rule = { name: 'x', filter: 'a:*', storagePolicies };
  assert.throws(() => rulesOfFile({ mappingRules: [rule, rule] }, ''), {
    message: 'mappingRules[1].name: mappingRules[0] has the same name: "x"',
  });
  const rolled = { ...rule, transforms: [{ rollup }] };
  assert.equal(
    rulesOfFile({ mappingRules: [rule], rollupRules: [rolled] }, '').rollupRules.length,
    1,
  );
});

test('two rollups that make one series in different ways are refused', () => {
  const rule = (name: string, metricName: string, ...more: readonly object[]): object => ({
    name,
    filter: 'app:*',
    transforms: [{ rollup: { metricName, groupBy: ['app'], aggregations: ['Sum'] } }, ...more],
    storagePolicies: [{ resolution: '1m', retention: '2d' }],
  });
  const add = { transform: { type: 'Add' } };
  const refusal = (...rollupRules: readonly object[]): string => {
    try {
      rulesOfFile({ rollupRules }, '');
    } catch (error) {
      return (error as Error).message;
    }
    return '';
  };
  assert.equal(
    refusal(rule('a', 'x'), rule('b', 'x', add)),
    'rollup rules "a" and "b" make the same series in different ways: x',
  );
  // They add up.
  assert.equal(refusal(rule('a', 'x'), rule('b', 'x')), '');
  assert.equal(refusal(rule('a', 'x'), rule('b', 'y', add)), '');
  const tagged = { ...rule('b', 'x', add), tags: [{ name: 'made', value: 'by b' }] };
  assert.equal(refusal(rule('a', 'x'), tagged), '');
});

test('conditions on paths are read, and refused with their field', () => {
  const read = (rule: object) => rulesOfFile({ mappingRules: [rule] }, '').mappingRules[0]!;
  const path = { pattern: '^a\\.', order: 3, continue: true };
  const kept = read({ path, onlyNamed: true, storagePolicies });
  const { kind, text, order, continues } = kept.path!;
  assert.deepEqual([kind, text, order, continues], ['pattern', '^a\\.', 3, true]);
  assert.equal(kept.onlyNamed, true);
  assert.deepEqual(read({ path, aggregations: ['Sum'] }).storagePolicies, [], 'how it is read');
  for (const [rule, message] of [
    [{ path: {}, storagePolicies }, /path: not one of pattern and contains: 0 of them/],
    [
      { path: { pattern: 'a', contains: 'a' }, storagePolicies },
      /path: not one of pattern and contains: 2 of them/,
    ],
    [{ path: { pattern: 'a(?!b)' }, storagePolicies }, /path\.pattern: error parsing regexp/],
    [{ path: { contains: 'a', first: 1 }, storagePolicies }, /unknown field: .*path\.first/],
    [{ path }, /storagePolicies: none is given/],
    [{ aggregations: ['Sum'] }, /storagePolicies: none is given/],
    [{ path, drop: true, onlyNamed: true }, /onlyNamed: a rule that drops names nothing/],
  ] as const) {
    assert.throws(() => read(rule), { code: 'BAD_REQUEST', message });
  }
  const mappingRules = Array.from({ length: 1_001 }, () => ({ path, storagePolicies }));
  assert.throws(() => rulesOfFile({ mappingRules }, ''), {
    message: 'mappingRules: more than 1000 with conditions on paths: 1001',
  });
});

test('as many tags and rules as a request has hold nobody up', () => {
  const groupBy = Array.from({ length: 100_000 }, (_, i) => `tag_${i}`);
  const rule = { name: 'x', filter: 'a:*', transforms: [{ rollup: { metricName: 'm', groupBy } }] };
  const beganMillis = performance.now();
  rulesOfFile({ rollupRules: [{ ...rule, storagePolicies }] }, '');
  const mappingRules = groupBy.map((name) => ({ name, storagePolicies: ['1m:30d'] }));
  ruleSetOfR2(Fields.of({ id: 'all', mappingRules }, ''));
  // Each compared with each takes 10 s.
  assert.ok(performance.now() - beganMillis < 5_000);
});

test('patterns that take too much are refused before one is compiled, with rule and size', () => {
  const before = pathPatterns.compiledCount;
  const withPattern = (name: string, pattern: string) => ({
    name,
    path: { pattern },
    storagePolicies,
  });
  const large = 'a{1000}a{1000}a{900}';
  const many = (count: number): object[] =>
    Array.from({ length: count }, (_, i) => withPattern(`r${i}`, large));
  assert.throws(() => rulesOfFile({ mappingRules: many(40) }, ''), {
    code: 'BAD_REQUEST',
    message:
      'mappingRules: rule r34: 101605 instructions in the patterns of paths of all up to this one, and 100000 is the most',
  });
  const twins = [...many(3), withPattern('r0', '(')];
  assert.throws(() => rulesOfFile({ mappingRules: twins }, ''), { message: /has the same name/ });
  const r2 = (mappingRules: readonly object[]) => () =>
    ruleSetOfR2(
      Fields.of(
        {
          id: 'x',
          mappingRules: mappingRules.map((rule) => ({ ...rule, storagePolicies: ['1m:30d'] })),
        },
        '',
      ),
    );
  assert.throws(r2(many(40)), { message: /^mappingRules: rule r34: 101605 instructions/ });
  // What comes behind is not read.
  const behind = { name: 1 };
  assert.throws(r2([...many(40), behind]), { message: /^mappingRules: rule r34/ });
  const small = Array.from({ length: 1_001 }, (_, i) => withPattern(`r${i}`, 'a'));
  assert.throws(() => rulesOfFile({ mappingRules: [...small, behind] }, ''), {
    message: 'mappingRules: more than 1000 with conditions on paths: 1001',
  });
  assert.throws(r2(twins), { message: /two rules have one name: r0/ });
  assert.equal(pathPatterns.compiledCount, before);
  assert.throws(r2([withPattern('a', 'b'), withPattern('b', 'a(?!b)')]), {
    code: 'BAD_REQUEST',
    message: /^mappingRules\[1\]\.path\.pattern: error parsing regexp/,
  });
});

test('patterns of filters whose match takes long are refused when a rule is made', () => {
  const filter = `app:${'{,a}'.repeat(1_000)}`;
  assert.throws(() => rulesOfFile({ mappingRules: [{ filter, storagePolicies }] }, ''), {
    code: 'BAD_REQUEST',
    message:
      /^mappingRules\[0\]\.filter: app: a match of the pattern takes up to \d+ steps, and 16384 is the most: app:\{,a\}/,
  });
  // What stands is read.
  const stored = { name: 'x', filter, storagePolicies };
  assert.equal(mappingRuleOf(Fields.ofStored(stored, '', [])).filterText, filter);
  const mappingRules = Array.from({ length: 300 }, (_, i) => ({
    name: `r${i}`,
    filter: `app:*${'?'.repeat(4_000)}`,
    storagePolicies,
  }));
  assert.throws(() => rulesOfFile({ mappingRules }, ''), {
    message:
      'mappingRules: rule r250: 1004000 steps to match the filters of all up to this one on a series, and 1000000 is the most',
  });
});

test('filters that ask for the kind of a metric are decided when a rule is made', () => {
  const made = (filter: string) =>
    rulesOfFile({ mappingRules: [{ filter, storagePolicies }] }, '').mappingRules[0]!;
  // Every series is a gauge; rules as they are kept do not ask for it.
  assert.equal(made('app:web  __m3_type__:{counter,gauge} env:*').filterText, 'app:web env:*');
  for (const [filter, message] of [
    [
      'app:web __m3_type__:counter',
      'mappingRules[0].filter: __m3_type__ of all series is gauge here, and it would match none: __m3_type__:counter',
    ],
    ['__m3_type__:!gauge', /: __m3_type__ of all series is gauge here/],
    ['__m3_type__:[g', /^mappingRules\[0\]\.filter: __m3_type__: pattern has "\[" without "\]"/],
    [
      '__m3_prom_type__:unknown',
      /^mappingRules\[0\]\.filter: no series is told by __m3_prom_type__ here/,
    ],
  ] as const) {
    assert.throws(() => made(filter), { code: 'BAD_REQUEST', message }, filter);
    const asOfR2 = { id: 'x', mappingRules: [{ name: 'a', filter, storagePolicies: ['5m:90d'] }] };
    assert.throws(() => ruleSetOfR2(Fields.of(asOfR2, '')), { code: 'BAD_REQUEST' }, filter);
  }
  // What stands from before is read, and matches nothing, as it has.
  for (const filter of ['__m3_type__:counter', '__m3_type__:gauge', '__m3_prom_type__:*']) {
    const stood = mappingRuleOf(Fields.ofStored({ name: 'x', filter, drop: true }, '', []));
    assert.equal(stood.filterText, filter);
    const tags = new Map([['__name__', 'x']]);
    assert.equal(filterMatches(stood.filter, tags), false);
  }
});

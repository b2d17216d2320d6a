import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fields } from '../../fields.ts';
import {
  type ChangeMoment,
  cutoversOf,
  emptyRuleSet,
  rulesAt,
  type RuleSet,
  withChanges,
  withoutBefore,
  withRules,
} from './set.ts';
import { mappingRuleOf, rollupRuleOf, rulesOfFile } from './file.ts';
import { mappingRuleToJson, rollupRuleToJson } from './json.ts';

const storagePolicies = [{ resolution: '5m', retention: '90d' }];

const mapping = (name: string, filter = 'app:*'): object => ({ name, filter, storagePolicies });
const rollup = (name: string, metricName = 'x'): object => ({
  name,
  filter: 'app:*',
  transforms: [{ rollup: { metricName } }],
  storagePolicies,
});

function momentOf(cutoverNanos: bigint): ChangeMoment {
  let count = 0;
  const newId = (): string => `id${cutoverNanos}-${(count += 1)}`;
  return { cutoverNanos, nowMillis: Number(cutoverNanos), by: 'me', newId };
}

function changed(
  set: RuleSet,
  cutoverNanos: bigint,
  mappingRules: object[],
  rollupRules: object[] = [],
): RuleSet {
  return withRules(set, rulesOfFile({ mappingRules, rollupRules }, ''), momentOf(cutoverNanos));
}

function namesAt(set: RuleSet, nanos: bigint): string[] {
  const { mappingRules, rollupRules } = rulesAt(set, nanos);
  return [...mappingRules, ...rollupRules].map(({ name, filterText }) => `${name} ${filterText}`);
}

test('rules hold from their cut-over on, until another one of their name does', () => {
  const first = changed(emptyRuleSet, 10n, [mapping('a'), mapping('b')], [rollup('c')]);
  const second = changed(first, 20n, [mapping('a', 'app:web')], [rollup('c')]);
  assert.deepEqual(namesAt(second, 9n), []);
  assert.deepEqual(namesAt(second, 10n), ['a app:*', 'b app:*', 'c app:*']);
  assert.deepEqual(namesAt(second, 19n), ['a app:*', 'b app:*', 'c app:*']);
  assert.deepEqual(namesAt(second, 20n), ['a app:web', 'c app:*']);
  assert.deepEqual(cutoversOf(second), [10n, 20n]);
  assert.deepEqual([first.version, second.version], [1, 2]);
});

test('the same rules again are no change', () => {
  const first = changed(emptyRuleSet, 10n, [mapping('a')], [rollup('c')]);
  assert.equal(changed(first, 20n, [mapping('a')], [rollup('c')]), first);
});

test('what has not begun to hold never does when something else is to hold from then on', () => {
  const first = changed(emptyRuleSet, 10n, [mapping('a')]);
  const second = changed(first, 20n, [mapping('a', 'app:x'), mapping('b')]);
  const third = changed(second, 20n, [mapping('a', 'app:y')]);
  assert.deepEqual(namesAt(third, 20n), ['a app:y']);
  assert.equal(third.mappingRules[0]!.versions.length, 2);
  assert.deepEqual(
    third.mappingRules.map(({ id }) => id),
    ['id10-1'],
    'b was never there',
  );
});

test('a rule that was deleted comes again as another one', () => {
  const first = changed(emptyRuleSet, 10n, [mapping('a')]);
  const second = changed(first, 20n, []);
  const third = changed(second, 30n, [mapping('a')]);
  assert.deepEqual(
    [15n, 25n, 35n].map((nanos) => namesAt(third, nanos).length),
    [1, 0, 1],
  );
  assert.deepEqual(
    third.mappingRules.map(({ id }) => id),
    ['id10-1', 'id30-1'],
  );
});

test('a rule is added, changed and deleted by itself', () => {
  const { mappingRules } = changed(emptyRuleSet, 10n, [mapping('a'), mapping('b')]);
  const ruleOf = (name: string, filter: string) =>
    rulesOfFile({ mappingRules: [mapping(name, filter)] }, '').mappingRules[0]!;
  const namesOf = (histories: typeof mappingRules, nanos: bigint): string[] =>
    namesAt({ ...emptyRuleSet, mappingRules: histories }, nanos);
  const added = withChanges(
    mappingRules,
    [{ op: 'add', rule: ruleOf('c', 'app:c') }],
    momentOf(20n),
  );
  assert.deepEqual(namesOf(added, 20n), ['a app:*', 'b app:*', 'c app:c']);
  const [{ id }] = mappingRules as [(typeof mappingRules)[0]];
  const renamed = withChanges(
    added,
    [{ op: 'change', id, rule: ruleOf('d', 'app:d') }],
    momentOf(30n),
  );
  assert.deepEqual(namesOf(renamed, 29n), ['a app:*', 'b app:*', 'c app:c']);
  assert.deepEqual(namesOf(renamed, 30n), ['d app:d', 'b app:*', 'c app:c']);
  const deleted = withChanges(renamed, [{ op: 'delete', id }], momentOf(40n));
  assert.deepEqual(namesOf(deleted, 40n), ['b app:*', 'c app:c']);
  assert.throws(() => withChanges(deleted, [{ op: 'delete', id }], momentOf(50n)), {
    code: 'NOT_FOUND',
    message: `no rule has the ID ${id}`,
  });
  const again = { op: 'add', rule: ruleOf('b', 'x:y') } as const;
  assert.throws(() => withChanges(deleted, [again], momentOf(50n)), {
    code: 'CONFLICT',
    message: /a rule has this name already: b/,
  });
  // All at once: a name is free for another rule that goes or gets another name in the same change.
  const moved = withChanges(
    mappingRules,
    [
      { op: 'add', rule: ruleOf('b', 'app:new') },
      { op: 'add', rule: ruleOf('a', 'app:new') },
      { op: 'change', id: mappingRules[1]!.id, rule: ruleOf('e', 'app:e') },
      { op: 'delete', id },
    ],
    momentOf(60n),
  );
  assert.deepEqual(namesOf(moved, 60n), ['e app:e', 'b app:new', 'a app:new']);
});

test('twenty thousand changes at once hold nobody up', () => {
  const rules = Array.from({ length: 20_000 }, (_, i) => ({ ...mapping('a'), name: `rule ${i}` }));
  const { mappingRules } = rulesOfFile({ mappingRules: rules }, '');
  const beganMillis = performance.now();
  const all = withChanges(
    [],
    mappingRules.map((rule) => ({ op: 'add', rule })),
    momentOf(10n),
  );
  assert.equal(all.length, 20_000);
  // Each compared with each takes 5 s.
  assert.ok(performance.now() - beganMillis < 2_000);
});

test('a rule with a condition on paths does not become one of all series unawares', () => {
  const path = { contains: '.cpu' };
  const ruleOf = (rule: object) =>
    rulesOfFile({ mappingRules: [{ ...mapping('a', ''), ...rule }] }, '').mappingRules[0]!;
  const { mappingRules } = changed(emptyRuleSet, 10n, [{ ...mapping('a', ''), path }]);
  const [{ id }] = mappingRules as [(typeof mappingRules)[0]];
  const change = (rule: object) =>
    withChanges(mappingRules, [{ op: 'change', id, rule: ruleOf(rule) }], momentOf(20n));
  assert.throws(() => change({}), {
    code: 'BAD_REQUEST',
    message: 'path: the rule has a condition on paths, which is not given',
  });
  const [{ versions }] = change({ path: { contains: '.mem' } }) as [(typeof mappingRules)[0]];
  assert.equal(versions.at(-1)!.rule!.path!.text, '.mem');
});

test('versions that nothing is made by any more are forgotten', () => {
  const first = changed(emptyRuleSet, 10n, [mapping('a'), mapping('b')]);
  const second = changed(first, 20n, [mapping('a', 'app:x')]);
  const third = changed(second, 30n, [mapping('a', 'app:y')]);
  const left = withoutBefore(third, 25n);
  assert.deepEqual(
    left.mappingRules.map(({ versions }) => versions.length),
    [2],
  );
  for (const nanos of [25n, 29n, 30n])
    assert.deepEqual(namesAt(left, nanos), namesAt(third, nanos));
});

test('rules are stored as a file has them', () => {
  const rules = rulesOfFile(
    {
      mappingRules: [
        { ...mapping('a'), aggregations: ['P99'], tags: [{ name: 'x', value: 'y' }] },
        { name: 'b', filter: 'env:dev', drop: true },
        { name: 'c', filter: 'env:dev', drop: 'must' },
        {
          name: 'path',
          path: { pattern: '^a|b', order: 2, continue: true },
          onlyNamed: true,
          storagePolicies,
        },
        { name: 'read', path: { contains: 'a.b' }, aggregations: ['Sum'] },
      ],
      rollupRules: [
        rollup('d', '{{ .MetricName }}_sum'),
        {
          name: 'e',
          filter: 'a:b',
          keepOriginal: true,
          targets: [
            {
              transforms: [
                { aggregate: { type: 'Max' } },
                { rollup: { metricName: 'x', excludeBy: ['pod'], aggregations: ['Sum'] } },
                { transform: { type: 'Add' } },
              ],
              storagePolicies,
              resendEnabled: true,
            },
          ],
        },
      ],
    },
    '',
  );
  const again = (value: object): Fields => Fields.of(JSON.parse(JSON.stringify(value)), '');
  const texts = (value: unknown): unknown =>
    JSON.parse(
      JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each)),
    );
  for (const rule of rules.mappingRules) {
    assert.deepEqual(texts(mappingRuleOf(again(mappingRuleToJson(rule)))), texts(rule));
  }
  for (const rule of rules.rollupRules) {
    assert.deepEqual(texts(rollupRuleOf(again(rollupRuleToJson(rule)))), texts(rule));
  }
});

test('a sum in the middle of a rule that stands is read, though no new one is taken', () => {
  const rule = {
    ...rollup('a'),
    transforms: [
      { rollup: { metricName: 'x', groupBy: ['app', 'zone'] } },
      { transform: { type: 'Add' } },
      { rollup: { metricName: 'y', groupBy: ['app'] } },
    ],
  };
  assert.throws(() => rollupRuleOf(Fields.of(rule, '')), { code: 'BAD_REQUEST' });
  const { targets } = rollupRuleOf(Fields.ofStored(rule, '', []));
  assert.equal(targets[0]!.operations.length, 3);
});

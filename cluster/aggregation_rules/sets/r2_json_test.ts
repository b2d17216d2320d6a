import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fields } from '../../fields.ts';
import {
  mappingRuleOfR2,
  mappingRuleToR2,
  rollupRuleOfR2,
  rollupRuleToR2,
  ruleChangeOfR2,
  ruleSetToR2,
} from './r2_json.ts';
import { emptyRuleSet, type RuleVersion } from './set.ts';
import { mappingRuleOf, rollupRuleOf } from './file.ts';

const fieldsOf = (value: unknown): Fields => Fields.of(value, 'rule');

function versionOf<R>(rule: R): RuleVersion<R> {
  return { rule, cutoverNanos: 60_000_000_000n, updatedAtMillis: 5, updatedBy: 'me' };
}

const mapping = {
  name: 'keep',
  filter: 'app:web* env:{prod,stage}',
  aggregation: ['Max', 'P99'],
  storagePolicies: ['5m:90d', '1h@1s:2160h'],
  tags: [{ name: 'team', value: 'a' }],
};

const rollup = {
  name: 'by device',
  filter: 'device:*',
  targets: [
    {
      pipeline: [
        { aggregation: 'Sum' },
        { transformation: 'PerSecond' },
        { rollup: { newName: 'all', tags: ['b', 'a'], aggregation: ['Min', 'Max'] } },
      ],
      storagePolicies: ['10s:2d', '1m:40d'],
    },
    {
      pipeline: [{ rollup: { type: 1, newName: '{{ .MetricName }}_x', tags: ['pod'] } }],
      storagePolicies: ['1m0s:48h0m0s'],
      resendEnabled: true,
    },
  ],
};

test('rules of the API are those of a file', () => {
  assert.deepEqual(
    JSON.stringify(mappingRuleOfR2(fieldsOf(mapping)), bigints),
    JSON.stringify(
      mappingRuleOf(
        fieldsOf({
          name: 'keep',
          filter: mapping.filter,
          aggregations: ['Max', 'P99'],
          storagePolicies: [
            { resolution: '5m', retention: '90d' },
            { resolution: '1h', retention: '90d' },
          ],
          tags: mapping.tags,
        }),
      ),
      bigints,
    ),
  );
  assert.deepEqual(
    JSON.stringify(rollupRuleOfR2(fieldsOf(rollup)), bigints),
    JSON.stringify(
      rollupRuleOf(
        fieldsOf({
          name: 'by device',
          filter: 'device:*',
          targets: [
            {
              transforms: [
                { aggregate: { type: 'Sum' } },
                { transform: { type: 'PerSecond' } },
                {
                  rollup: { metricName: 'all', groupBy: ['a', 'b'], aggregations: ['Min', 'Max'] },
                },
              ],
              storagePolicies: [
                { resolution: '10s', retention: '2d' },
                { resolution: '1m', retention: '40d' },
              ],
            },
            {
              transforms: [{ rollup: { metricName: '{{ .MetricName }}_x', excludeBy: ['pod'] } }],
              storagePolicies: [{ resolution: '1m', retention: '48h' }],
              resendEnabled: true,
            },
          ],
        }),
      ),
      bigints,
    ),
  );
});

test('what is answered can be sent again', () => {
  const kept = mappingRuleOfR2(fieldsOf(mapping));
  const dropped = mappingRuleOfR2(fieldsOf({ name: 'drop', filter: 'env:dev', dropPolicy: 2 }));
  assert.equal(dropped.drop, 'ifOnlyMatch');
  const path = { pattern: '^a\\.', order: 1, continue: true };
  const ofPaths = mappingRuleOfR2(fieldsOf({ ...mapping, filter: '', path, onlyNamed: true }));
  for (const rule of [kept, dropped, ofPaths]) {
    const [answer] = JSON.parse(JSON.stringify(mappingRuleToR2('x', versionOf(rule))));
    assert.deepEqual(
      [answer.id, answer.cutoverMillis, answer.lastUpdatedAtMillis, answer.lastUpdatedBy],
      ['x', 60_000, 5, 'me'],
    );
    const again = mappingRuleOfR2(fieldsOf(answer));
    assert.equal(JSON.stringify(again, bigints), JSON.stringify(rule, bigints));
  }
  const rolled = rollupRuleOfR2(fieldsOf(rollup));
  const [answer] = JSON.parse(JSON.stringify(rollupRuleToR2('y', versionOf(rolled))));
  const again = rollupRuleOfR2(fieldsOf(answer));
  assert.equal(JSON.stringify(again, bigints), JSON.stringify(rolled, bigints));
});

test('a set has the rules that are to stand, sorted by name', () => {
  const rule = (name: string) => mappingRuleOfR2(fieldsOf({ ...mapping, name }));
  const deleted = { ...versionOf(null), cutoverNanos: 120_000_000_000n };
  const set = {
    ...emptyRuleSet,
    version: 7,
    mappingRules: [
      { id: '1', versions: [versionOf(rule('b'))] },
      { id: '2', versions: [versionOf(rule('a'))] },
      { id: '3', versions: [versionOf(rule('c')), deleted] },
    ],
  };
  const answer = JSON.parse(JSON.stringify(ruleSetToR2('default', set)));
  assert.deepEqual(
    { ...answer, mappingRules: answer.mappingRules.map(({ name }: { name: string }) => name) },
    {
      id: 'default',
      version: 7,
      cutoverMillis: 120_000,
      mappingRules: ['a', 'b'],
      rollupRules: [],
    },
  );
});

test('changes say what to do with which rule', () => {
  const read = (value: object) => ruleChangeOfR2(fieldsOf(value), mappingRuleOfR2);
  assert.deepEqual(read({ op: 'delete', ruleID: 'x' }), { op: 'delete', id: 'x' });
  const added = read({ op: 'add', ruleData: mapping });
  assert.equal(added.op === 'add' && added.rule.name, 'keep');
  const changed = read({ op: 'change', ruleID: 'x', ruleData: mapping });
  assert.equal(changed.op === 'change' && changed.id, 'x');
});

const refused: readonly [what: string, read: () => unknown, message: string][] = [
  [
    'no name',
    () => mappingRuleOfR2(fieldsOf({ filter: 'a:b' })),
    'rule.name: it is not given: null',
  ],
  [
    'another kind of drop',
    () => mappingRuleOfR2(fieldsOf({ ...mapping, dropPolicy: 3 })),
    'rule.dropPolicy: not 0 (none), 1 (must) or 2 (if it is the only match): 3',
  ],
  [
    'a policy without a retention',
    () => mappingRuleOfR2(fieldsOf({ ...mapping, storagePolicies: ['5m'] })),
    'rule.storagePolicies[0]: not as "10s:2d": 5m',
  ],
  [
    'a retention that is no duration',
    () => mappingRuleOfR2(fieldsOf({ ...mapping, storagePolicies: ['5m:x'] })),
    'rule.storagePolicies[0]: not a duration such as "48h", "30m" or "10s": "x"',
  ],
  [
    'a retention as long as the resolution',
    () => mappingRuleOfR2(fieldsOf({ ...mapping, storagePolicies: ['5m:5m'] })),
    'rule.storagePolicies[0], retention: not longer than the resolution',
  ],
  [
    'an aggregation where rows are dropped',
    () => mappingRuleOfR2(fieldsOf({ ...mapping, storagePolicies: [], dropPolicy: 1 })),
    'rule.aggregation: a rule that drops has none',
  ],
  [
    'an operation that is two',
    () =>
      rollupRuleOfR2(
        fieldsOf({
          ...rollup,
          targets: [
            {
              pipeline: [{ aggregation: 'Sum', transformation: 'Add' }],
              storagePolicies: ['1m:2d'],
            },
          ],
        }),
      ),
    'rule.targets[0].pipeline[0]: not one of aggregation, transformation and rollup: 2 of them',
  ],
  [
    'a sum that is rolled up once more',
    () =>
      rollupRuleOfR2(
        fieldsOf({
          ...rollup,
          targets: [
            {
              pipeline: [
                { rollup: { newName: 'a', tags: ['app'] } },
                { transformation: 'Add' },
                { rollup: { newName: 'b', tags: ['app'] } },
              ],
              storagePolicies: ['1m:2d'],
            },
          ],
        }),
      ),
    'rule.targets[0].pipeline[1].transform: Add can only be the last, for it goes on from what is stored',
  ],
  [
    'a field that there is not',
    () => mappingRuleOfR2(fieldsOf({ ...mapping, drop: true })),
    'unknown field: rule.drop',
  ],
  [
    'a change of nothing',
    () => ruleChangeOfR2(fieldsOf({ op: 'change', ruleData: mapping }), mappingRuleOfR2),
    'rule.ruleID: it is not given: ""',
  ],
];

for (const [what, read, message] of refused) {
  test(`it is refused: ${what}`, () => {
    assert.throws(read, { code: 'BAD_REQUEST', message });
  });
}

function bigints(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

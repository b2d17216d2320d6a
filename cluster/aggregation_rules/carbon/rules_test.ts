import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RuleMatcher } from '../match.ts';
import type { MappingRule } from '../rules.ts';
import { formatDurationNanos } from '#lib/time.ts';
import { mappingRulesOfIngester } from './ingester_rules.ts';
import { mappingRulesOfAggregation } from './storage_aggregation.ts';
import { mappingRulesOfSchemas } from './storage_schemas.ts';

const place = 'coordinator.carbon.ingester';
const tagsOf = (path: string) =>
  path.split('.').map((value, node) => ({ name: `__g${node}__`, value }));

/** What rules say of a path, in short. */
function told(mappingRules: readonly MappingRule[], path: string): string {
  const matcher = new RuleMatcher({ mappingRules, rollupRules: [] });
  const { mappings } = matcher.matchMappings(tagsOf(path));
  const policies = mappings.flatMap(({ storagePolicies }) =>
    storagePolicies.map(
      ({ resolutionNanos, retentionNanos }) =>
        `${formatDurationNanos(resolutionNanos)}:${formatDurationNanos(retentionNanos)}`,
    ),
  );
  const only = mappings.some(({ onlyNamed }) => onlyNamed) ? ' only' : '';
  return `${policies.join()}${only} ${matcher.pathReading(tagsOf(path)).aggregation}`;
}

test("M3's rules: the first that matches, and those behind one that goes on", () => {
  const fine = { resolution: '10s', retention: '48h' };
  const coarse = { resolution: '1h', retention: '720h' };
  const rules = mappingRulesOfIngester(
    [
      { pattern: '^prod\\.', continue: true, aggregation: { type: 'max' }, policies: [coarse] },
      { contains: 'cpu', aggregation: { enabled: false, type: 'sum' }, policies: [fine] },
      { pattern: '.*', policies: [fine, coarse] },
    ],
    place,
  );
  assert.equal(told(rules, 'prod.cpu'), '1h0m0s:720h0m0s,10s:48h0m0s only Max');
  assert.equal(told(rules, 'dev.cpu'), '10s:48h0m0s only Last');
  assert.equal(told(rules, 'dev.mem'), '10s:48h0m0s,1h0m0s:720h0m0s only Mean');
  for (const [rule, message] of [
    [{ policies: [fine] }, /rules\[0\]: not one of pattern and contains: 0/],
    [{ pattern: 'a' }, /rules\[0\]\.policies: none is given/],
    [{ pattern: '(?<=a)', policies: [fine] }, /rules\[0\]\.pattern: error parsing regexp/],
    [
      { pattern: 'a', policies: [fine], aggregation: { type: 'median' } },
      /rules\[0\]\.aggregation\.type: not one of mean, .*: median/,
    ],
    [
      { pattern: 'a', policies: [{ resolution: '1h', retention: '1h' }] },
      /rules\[0\]\.policies\[0\]\.retention: not longer than the resolution/,
    ],
    [{ pattern: 'a', policies: [fine], drop: true }, /unknown field: .*rules\[0\]\.drop/],
  ] as const) {
    assert.throws(() => mappingRulesOfIngester([rule], place), { code: 'BAD_REQUEST', message });
  }
  assert.throws(() => mappingRulesOfIngester({}, place), { message: /rules: not a list/ });
});

test('storage-schemas.conf: archives become resolutions, by the place in the file', () => {
  const rules = mappingRulesOfSchemas(
    `# of a cluster
[carbon]
pattern = ^carbon\\.
retentions = 60:90d

; comes before what takes all servers
[web]
pattern = ^servers\\.web
retentions = 30:2880
[servers]
pattern: ^servers\\.
RETENTIONS = 1m:7d, 10s:6h,1hour:2years
priority = -1
[rest]
priority = -1
match-all = true
retentions = 5min:1w
`,
    'schemas.conf',
  );
  assert.equal(told(rules, 'carbon.agents'), '1m0s:2160h0m0s only null');
  assert.equal(
    told(rules, 'servers.db.cpu'),
    '10s:6h0m0s,1m0s:168h0m0s,1h0m0s:17520h0m0s only null',
  );
  assert.equal(told(rules, 'servers.web1.cpu'), '30s:24h0m0s only null');
  assert.equal(told(rules, 'other'), '5m0s:168h0m0s only null');
  assert.equal(rules[1]!.name, 'storage-schemas [web]');
  const section = (name: string, priority: number): string =>
    `[${name}]\npriority = ${priority}\npattern = ^${name}\nretentions = 1m:1d\n`;
  assert.throws(() => mappingRulesOfSchemas(section('a', 1) + section('b', 2), 's.conf'), {
    code: 'BAD_REQUEST',
    message: /^s\.conf:7: \[b\] pattern: a priority of 2 is more than that of \[a\] before it, 1: /,
  });
});

test('storage-aggregation.conf: the first section says as what a path is read', () => {
  const rules = mappingRulesOfAggregation(
    `[min]
pattern = \\.lower$
xFilesFactor = 0.1
aggregationMethod = min
[sum]
pattern = \\.count$
aggregationMethod = sum
[default]
pattern = .*
xFilesFactor = 0.5
`,
    'aggregation.conf',
  );
  assert.equal(told(rules, 'a.lower'), ' Min');
  assert.equal(told(rules, 'a.count'), ' Sum');
  assert.equal(told(rules, 'a.upper'), ' Mean');
});

test('mistakes in files are told with file, line, section and reason', () => {
  const schema = (text: string) => () => mappingRulesOfSchemas(text, 's.conf');
  const aggregation = (text: string) => () => mappingRulesOfAggregation(text, 'a.conf');
  const all = '[a]\npattern = .*\n';
  for (const [read, message] of [
    [schema('pattern = a'), 's.conf:1: before the first [section]: pattern = a'],
    [schema('[a]\npattern'), 's.conf:2: [a]: not as key = value: pattern'],
    [schema('[a]\n pattern = a'), 's.conf:2: [a]: the line begins with a space'],
    [schema('[DEFAULT]'), 's.conf:1: [DEFAULT]: values for all sections are none here'],
    [schema(`${all}[a]`), 's.conf:3: [a]: a section has this name already'],
    [schema(`${all}pattern = b`), 's.conf:3: [a] pattern: given twice'],
    [schema('[a]\nretentions = 1m:1d'), 's.conf:1: [a]: it has no pattern'],
    [schema(all), 's.conf:1: [a]: it has no retentions'],
    [schema(`${all}retentions = 1m:1d\nstep = 3`), 's.conf:4: [a] step: unknown key'],
    [schema(`${all}retentions = 1m`), 's.conf:3: [a] retentions: not as 10s:6h or 60:1440: 1m'],
    [
      schema(`${all}retentions = 1x:1d`),
      's.conf:3: [a] retentions: not as 10s:6h or 60:1440: 1x:1d',
    ],
    [schema(`${all}retentions = 0:1d`), /\[a\] retentions: a step of 0/],
    [
      schema(`${all}retentions = 1h:60s`),
      /\[a\] retentions: an archive is not kept longer than its step/,
    ],
    [
      schema(`${all}retentions = 10s:1d,1m:6h`),
      /\[a\] retentions: an archive is not both coarser and/,
    ],
    [
      schema(`${all}retentions = 1m:1d\npriority = high`),
      's.conf:4: [a] priority: not a whole number: high',
    ],
    [schema('[a]\nmatch-all = no\nretentions = 1m:1d'), 's.conf:2: [a] match-all: not true: no'],
    [
      schema('[a]\npattern = ^(?!b)\nretentions = 1m:1d'),
      /^s\.conf:2: \[a\] pattern: error parsing regexp: .*`\^\(\?!b\)`$/,
    ],
    [
      aggregation(`${all}aggregationMethod = absmax`),
      /^a\.conf:3: \[a\] aggregationMethod: windows do not have .*: absmax$/,
    ],
    [
      aggregation(`${all}aggregationMethod = best`),
      /^a\.conf:3: \[a\] aggregationMethod: not one of average, .*: best$/,
    ],
    [aggregation(`${all}xFilesFactor = 2`), 'a.conf:3: [a] xFilesFactor: not from 0 to 1: 2'],
  ] as const) {
    assert.throws(read, { code: 'BAD_REQUEST', message });
  }
});

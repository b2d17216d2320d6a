import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { explainSeries, rulesText, tagsOfPairs } from './explain.ts';
import { readRuleFile } from './read.ts';

const rulesAlone = `mappingRules:
  - name: web
    filter: app:nginx*
    aggregations: [Last]
    storagePolicies:
      - {resolution: 1m, retention: 48h}
  - name: no raw
    filter: env:dev
    drop: true
rollupRules:
  - name: by app
    filter: __name__:http_* app:*
    transforms:
      - transform: {type: Increase}
      - rollup: {metricName: "{{ .MetricName }}_by_app", groupBy: [app], aggregations: [Sum]}
      - transform: {type: Add}
    storagePolicies:
      - {resolution: 30s, retention: 720h}
`;

function under(...keys: string[]): string {
  let text = rulesAlone;
  for (const key of keys.toReversed()) text = `${key}:\n${text.replace(/^(?=.)/gm, '  ')}`;
  return text;
}

const read = (text: string) => readRuleFile({ path: 'rules.yml', text }, {}, realEnv.disk);

test('rules stand alone in a file, or in the configuration of a coordinator', async () => {
  for (const keys of [[], ['downsample', 'rules'], ['coordinator', 'downsample', 'rules']]) {
    const { rules } = await read(under(...keys));
    assert.equal(rulesText(rules), '2 mapping rules and 1 rollup rules: all can be used');
  }
});

test('a check tells what of the rules does nothing', async () => {
  const { rules } = await read(
    rulesAlone
      .replace('    drop: true', '    drop: true\n    tags: [{name: team, value: x}]')
      .concat('    tags: [{name: __m3_graphite_prefix__, value: x}, {name: team, value: x}]\n'),
  );
  assert.equal(
    rulesText(rules),
    `2 mapping rules and 1 rollup rules: all can be used
  ! mapping rule "no raw": tags do nothing: a mapping rule makes no series
  ! rollup rule "by app": tag __m3_graphite_prefix__ does nothing: no series is stored with such a tag`,
  );
});

test('a mistake in a file of rules is told with its line', async () => {
  const message = (text: RegExp): object => ({ code: 'BAD_REQUEST', message: text });
  await assert.rejects(
    () => read(rulesAlone.replace('Increase', 'Incr')),
    message(/^rules\.yml:14: rollupRules\[0\]\.transforms\[0\]\.transform\.type: not one of/),
  );
  await assert.rejects(
    () => read(under('downsample', 'rules').replace('drop: true', 'dropped: true')),
    message(/^rules\.yml:11: unknown field: downsample\.rules\.mappingRules\[1\]\.dropped$/),
  );
  await assert.rejects(
    () => read(rulesAlone.replace('env:dev', '__m3_prom_type__:counter')),
    message(/^rules\.yml:8: mappingRules\[1\]\.filter: no series is told by __m3_prom_type__ here/),
  );
  await assert.rejects(() => read('mappingRules: ['), message(/^rules\.yml:1: not YAML/));
});

test('what the rules do with a series is told in words', async () => {
  const { rules } = await read(rulesAlone);
  const explain = (...pairs: string[]): string => explainSeries(rules, tagsOfPairs(pairs));
  assert.equal(
    explain('http_requests', 'app=nginx-1', 'env=dev', 'pod=a'),
    `http_requests{app="nginx-1", env="dev", pod="a"}
  kept at 1m0s for 48h0m0s as Last: mapping rule "web"
  its rows are not kept as they come: mapping rule "no raw" drops
  rolled up at 30s for 720h0m0s: rollup rule "by app"
    its own windows
    then Increase
    then http_requests_by_app{__rollup__="true", app="nginx-1"} as Sum
    then Add`,
  );
  assert.equal(
    explain('up'),
    'up{}\n  its rows are kept as they come, and at every resolution that takes all',
  );
  const ofPaths = `
mappingRules:
  - {name: web, path: {pattern: ^web}, onlyNamed: true, storagePolicies: [{resolution: 10s, retention: 2d}]}
  - {name: sums, path: {contains: count}, aggregations: [sum]}`;
  const paths = (await read(ofPaths)).rules;
  assert.equal(
    explainSeries(paths, tagsOfPairs(['path:web.count'])),
    `{__g0__="web", __g1__="count"}
  kept at 10s for 48h0m0s: mapping rule "web"
  its rows are kept as they come, and at no other resolution
  read by Graphite every 10s as Sum`,
  );
  const ofPathTypes = `
mappingRules:
  - {name: web, path: {pattern: ^web}, aggregations: [P99, Max], storagePolicies: [{resolution: 1m, retention: 40d}]}`;
  assert.equal(
    explainSeries((await read(ofPathTypes)).rules, tagsOfPairs(['path:web.count'])),
    `{__g0__="web", __g1__="count"}
  kept at 1m0s for 960h0m0s as Max: mapping rule "web"
  its rows are kept as they come, and at every resolution that takes all, but for those of the resolutions above
  read by Graphite every 1m0s as Max`,
  );
  const ofTypes = `
mappingRules:
  - {name: max, filter: "app:web", aggregations: [P99, Max], storagePolicies: [{resolution: 5m, retention: 90d}]}
  - {name: none, filter: "app:*", storagePolicies: [{resolution: 5m, retention: 90d}, {resolution: 1h, retention: 8760h}]}
  - {name: sum, filter: "app:*", aggregations: [Sum], storagePolicies: [{resolution: 5m, retention: 90d}]}`;
  assert.equal(
    explainSeries((await read(ofTypes)).rules, tagsOfPairs(['m', 'app=web'])),
    `m{app="web"}
  kept at 5m0s for 2160h0m0s as Max: mapping rule "max"
  kept at 5m0s for 2160h0m0s (read as Max, which another rule says), 1h0m0s for 8760h0m0s: mapping rule "none"
  kept at 5m0s for 2160h0m0s (read as Max, which another rule says): mapping rule "sum"
  its rows are kept as they come, and at every resolution that takes all, but for those of the resolutions above`,
  );
  assert.throws(() => tagsOfPairs(['path:a..b']), { message: 'not a path as path:a.b: path:a..b' });
  assert.throws(() => explain('up', 'app='), { message: 'not a tag as job=api: app=' });
  assert.throws(() => explain('up', 'a=1', 'a=2'), { message: 'a tag is given twice: a' });
});

test("a coordinator's configuration has rules of Carbon, too", async () => {
  const carbon = (rules: string): string => `carbon:\n  ingester:\n    ${rules}\n`;
  const policies = 'policies: [{resolution: 1m, retention: 48h}]';
  const rules = carbon(`rules: [{pattern: "^a", ${policies}}]`);
  const alone = await read(rules);
  assert.equal(rulesText(alone.rules), '1 mapping rules and 0 rollup rules: all can be used');
  assert.equal(alone.body, undefined);
  const both = await read(`${rules}${under('downsample', 'rules')}`);
  assert.equal(rulesText(both.rules), '3 mapping rules and 1 rollup rules: all can be used');
  await assert.rejects(read(carbon(`rules:\n      - {pattern: "^(?!a)", ${policies}}`)), {
    message: /^rules\.yml:4: carbon\.ingester\.rules\[0\]\.pattern: error parsing regexp/,
  });
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-rule-files-'));
  try {
    const schemas = join(folder, 'schemas.conf');
    const ofFile = carbon(`storageSchemas: ${JSON.stringify(schemas)}`);
    await assert.rejects(read(ofFile), /^Error: carbon\.ingester\.storageSchemas: cannot read/);
    writeFileSync(schemas, '[a]\npattern = ^a\nretentions = 10s:6h\n');
    assert.equal((await read(ofFile)).rules.mappingRules[0]!.name, 'storage-schemas [a]');
    writeFileSync(schemas, '[a]\npattern = ^a\nretentions = 10s\n');
    await assert.rejects(read(ofFile), {
      message: /^\S*schemas\.conf:3: \[a\] retentions: not as/,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

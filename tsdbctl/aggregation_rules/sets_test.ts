import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rulesOfFile } from '#cluster/aggregation_rules/sets/file.ts';
import { TestCoordinator } from '#coordinator/coordinator_testing.ts';
import { makeAggregated } from '#coordinator/windows_testing.ts';
import { sendJson } from '../coordinator.ts';
import { explainSeries } from './explain.ts';
import { applyRules, historyText, policiesOfCluster, rulesOfSet, setsText } from './sets.ts';

const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z/g;
const id = /[0-9a-f]{24}/g;
const plain = (text: string): string => text.replace(time, 'TIME').replace(id, 'ID');

const web = {
  name: 'web',
  filter: 'app:web',
  storagePolicies: [{ resolution: '5m', retention: '90d' }],
};
const quiet = { name: 'quiet', filter: 'env:dev', drop: true };

test('rules of a file are applied, listed, and followed through their history', async () => {
  await using coordinator = await TestCoordinator.openReady();
  const { host, port } = coordinator.coordinator.api;
  const url = `http://${host}:${port}`;
  const options = { coordinator: url, set: 'default', dryRun: false, force: false, by: 'ann' };
  const apply = async (mappingRules: object[], dryRun = false): Promise<string> =>
    plain(await applyRules(sendJson, { mappingRules }, { ...options, dryRun }));
  const list = async (set: string | null = null): Promise<string> =>
    plain(await setsText(sendJson, { coordinator: url, set }));

  assert.equal(await list(), 'there are no rules');
  const missing =
    '  ! mapping rule "web": no READY namespace has 5m0s:2160h0m0s: nothing is kept there';
  const first = ['  + mapping rule "web" (ID): app:web -> 5m0s:2160h0m0s', missing];
  assert.equal(
    await apply([web], true),
    ['set default: 1 change would be made, from TIME on', ...first].join('\n'),
  );
  assert.equal(await list(), 'there are no rules', 'a dry run changes nothing');
  assert.equal(
    await apply([web]),
    ['set default, version 1: 1 change made, from TIME on', ...first].join('\n'),
  );
  assert.equal(await apply([web]), `set default: nothing changes\n${missing}`);
  const [webId] = (await setsText(sendJson, { coordinator: url, set: null })).match(id)!;
  assert.equal(
    await apply([{ ...web, filter: 'app:{web,api}' }, quiet]),
    `set default, version 2: 2 changes made, from TIME on
  + mapping rule "quiet" (ID): env:dev -> drop
  ~ mapping rule "web" (ID): app:{web,api} -> 5m0s:2160h0m0s
${missing}`,
  );
  assert.equal(
    await list('default'),
    `default, version 2:
  mapping rule "quiet" (ID): env:dev -> drop, from TIME on
  mapping rule "web" (ID): app:{web,api} -> 5m0s:2160h0m0s, from TIME on`,
  );
  const ofPaths = {
    name: 'paths',
    path: { pattern: '^a' },
    storagePolicies: web.storagePolicies,
    onlyNamed: true,
  };
  const read = { name: 'read', path: { contains: 'a.b', order: 1 }, aggregations: ['sum'] };
  const dry = await apply([{ ...web, filter: 'app:{web,api}' }, quiet, ofPaths, read], true);
  assert.deepEqual(dry.split('\n').slice(1), [
    '  + mapping rule "paths" (ID): path ~ ^a -> 5m0s:2160h0m0s only',
    '  + mapping rule "read" (ID): path with a.b -> Sum',
    missing.replace('"web"', '"web" and 1 more'),
  ]);
  const rules = await rulesOfSet(sendJson, options);
  const series = [{ name: 'env', value: 'dev' }];
  assert.match(explainSeries(rules, series), /not kept as they come: mapping rule "quiet" drops/);
  const both = [{ name: 'app', value: 'web' }, ...series];
  const policies = await policiesOfCluster(sendJson, url);
  assert.equal(
    explainSeries(rules, both, policies),
    `{app="web", env="dev"}
  kept at 5m0s for 2160h0m0s (no READY namespace has this): mapping rule "web"
  its rows are kept as they come all the same, though mapping rule "quiet" drops: else they would be kept nowhere`,
  );
  await makeAggregated(coordinator, 'windows', '5m', true);
  const there = await policiesOfCluster(sendJson, url);
  assert.deepEqual(there, [
    { resolutionNanos: 300_000_000_000n, retentionNanos: 720n * 3_600_000_000_000n },
  ]);
  const known = [{ ...there[0]!, retentionNanos: 3n * there[0]!.retentionNanos }];
  assert.match(
    explainSeries(rules, both, known),
    /kept at 5m0s for 2160h0m0s: [^]*not kept as they come: mapping rule "quiet" drops/,
  );
  const history = async (rule: string): Promise<string> =>
    plain(await historyText(sendJson, rule, options));
  const webNow = `from TIME on (written TIME by ann)
  mapping rule "web" (ID): app:{web,api} -> 5m0s:2160h0m0s`;
  assert.equal(await history('web'), webNow, 'what has not begun to hold is no history');
  assert.equal(await history(webId!), webNow);
  await assert.rejects(history('webs'), {
    code: 'NOT_FOUND',
    message: 'the set default has no rule of this name or ID: webs',
  });
  assert.match(await apply([web]), /2 changes made[^]*\n {2}- mapping rule "quiet"/);
  await assert.rejects(list('other'), /answers 404: .*no set of rules of this name: other/);
});

test('which of several rules counts is told alike of a file and of a set that has a history', async () => {
  await using coordinator = await TestCoordinator.openReady();
  const { host, port } = coordinator.coordinator.api;
  const options = { coordinator: `http://${host}:${port}`, set: 'default' };
  const apply = (...mappingRules: object[]): Promise<string> => {
    const more = { dryRun: false, force: false, by: '' };
    return applyRules(sendJson, { mappingRules }, { ...options, ...more });
  };
  const { storagePolicies } = web;
  const sum = { name: 'rule 10', filter: 'app:*', aggregations: ['Sum'], storagePolicies };
  const max = { name: 'rule 9', filter: 'app:nginx', aggregations: ['Max'], storagePolicies };
  await apply(sum);
  await apply(max, sum);
  const series = [{ name: 'app', value: 'nginx' }];
  const ofSet = explainSeries(await rulesOfSet(sendJson, options), series);
  assert.match(ofSet, /as Max: mapping rule "rule 9"\n.*\(read as Max, which another rule says\)/);
  for (const mappingRules of [
    [sum, max],
    [max, sum],
  ]) {
    assert.equal(explainSeries(rulesOfFile({ mappingRules }, ''), series), ofSet);
  }
  const listed = await setsText(sendJson, options);
  assert.match(listed, /"rule 9"[^]*"rule 10"/, 'as they are asked');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { TestCoordinator } from '../coordinator_testing.ts';

const mapping = { name: 'web', filter: 'app:web', storagePolicies: ['5m:90d'] };
const file = {
  rollupRules: [
    {
      name: 'by app',
      filter: 'app:*',
      transforms: [{ rollup: { metricName: 'requests_by_app', groupBy: ['app'] } }],
      storagePolicies: [{ resolution: '5m', retention: '90d' }],
    },
  ],
};

test('rules are made, changed and deleted by the paths of M3', async () => {
  await using coordinator = await TestCoordinator.open();
  const ask = (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) =>
    coordinator.send(
      method,
      `/r2/v1/namespaces${path}`,
      body === undefined ? undefined : JSON.stringify(body),
      { 'Content-Type': 'application/json', ...headers },
    );
  assert.equal((await ask('POST', '/default/mapping-rules', mapping)).status, 404);
  assert.equal((await ask('POST', '', { id: 'default' })).status, 201);
  const user = { 'TSDB-User': 'ann' };
  const dry = await ask('POST', '/default/mapping-rules', mapping, { 'Dry-Run': 'true' });
  assert.equal(dry.status, 201);
  const added = await ask('POST', '/default/mapping-rules', mapping, user);
  assert.equal(added.status, 201);
  const { id } = added.json;
  assert.equal(added.json.lastUpdatedBy, 'ann');
  const rule = `/default/mapping-rules/${id}`;
  const changed = await ask('PUT', rule, { ...added.json, filter: 'app:{web,api}' });
  assert.deepEqual([changed.status, changed.json.filter], [200, 'app:{web,api}']);
  const history = await ask('GET', `${rule}/history`);
  assert.deepEqual(
    history.json.mappingRules.map(({ filter }: { filter: string }) => filter),
    ['app:{web,api}'],
    'what has never come to hold is no history',
  );
  const set = await ask('GET', '/default');
  assert.deepEqual([set.json.version, set.json.mappingRules.length], [3, 1]);
  assert.equal((await ask('POST', '/default/ruleset/validate', set.json)).status, 200);
  const bad = { ...set.json, mappingRules: [{ ...mapping, filter: 'app' }] };
  const refused = await ask('POST', '/default/ruleset/validate', bad);
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /^mappingRules\[0\]\.filter: /);
  const update = {
    rulesetChanges: { namespace: 'default', mappingRuleChanges: [{ op: 'delete', ruleID: id }] },
    rulesetVersion: 3,
  };
  assert.equal((await ask('POST', '/default/ruleset/update', update)).status, 200);
  assert.equal((await ask('POST', '/default/ruleset/update', update)).status, 409);
  const applied = await ask('PUT', '/default/ruleset', file);
  const [rollup] = applied.json.rollupRules;
  assert.equal(rollup.targets[0].pipeline[0].rollup.newName, 'requests_by_app');
  assert.equal((await ask('GET', `/default/rollup-rules/${rollup.id}`)).json.name, 'by app');
  assert.equal((await ask('DELETE', `/default/rollup-rules/${rollup.id}`)).status, 200);
  assert.equal((await ask('GET', `/default/rollup-rules/${rollup.id}`)).status, 404);
  assert.equal((await ask('DELETE', '/default')).status, 200);
  assert.deepEqual((await ask('GET', '')).json.namespaces, []);
});

test('rules of the configuration are published at the start, and refused when they are wrong', async () => {
  const rules = `{mappingRules: [{name: web, filter: "app:web", drop: true}]}`;
  await using coordinator = await TestCoordinator.open(`{downsample: {rules: ${rules}}}`);
  const ask = (method: string, path: string, body?: object) =>
    coordinator.send(
      method,
      `/r2/v1/namespaces${path}`,
      body === undefined ? undefined : JSON.stringify(body),
      { 'Content-Type': 'application/json' },
    );
  let set = await ask('GET', '/default');
  for (let i = 0; set.status !== 200 && i < 500; i++) {
    await setTimeout(10);
    set = await ask('GET', '/default');
  }
  assert.deepEqual(
    set.json.mappingRules.map(({ name, lastUpdatedBy }: Record<string, string>) => [
      name,
      lastUpdatedBy,
    ]),
    [['web', 'configuration']],
  );
  const refused = await ask('POST', '/default/mapping-rules', mapping);
  assert.equal(refused.status, 409);
  assert.match(refused.json.error, /downsample\.rules/);
  await assert.rejects(
    TestCoordinator.open('{downsample: {rules: {mappingRules: [{filter: "app"}]}}}'),
    /coordinator\.downsample\.rules\.mappingRules\[0\]\.filter/,
  );
});

/** Rules of Carbon from the configuration to answers of Graphite. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ruleWarnings } from '#cluster/admin/rule_warnings.ts';
import { rulesOfFile } from '#cluster/aggregation_rules/sets/file.ts';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, TestCoordinator } from './coordinator_testing.ts';
import { holdSinceEver, makeAggregated } from './windows_testing.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-carbon-rules-'));
after(() => rmSync(folder, { recursive: true }));

function fileOf(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const settingsOf = (rules: string, more = '') =>
  `{carbon: {ingester: {listenAddress: "127.0.0.1:0", ${rules}}}, graphite: {step: 10s}${more}}`;

async function send(test: TestCoordinator, lines: readonly string[]): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.tcpPort });
  socket.end(lines.map((line) => `${line}\n`).join(''));
  socket.resume();
  await once(socket, 'close');
}

/** The mapping rules of the cluster, once they are published. */
async function published(test: TestCoordinator): Promise<{ name: string; path?: object }[]> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const set = await test.get('/r2/v1/namespaces/default');
    if (set.status === 200) return set.json.mappingRules;
    await realEnv.clock.sleep(10, new AbortController().signal);
  }
  throw new Error('nothing is published');
}

test("Carbon's files say of each path where its windows are and as what it is read", async () => {
  const schemas = fileOf(
    'storage-schemas.conf',
    `[fine]
pattern = ^fine\\.
retentions = 10s:12h,5m:720h
[coarse]
pattern = ^coarse\\.
retentions = 1h:720h
`,
  );
  const aggregation = fileOf(
    'storage-aggregation.conf',
    `[counts]
pattern = \\.count$
aggregationMethod = sum
[highest]
pattern = \\.upper$
aggregationMethod = max
`,
  );
  const rules = 'mappingRules: [{name: own, filter: "app:a", drop: true}]';
  await using test = await TestCoordinator.openReady(
    settingsOf(
      `storageSchemas: ${JSON.stringify(schemas)}, storageAggregation: ${JSON.stringify(aggregation)}`,
      `, downsample: {rules: {${rules}}}`,
    ),
  );
  const names = (await published(test)).map(({ name }) => name);
  assert.deepEqual(names, [
    'own',
    'storage-aggregation [counts]',
    'storage-aggregation [highest]',
    'storage-schemas [coarse]',
    'storage-schemas [fine]',
  ]);
  await makeAggregated(test, 'fine', '5m', true);
  await makeAggregated(test, 'coarse', '1h', true);
  const begin = Math.floor(nowSeconds() / 3_600) * 3_600 - 2 * 3_600;
  const paths = ['fine.a.count', 'fine.a.upper', 'fine.a', 'coarse.a.count', 'other.count'];
  const rows = [3, 1, 5, 7].map((value, at) => [value, begin + 75 * at + 1] as const);
  await send(
    test,
    paths.flatMap((path) => [
      ...rows.map(([value, seconds]) => `${path} ${value} ${seconds}`),
      `${path} 10 ${begin + 6}`,
    ]),
  );
  const read = async (headers = {}): Promise<Record<string, (number | null)[]>> => {
    const path = `/render?format=json&target=*.**&from=${begin - 1}&until=${begin + 299}`;
    const answer = await test.get(path, headers);
    assert.equal(answer.status, 200, answer.text);
    return Object.fromEntries(
      answer.json.map(
        ({ target, datapoints }: { target: string; datapoints: [number | null][] }) => [
          target,
          datapoints.map(([value]) => value).filter((value) => value !== null),
        ],
      ),
    );
  };
  await holdSinceEver(test);
  let answer = await read();
  for (let attempt = 0; answer['fine.a.count']![0] !== 13; attempt++) {
    assert.ok(attempt < 400, 'the coordinator knows the rules');
    answer = await read();
  }
  assert.deepEqual(answer, {
    'fine.a.count': [13, 1, 5, 7],
    'fine.a.upper': [10, 1, 5, 7],
    'fine.a': [10, 1, 5, 7],
    // On the step of its only archive.
    'coarse.a.count': [26],
    'other.count': [13, 1, 5, 7],
  });
  const windows = { 'tsdb-metrics-type': 'aggregated', 'tsdb-storage-policy': '5m:720h' };
  assert.deepEqual(await read(windows), {
    'fine.a.count': [26],
    'fine.a.upper': [10],
    'fine.a': [5.2],
    'other.count': [26],
  });
});

test("M3's rules are published in their order", async () => {
  const policies = 'policies: [{resolution: 1m, retention: 48h}]';
  await using test = await TestCoordinator.open(
    settingsOf(`rules: [{contains: b, continue: true, ${policies}}, {pattern: "^a", ${policies}}]`),
  );
  assert.deepEqual(
    (await published(test)).map(({ name, path }) => [name, path]),
    [
      ['carbon.ingester.rules[0]', { contains: 'b', order: 0, continue: true }],
      ['carbon.ingester.rules[1]', { pattern: '^a', order: 1 }],
    ],
  );
});

test('a start with rules that cannot be used is refused with their place', async () => {
  const schemas = JSON.stringify(fileOf('bad.conf', '[a]\npattern = (?=b)\nretentions = 1m:1d'));
  const policies = 'policies: [{resolution: 1m, retention: 48h}]';
  for (const [rules, reason] of [
    [`storageSchemas: ${schemas}`, /bad\.conf:2: \[a\] pattern: error parsing regexp/],
    [
      `storageSchemas: ${folder}/none.conf`,
      /coordinator\.carbon\.ingester\.storageSchemas: cannot read .*none\.conf/,
    ],
    [`rules: [{pattern: a}]`, /coordinator\.carbon\.ingester\.rules\[0\]\.policies: none/],
    [`rules: [{pattern: a, ${policies}}], storageSchemas: ${schemas}`, /give these, or rules/],
  ] as const) {
    await assert.rejects(TestCoordinator.open(settingsOf(rules)), reason);
  }
});

test('resolutions that no namespace has are told, but those that samples are there for', async () => {
  await using test = await TestCoordinator.openReady();
  await makeAggregated(test, 'coarse', '1h', true);
  const policy = (resolution: string, retention: string) => ({ resolution, retention });
  const storagePolicies = [policy('10s', '12h'), policy('1h', '720h'), policy('1h', '721h')];
  const { namespaces } = test.topology.view;
  const rules = rulesOfFile({ mappingRules: [{ name: 'a', filter: '', storagePolicies }] }, '');
  assert.deepEqual(ruleWarnings(rules, namespaces), [
    'mapping rule "a": no READY namespace has 1h0m0s:721h0m0s: nothing is kept there',
  ]);
  // Of a file alone nobody knows which there are.
  assert.deepEqual(ruleWarnings(rules, null), []);
});

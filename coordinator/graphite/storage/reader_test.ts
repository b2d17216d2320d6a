/** What is read of paths that rules say something of: step, column, and from where. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { encodeTags } from '#lib/tags.ts';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';
import { applyRules, makeAggregated, makeWindows, sayComplete } from '../../windows_testing.ts';

const settings = '{carbon: {ingester: {listenAddress: "127.0.0.1:0"}}, graphite: {step: 10s}}';
const [hour, day] = [3_600, 86_400];

const tagsOf = (path: string) =>
  path.split('.').map((value, node) => ({ name: `__g${node}__`, value }));

async function send(test: TestCoordinator, lines: readonly string[]): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.tcpPort });
  socket.end(lines.map((line) => `${line}\n`).join(''));
  socket.resume();
  await once(socket, 'close');
}

type Points = readonly (readonly [number | null, number])[];

/** Rows with values, by target. */
async function render(
  test: TestCoordinator,
  target: string,
  from: number,
  until: number,
): Promise<Record<string, Points>> {
  const query = `target=${encodeURIComponent(target)}&from=${from}&until=${until}`;
  const answer = await test.get(`/render?format=json&${query}`);
  assert.equal(answer.status, 200, answer.text);
  const series = answer.json as { target: string; datapoints: Points }[];
  return Object.fromEntries(
    series.map((each) => [each.target, each.datapoints.filter(([value]) => value !== null)]),
  );
}

/** Until the coordinator knows the rules. */
async function known(isKnown: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; !(await isKnown()); attempt++) assert.ok(attempt < 400, 'rules are known');
}

const reading = (contains: string, type: string, order: number): object => ({
  name: type,
  path: { contains, order },
  aggregations: [type],
});

test('windows of a path are read by the column that its rule says, others by their mean', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const begin = Math.floor(nowSeconds() / hour) * hour - 5 * day;
  const windows = [{ endNanos: BigInt(begin + hour) * 1_000_000_000n, last: 2, max: 8 }];
  const paths = ['a.last', 'a.max', 'a.min', 'a.sum', 'a.count', 'a.none', 'a.p99'];
  const mappingRules = [
    ...['last', 'max', 'min', 'sum', 'count', 'P99'].map((type, order) =>
      reading(`.${type.toLowerCase()}`, type, order),
    ),
    reading('a.sum', 'mean', 100),
  ];
  await applyRules(test, { mappingRules });
  await makeWindows(
    test,
    paths.map((path) => ({ tags: tagsOf(path), windows })),
  );
  const values = async () =>
    Object.entries(await render(test, 'a.*', begin - 1, begin + hour - 1)).map(
      ([path, points]) => [path, points[0]![0], points[0]![1]] as const,
    );
  await known(async () =>
    (await values()).some(([path, value]) => path === 'a.sum' && value === 10),
  );
  assert.deepEqual(await values(), [
    ['a.count', 2, begin],
    ['a.last', 2, begin],
    ['a.max', 8, begin],
    ['a.min', 2, begin],
    ['a.none', 5, begin],
    ['a.p99', 5, begin],
    ['a.sum', 10, begin],
  ]);
});

test('samples come to the step and to the column of their rule', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const storagePolicies = [
    { resolution: '1m', retention: '720h' },
    { resolution: '30s', retention: '48h' },
  ];
  const mappingRules = [
    { name: 'sums', path: { pattern: '^b\\.sum' }, storagePolicies, aggregations: ['Sum'] },
    { name: 'steps', path: { pattern: '^b\\.step', order: 1 }, storagePolicies },
    reading('count', 'Count', 2),
  ];
  await applyRules(test, { mappingRules });
  const begin = Math.floor(nowSeconds() / 60) * 60 - 120;
  const rows = [0, 10, 11, 30, 50].map((offset, at) => [2 ** at, begin + offset] as const);
  const paths = ['b.sum', 'b.step', 'b.count', 'b.none'];
  await send(
    test,
    paths.flatMap((path) => rows.map(([value, seconds]) => `${path} ${value} ${seconds}`)),
  );
  const read = () => render(test, 'b.*', begin - 1, begin + 59);
  await known(async () => (await read())['b.sum']!.length === 2);
  const points = await read();
  const at = (offset: number, value: number) => [value, begin + offset];
  assert.deepEqual(points['b.sum'], [at(0, 7), at(30, 24)]);
  assert.deepEqual(points['b.step'], [at(0, 4), at(30, 16)], "whisper's: the last one of a step");
  assert.deepEqual(points['b.count'], [at(0, 1), at(10, 2), at(30, 1), at(50, 1)]);
  assert.deepEqual(points['b.none'], [at(0, 1), at(10, 4), at(30, 8), at(50, 16)]);
  // Of several steps there is one.
  const summed = await render(test, 'sumSeries(b.{sum,none})', begin - 1, begin + 59);
  assert.deepEqual(Object.values(summed)[0], [at(0, 9.5), at(30, 36)]);
});

test('each path has the step of the windows that its rule names', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const named = {
    name: 'fine',
    path: { pattern: '^c\\.fine' },
    storagePolicies: [{ resolution: '5m', retention: '720h' }],
    onlyNamed: true,
  };
  await applyRules(test, { mappingRules: [named] });
  const begin = Math.floor(nowSeconds() / hour) * hour - 5 * day;
  const windowsOf = (path: string, ends: readonly number[]) => ({
    tags: tagsOf(path),
    windows: ends.map((end) => ({ endNanos: BigInt(end) * 1_000_000_000n, last: 1, max: 3 })),
  });
  await makeAggregated(test, 'fine', '5m', false);
  await sayComplete(test, 'fine');
  await makeWindows(test, [windowsOf('c.coarse', [begin + hour])]);
  // As the node of whoever has had the rule for long.
  const coarse = test.node.seriesOf('coarse')[0]!;
  const tags = encodeTags(tagsOf('c.fine'));
  const [value] = coarse.rows.values();
  const rows = new Map(
    [300, 600].map((offset) => [BigInt(begin + offset) * 1_000_000_000n, value!] as const),
  );
  test.node.seriesOf('fine').push({ ...coarse, tags, decoded: tagsOf('c.fine'), rows });
  const read = () => render(test, 'c.*', begin - 1, begin + hour - 1);
  await known(async () => Object.keys(await read()).length === 2);
  const points = await read();
  assert.deepEqual(points['c.coarse'], [[2, begin]]);
  assert.deepEqual(points['c.fine'], [
    [2, begin],
    [2, begin + 300],
  ]);
});

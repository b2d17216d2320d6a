import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { TsdbError } from '#lib/errors.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { encodeTags } from '#lib/tags.ts';
import { tagMatcher } from '#node/storage/tombstones/tag_matcher.ts';
import {
  nowSeconds,
  type TestAnswer,
  TestCoordinator,
  testCluster,
} from '../../coordinator_testing.ts';
import { makeAggregated } from '../../windows_testing.ts';
import { tagMultiSeries, tagSeries } from './tag_writes.ts';

const request = {
  method: 'POST',
  pathParameters: {},
  urlParameters: new URLSearchParams(),
  header: () => '',
  signal: new AbortController().signal,
  readMemory: unlimitedReadBytes,
};

test('tags of a path have the limits of series', async () => {
  const pathOf = (tags: number) =>
    `m${Array.from({ length: tags }, (_, k) => `;t${k}=v`).join('')}`;
  const most = new URLSearchParams({ path: pathOf(1_024) });
  assert.match(tagSeries(null, request, most).body as string, /^"m;t0=v;t1000=v;t1001=v;/);
  const setup = { turningOf: () => turningOf() };
  for (const [path, reason] of [
    [pathOf(1_025), /path: has 1025 tags, more than 1024: m;t0=v/],
    [pathOf(100_000), /path: has \d+ characters, more than 65535: m;t0=v/],
    [`m;t=${'x'.repeat(65_535)}`, /path: has 65539 characters, more than 65535/],
  ] as const) {
    const parameters = new URLSearchParams({ path });
    assert.throws(() => tagSeries(null, request, parameters), reason);
    await assert.rejects(tagMultiSeries(setup, request, parameters), reason);
  }
});

const { signal } = new AbortController();

/** Series `cpu` with these tags, and what deletions take of them. */
class Deleting implements AsyncDisposable {
  readonly test: TestCoordinator;
  readonly #log: DeletionLog;

  private constructor(test: TestCoordinator) {
    this.test = test;
    this.#log = new DeletionLog(test.kv, testCluster);
  }

  static async open(settings?: string): Promise<Deleting> {
    const test = await TestCoordinator.openReady(settings);
    const rows = [
      { host: 'a' },
      { host: 'a', dc: 'eu' },
      { host: 'a', dc: 'us' },
      { host: 'c', tenant: 'x' },
      { host: 'c', tenant: 'y' },
    ].map((tags) => ({
      tags: { __name__: 'cpu', ...tags },
      timestamp: nowSeconds(),
      value: 1,
    }));
    assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
    const deleting = new Deleting(test);
    // The node has no files: it says at once that it applies each.
    const progress = { applied: Number.MAX_SAFE_INTEGER, cleaned: Number.MAX_SAFE_INTEGER };
    for (const { id } of test.topology.view.placement!.instances) {
      await deleting.#log.confirm(id, progress, signal);
    }
    return deleting;
  }

  send(path: string, headers: Record<string, string> = {}): Promise<TestAnswer> {
    return this.test.post('/tags/delSeries', new URLSearchParams({ path }).toString(), headers);
  }

  /** Tags of the series that are deleted with this one. */
  async with(path: string, headers: Record<string, string> = {}): Promise<readonly string[]> {
    const before = (await this.#log.list(signal)).deletions.length;
    const answer = await this.send(path, headers);
    assert.deepEqual([answer.status, answer.json], [200, true], answer.text);
    const { deletions } = await this.#log.list(signal);
    const takes = deletions.slice(before).map(({ query }) => tagMatcher(query));
    return this.test.node
      .seriesOf('default')
      .filter(({ tags }) => takes.some((matches) => matches(tags)))
      .map(({ decoded }) => decoded.map(({ name, value }) => `${name}=${value}`).join(';'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.test[Symbol.asyncDispose]();
  }
}

const header = 'TSDB-Restrict-By-Tags-JSON';

test('delSeries deletes what has exactly these tags, also where tags are forced or left out of answers', async () => {
  await using deleting = await Deleting.open();
  const forcedTo = (value: object): Record<string, string> => ({ [header]: JSON.stringify(value) });
  const notUs = forcedTo({ match: [{ name: 'dc', type: 'NOTEQUAL', value: 'us' }] });
  const ofBoth = forcedTo({ match: [{ name: 'tenant', type: 'REGEXP', value: 'x|y' }] });
  const stripped = forcedTo({ strip: ['dc', 'host'] });
  const first = ['__name__=cpu;host=a'];
  assert.deepEqual(await deleting.with('cpu;host=a'), first);
  assert.deepEqual(await deleting.with('cpu;host=a', notUs), first);
  assert.deepEqual(await deleting.with('cpu;host=a', stripped), first);
  assert.deepEqual(await deleting.with('cpu;host=a;dc=eu', notUs), ['__name__=cpu;dc=eu;host=a']);
  // None has these alone, and one of another tenant is not there.
  assert.deepEqual(await deleting.with('cpu;host=c', ofBoth), []);
  assert.deepEqual(await deleting.with('cpu;host=a;dc=us', notUs), []);
  assert.deepEqual(await deleting.with('cpu;host=c;tenant=y', ofBoth), [
    '__name__=cpu;host=c;tenant=y',
  ]);
});

test('delSeries deletes what has exactly these tags, where the configuration forces others', async () => {
  await using deleting = await Deleting.open(
    '{query: {restrictTags: {match: [{name: dc, type: NOTEQUAL, value: us}]}}}',
  );
  assert.deepEqual(await deleting.with('cpu;host=a'), ['__name__=cpu;host=a']);
  assert.deepEqual(await deleting.with('cpu;host=a;dc=us'), []);
});

test('delSeries deletes nothing while it is not known which other tags there are', async () => {
  await using deleting = await Deleting.open(
    '{clusters: [{client: {readConsistencyLevel: none}}]}',
  );
  deleting.test.node.failure = new TsdbError('UNAVAILABLE', 'away');
  // Queries are content with no answer at all.
  assert.equal((await deleting.test.get('/api/v1/labels')).status, 200);
  const answer = await deleting.send('cpu;host=a');
  assert.equal(answer.status, 503, answer.text);
  deleting.test.node.failure = null;
  assert.deepEqual(await deleting.with('cpu;host=a'), ['__name__=cpu;host=a']);
});

test('delSeries knows the tags of series that are in windows alone', async () => {
  await using deleting = await Deleting.open();
  const { test: coordinator } = deleting;
  await makeAggregated(coordinator, 'metrics_10m_2y', '10m', true);
  // Its samples are gone since their retention is over.
  const tags = [
    { name: '__name__', value: 'cpu' },
    { name: 'host', value: 'a' },
    { name: 'rack', value: '7' },
  ];
  const stored = coordinator.node.seriesOf('metrics_10m_2y');
  stored.push({
    id: 'x',
    tags: encodeTags(tags),
    decoded: tags,
    slot: stored.length,
    rows: new Map([[BigInt(nowSeconds() - 3 * 86_400) * 1_000_000_000n, 1n]]),
    startNanos: new Map(),
    idScheme: 0,
  });
  await deleting.with('cpu;host=a');
  const { deletions } = await new DeletionLog(coordinator.kv, testCluster).list(signal);
  assert.ok(deletions.some(({ namespace }) => namespace === 'metrics_10m_2y'));
  for (const { query } of deletions) assert.equal(tagMatcher(query)(encodeTags(tags)), false);
});

test('a deletion is of all kinds of rows: a header that chooses some is refused, not passed over', async () => {
  await using deleting = await Deleting.open();
  for (const name of ['TSDB-Metrics-Type', 'M3-Metrics-Type']) {
    for (const answer of [
      await deleting.send('cpu;host=a', { [name]: 'unaggregated' }),
      await deleting.test.post('/api/v1/admin/tsdb/delete_series', 'match[]=cpu', {
        [name]: 'unaggregated',
      }),
    ]) {
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.json.error, `header ${name}: not supported here: unaggregated`);
    }
  }
  assert.deepEqual(await deleting.with('cpu;host=a'), ['__name__=cpu;host=a']);
});

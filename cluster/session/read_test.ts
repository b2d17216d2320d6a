import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { ReadRefused } from '#lib/read_memory/read_memory.ts';
import { FakeCluster, keyOfJob, textsOf } from './fakes_testing.ts';

const three = ['a1', 'b1', 'c1'];
const rf3 = { replicaFactor: 3, numShards: 8 };
const jobs = Array.from({ length: 20 }, (_, i) => `j${i}`);

const point = (seconds: number, value: number) => `${seconds}000000000=${value};`;

/** Puts a sample on one node only. */
function plant(
  cluster: FakeCluster,
  id: string,
  job: string,
  seconds: number,
  value: number,
): void {
  const { samples } = cluster.node(id);
  const points = samples.get(keyOfJob(job)) ?? new Map<bigint, number>();
  points.set(BigInt(seconds) * 1_000_000_000n, value);
  samples.set(keyOfJob(job), points);
}

async function written(cluster: FakeCluster): Promise<void> {
  const rows = cluster.table.rows(jobs.map((job) => [job, 1, 1]));
  const all = { consistency: 'all' } as const;
  await cluster.session.write('ns', rows, cluster.table, cluster.signal, all);
}

const rejected = (code: string, text: RegExp) => (error: unknown) => {
  assert.ok(error instanceof TsdbError);
  assert.equal(error.code, code, error.message);
  assert.match(error.message, text);
  return true;
};

test('fetch() gives each series once, however many replicas have it', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  const { bundle, exhaustive, warnings } = await cluster.fetch({ consistency: 'all' });
  assert.deepEqual(textsOf(bundle), Object.fromEntries(jobs.map((job) => [job, point(1, 1)])));
  assert.equal(exhaustive, true);
  assert.deepEqual(warnings, []);
});

test('fetch() joins what replicas have of a series', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  plant(cluster, 'a1', 'j', 1, 1);
  plant(cluster, 'b1', 'j', 2, 2);
  const { bundle } = await cluster.fetch({ consistency: 'all' });
  assert.deepEqual(textsOf(bundle), { j: point(1, 1) + point(2, 2) });
});

test('fetch() over many nodes reads all shards from the instances that own them', async () => {
  const six = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2'];
  await using cluster = await FakeCluster.start(six, { replicaFactor: 3, numShards: 16 });
  await written(cluster);
  const { bundle, warnings } = await cluster.fetch({ consistency: 'majority' });
  assert.deepEqual(Object.keys(textsOf(bundle)).sort(), [...jobs].sort());
  assert.deepEqual(warnings, []);
});

test('with one node down majority reads go on, and all is refused with the reason of each node', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  cluster.node('b1').mode = 'down';
  const { bundle, warnings } = await cluster.fetch({ consistency: 'majority' });
  assert.equal(bundle.seriesCount, 20);
  assert.deepEqual(warnings, []);
  const pauses = cluster.env.sleptMillis.length;
  await assert.rejects(
    cluster.fetch({ consistency: 'all' }),
    rejected(
      'UNAVAILABLE',
      /^unable to satisfy consistency requirements, shards=8: b1: connection refused$/,
    ),
  );
  assert.equal(cluster.env.sleptMillis.length - pauses, 3);
});

test('unstrict levels answer with one replica and say so in a warning', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  cluster.node('a1').mode = 'down';
  cluster.node('c1').mode = 'down';
  for (const consistency of ['unstrict_majority', 'unstrict_all'] as const) {
    const { bundle, warnings } = await cluster.fetch({ consistency });
    assert.equal(bundle.seriesCount, 20);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0]!, new RegExp(`shards=8, consistency=${consistency}: a1: .*; c1: `));
  }
  await assert.rejects(cluster.fetch({ consistency: 'majority' }), rejected('UNAVAILABLE', /=8/));
  cluster.node('b1').mode = 'down';
  await assert.rejects(cluster.fetch(), rejected('UNAVAILABLE', /shards=8: a1: .*b1: .*c1: /));
  const none = await cluster.fetch({ consistency: 'none' });
  assert.equal(none.bundle.seriesCount, 0);
  assert.equal(none.warnings.length, 1);
});

test('a read whose own time is over says so, and names replicas that are behind others or failed', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  const over = new TsdbError('DEADLINE_EXCEEDED', 'deadline of 20 ms exceeded');
  const fetchEndingSoon = async (): Promise<unknown> => {
    const asker = new AbortController();
    const read = cluster.fetch({ consistency: 'majority' }, asker.signal);
    for (let i = 0; i < 5; i++) await turn();
    asker.abort(over);
    return read;
  };
  for (const id of three) cluster.node(id).mode = 'hung';
  await assert.rejects(fetchEndingSoon(), rejected('DEADLINE_EXCEEDED', /^deadline of 20 ms exc/));
  cluster.node('a1').mode = 'up';
  await assert.rejects(fetchEndingSoon(), rejected('DEADLINE_EXCEEDED', /^unable to .*: b1: /));
  cluster.node('a1').mode = 'down';
  await assert.rejects(fetchEndingSoon(), rejected('DEADLINE_EXCEEDED', /^unable to .*: a1: conn/));
});

test('what the memory of this process refuses is no failure of replicas', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  const refuse = (id: string, error: TsdbError): void => {
    cluster.node(id).fetch = async () => {
      throw error;
    };
  };
  for (const id of three) refuse(id, new ReadRefused('cannot read now: other reads take all'));
  await assert.rejects(cluster.fetch(), rejected('RESOURCE_EXHAUSTED', /^cannot read now: /));
  // Another process has its own memory.
  refuse('b1', new TsdbError('RESOURCE_EXHAUSTED', 'cannot read now: other reads take all there'));
  await assert.rejects(cluster.fetch(), rejected('RESOURCE_EXHAUSTED', /^unable to .*b1: /));
});

test('a passing failure is asked again, and answers that are there are kept', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  cluster.node('b1').failures = 1;
  cluster.node('c1').failures = 2;
  const { bundle, warnings } = await cluster.fetch({ consistency: 'all' });
  assert.equal(bundle.seriesCount, 20);
  assert.deepEqual(warnings, []);
  assert.deepEqual(
    three.map((id) => cluster.node(id).fetches.length),
    [1, 2, 3],
  );
});

test('a hung replica is not waited for once the level is reached', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  cluster.node('a1').mode = 'hung';
  const { bundle } = await cluster.fetch({ consistency: 'majority' });
  assert.equal(bundle.seriesCount, 20);
});

test('an unstrict read waits for hung replicas a moment only, a strict one to its deadline', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  for (const id of ['a1', 'b1']) cluster.node(id).mode = 'hung';
  const unstrict = await cluster.fetch();
  assert.equal(unstrict.bundle.seriesCount, 20);
  assert.match(unstrict.warnings.join(), /a1: has not answered; b1: has not answered/);
  assert.deepEqual(cluster.env.sleptMillis, [2_000]);
  const expireSoon = async () => {
    for (let i = 0; i < 5; i++) await turn();
    cluster.env.expire();
  };
  const strict = cluster.fetch({ consistency: 'majority' });
  await Promise.all([
    assert.rejects(strict, rejected('DEADLINE_EXCEEDED', /shards=8: a1: deadline/)),
    expireSoon(),
  ]);
});

test('a replica that failed is asked again while another one hangs', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  cluster.node('a1').mode = 'hung';
  cluster.node('b1').failures = 1;
  const { bundle, warnings } = await cluster.fetch({ consistency: 'majority' });
  assert.equal(bundle.seriesCount, 20);
  assert.deepEqual(warnings, []);
});

test('the signal of the caller ends a read with its reason', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of three) cluster.node(id).mode = 'hung';
  const left = new AbortController();
  const reading = cluster.fetch({}, left.signal);
  await turn();
  left.abort(new Error('client left'));
  await assert.rejects(reading, /client left/);
});

test('INITIALIZING shards are never read, LEAVING ones are', async () => {
  await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 8 });
  await written(cluster);
  await cluster.add('a2');
  await cluster.seen();
  plant(cluster, 'a2', 'half', 1, 1);
  const { bundle, warnings } = await cluster.fetch({ consistency: 'all' });
  assert.deepEqual(Object.keys(textsOf(bundle)).sort(), [...jobs].sort());
  assert.deepEqual(warnings, []);
  assert.equal(cluster.node('a2').fetches.length, 0);
});

test('who does not know yet that shards have moved looks the placement up, and reads anew', async () => {
  for (const consistency of ['majority', 'unstrict_majority'] as const) {
    await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 8 });
    await written(cluster);
    await cluster.add('a2');
    await cluster.seen();
    cluster.held = cluster.topology.view;
    for (const job of jobs) plant(cluster, 'a2', job, 1, 1);
    await cluster.markAll();
    await cluster.seen();
    const { bundle, warnings } = await cluster.fetch({ consistency });
    assert.deepEqual(Object.keys(textsOf(bundle)).sort(), [...jobs].sort());
    assert.deepEqual(warnings, []);
    assert.deepEqual(
      ['a1', 'a2'].map((id) => cluster.node(id).fetches.length),
      [2, 1],
    );
  }
});

test('before any shard is AVAILABLE nothing can be read', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of three) await cluster.admin.resetInstance(id, cluster.signal);
  await cluster.adopt();
  await cluster.seen();
  await assert.rejects(cluster.fetch(), rejected('UNAVAILABLE', /shards=8$/));
});

test('an instance that has not bootstrapped a shard does not count for it', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  cluster.node('a1').notBootstrapped.add(3);
  assert.deepEqual((await cluster.fetch({ consistency: 'majority' })).warnings, []);
  await assert.rejects(
    cluster.fetch({ consistency: 'all' }),
    rejected(
      'UNAVAILABLE',
      /shards=1: a1: 1 shards are not yet bootstrapped to read, or moved since$/,
    ),
  );
});

test('a read that came while the node of this process was loading is tried again when it is loaded', async () => {
  const loading = Promise.withResolvers<void>();
  const ownNode = { isLoaded: false, whenLoaded: loading.promise };
  const slept: AbortSignal[] = [];
  /** A back-off has no end but its signal's. */
  const clock: Clock = {
    ...realEnv.clock,
    sleep: (_millis, signal) =>
      new Promise((_, reject) => {
        slept.push(signal);
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  };
  const shape = { replicaFactor: 1, numShards: 8 };
  const env = { ...realEnv, clock };
  await using cluster = await FakeCluster.start(['a1'], shape, { ownNode, env });
  await written(cluster);
  const node = cluster.node('a1');
  const fetch = node.fetch.bind(node);
  node.fetch = (...request) =>
    ownNode.isLoaded
      ? fetch(...request)
      : Promise.reject(new TsdbError('UNAVAILABLE', 'node is not bootstrapped'));
  const reading = cluster.fetch();
  while (slept.length === 0) await turn();
  ownNode.isLoaded = true;
  loading.resolve();
  assert.deepEqual(Object.keys(textsOf((await reading).bundle)).sort(), [...jobs].sort());
  assert.deepEqual(
    slept.map(({ aborted }) => aborted),
    [true],
  );
});

test('a bad request is not retried and fails at once', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.node('b1').fetch = () =>
    Promise.reject(new TsdbError('BAD_REQUEST', 'regexp is malformed: ("('));
  await assert.rejects(cluster.fetch({ consistency: 'all' }), rejected('BAD_REQUEST', /malformed/));
  assert.deepEqual(cluster.env.sleptMillis, []);
});

test('the series limit cuts the answer and says so, or refuses when it must be whole', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  await written(cluster);
  const cut = await cluster.fetch({ seriesLimit: 5 });
  assert.deepEqual([cut.bundle.seriesCount, cut.exhaustive], [5, false]);
  const whole = await cluster.fetch({ seriesLimit: 20, requireExhaustive: true });
  assert.deepEqual([whole.bundle.seriesCount, whole.exhaustive], [20, true]);
  await assert.rejects(
    cluster.fetch({ seriesLimit: 5, requireExhaustive: true }),
    rejected(
      'BAD_REQUEST',
      /^query exceeded limit: require_exhaustive=true, series_limit=5, series_matched=at least \d+; the limit is that of the request, or limits\.perQuery\.maxFetchedSeries/,
    ),
  );
  await assert.rejects(
    cluster.fetch({ bytesLimit: 100 }),
    rejected('RESOURCE_EXHAUSTED', /larger than 100 bytes/),
  );
});

test('fetchById() asks the owners of each ID', async () => {
  const six = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2'];
  await using cluster = await FakeCluster.start(six, { replicaFactor: 3, numShards: 16 });
  await written(cluster);
  const ids = ['j1', 'j2', 'nobody'].map((job) => Buffer.from(keyOfJob(job)));
  const range = { startNanos: 0n, endNanos: 10n ** 12n };
  const { bundle, warnings } = await cluster.session.fetchById(
    { namespace: 'ns', ids, ...range, consistency: 'all' },
    cluster.signal,
  );
  assert.deepEqual(textsOf(bundle), { j1: point(1, 1), j2: point(1, 1) });
  assert.deepEqual(warnings, []);
});

test('aggregate() unites names and values, sorted, and cuts at the limit', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  plant(cluster, 'a1', 'x', 1, 1);
  plant(cluster, 'b1', 'y', 1, 1);
  plant(cluster, 'c1', 'w', 1, 1);
  const aggregate = (limit: number, more: object = {}) =>
    cluster.session.aggregate(
      {
        namespace: 'ns',
        query: { kind: 'all' },
        startNanos: 0n,
        endNanos: 1n,
        tagNames: [],
        namesOnly: false,
        requireExhaustive: false,
        consistency: 'all',
        limit,
        ...more,
      },
      cluster.signal,
    );
  const all = await aggregate(0);
  assert.deepEqual(all.tags, [{ name: 'job', values: ['w', 'x', 'y'] }]);
  assert.equal(all.exhaustive, true);
  const cut = await aggregate(3);
  assert.deepEqual([cut.tags, cut.exhaustive], [[{ name: 'job', values: ['w', 'x'] }], false]);
  assert.deepEqual((await aggregate(1, { namesOnly: true })).tags, [{ name: 'job', values: [] }]);
  await assert.rejects(aggregate(2, { requireExhaustive: true }), rejected('BAD_REQUEST', /limit/));
});

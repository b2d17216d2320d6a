import { plainRequest } from '../admin/placement_requests.ts';
import { readBatch } from '#engine/batch/batch.ts';
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { versionAtMillis } from '#lib/hybrid_clock.ts';
import { silentLog } from '#lib/log.ts';
import { rowOutcome } from '../node/service.ts';
import { FakeCluster, keyOfJob } from './fakes_testing.ts';
import { fuzz } from './session_fuzz.ts';
import { describeOutcome, isRetryable, writeOutcome } from './outcomes/write_result.ts';

const three = ['a1', 'b1', 'c1'];
const rf3 = { replicaFactor: 3, numShards: 8 };
const jobs = Array.from({ length: 20 }, (_, i) => `j${i}`);

async function until(holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns++) {
    assert.ok(turns < 1000, 'never came');
    await turn();
  }
}

test('a write reaches every replica, and later ones send references instead of series', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  const first = await cluster.write(jobs.map((job) => [job, 1, 0.5]));
  assert.deepEqual(first, {
    rowCount: 20,
    writtenCount: 20,
    outcomes: null,
    rows: null,
    errors: [],
  });
  await until(() => [...cluster.nodes.values()].every(({ writes }) => writes.length === 1));
  await turn();
  await cluster.write(jobs.flatMap((job) => [[job, 2, 1] as const, [job, 3, 2] as const]));
  await until(() => [...cluster.nodes.values()].every(({ writes }) => writes.length === 2));
  for (const { writes } of cluster.nodes.values()) {
    assert.deepEqual(
      writes.map(({ rowCount, seriesCount }) => [rowCount, seriesCount]),
      [
        [20, 20],
        [40, 0],
      ],
    );
  }
  assert.deepEqual(cluster.stored('j7'), {
    a1: '1=0.5 2=1 3=2',
    b1: '1=0.5 2=1 3=2',
    c1: '1=0.5 2=1 3=2',
  });
});

test('all replicas of a write get one version, and versions rise', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (let i = 0; i < 5; i++) await cluster.write([['j', i, i]]);
  await until(() => [...cluster.nodes.values()].every(({ writes }) => writes.length === 5));
  const [a, b, c] = three.map((id) => cluster.node(id).writes.map(({ version }) => version));
  assert.deepEqual(a, b);
  assert.deepEqual(b, c);
  for (let i = 1; i < 5; i++) assert.ok(a![i]! > a![i - 1]!);
});

test('a session that is behind others comes after them once a node has answered', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  const others = versionAtMillis(realEnv.clock.nowMillis() + 3_600_000);
  cluster.node('b1').highestVersion = others;
  for (let i = 0; i < 3; i++) {
    await cluster.write([['j', i, i]]);
    await until(() => three.every((id) => cluster.node(id).writes.length === i + 1));
    await turn();
  }
  const versions = cluster.node('a1').writes.map(({ version }) => version);
  assert.ok(versions[0]! < others);
  assert.deepEqual(versions.slice(1), [others + 1, others + 2]);
});

/** A session that knows that nodes read what derives versions. */
async function startDeriving(consistency?: 'all'): Promise<FakeCluster> {
  const cluster = await FakeCluster.start(
    three,
    rf3,
    consistency === undefined
      ? {}
      : { levels: { writeConsistency: consistency, readConsistency: 'unstrict_majority' } },
  );
  for (const id of three) cluster.node(id).formatLevelWritten = 2;
  await cluster.write([['other', 1, 1]]);
  await until(() => three.every((id) => cluster.node(id).writes.length === 1));
  await turn();
  return cluster;
}

const modesOf = (cluster: FakeCluster, id: string) =>
  cluster.node(id).writes.map(({ rowCount, derivesVersions }) => [rowCount, derivesVersions]);

test('batches derive versions once nodes say that they write what needs it', async () => {
  await using cluster = await startDeriving();
  await cluster.write([['j', 1, 1]]);
  await until(() => three.every((id) => cluster.node(id).writes.length === 2));
  for (const id of three) {
    assert.deepEqual(modesOf(cluster, id), [
      [1, false],
      [1, true],
    ]);
  }
});

test('a row that others supersede is sent to all owners with a later version of its write', async () => {
  await using cluster = await startDeriving();
  for (const id of ['a1', 'b1']) cluster.node(id).supersedes.add(keyOfJob('j'));
  const { outcomes } = await cluster.write([
    ['j', 1, 1],
    ['k', 1, 2],
  ]);
  assert.equal(outcomes, null);
  await until(() => three.every((id) => cluster.node(id).writes.length === 3));
  for (const id of three) {
    assert.deepEqual(modesOf(cluster, id).slice(1), [
      [2, true],
      [1, false],
    ]);
    const [, derived, own] = cluster.node(id).writes;
    assert.ok(own!.version > derived!.version);
    assert.equal(own!.version, cluster.node('a1').writes[2]!.version);
  }
  assert.deepEqual(cluster.stored('j'), { a1: '1=1', b1: '1=1', c1: '1=1' });
});

test('of rows of one series and time the last one counts, whatever has to be sent again', async () => {
  // Others are in the way, none is, or rows have versions of the write's own from the beginning.
  for (const kind of ['superseded', 'derived', 'own'] as const) {
    await using cluster = await startDeriving();
    if (kind === 'superseded') cluster.node('a1').supersedes.add(keyOfJob('j'));
    if (kind === 'own') {
      const deletion = versionAtMillis(realEnv.clock.nowMillis());
      cluster.node('a1').deletionVersion = deletion;
      await cluster.write([['k', 1, 1]]);
      await until(() => three.every((id) => cluster.node(id).writes.length === 2));
      await turn();
    }
    const { outcomes, writtenCount } = await cluster.write([
      ['j', 1, 766],
      ['j', 2, 5],
      ['k', 1, 3],
      ['j', 1, 680],
      ['k', 1, 3],
    ]);
    assert.equal(outcomes, null);
    assert.equal(writtenCount, 5);
    await turn();
    const last = cluster.node('b1').writes.at(-1)!;
    assert.equal(last.rowCount, { superseded: 2, derived: 5, own: 3 }[kind], kind);
    assert.equal(last.derivesVersions, kind === 'derived');
    assert.deepEqual(cluster.stored('j')['b1']!.split(' ').sort(), ['1=680', '2=5']);
  }
});

test('a row that another one of the write replaces fails when that one does', async () => {
  await using cluster = await startDeriving();
  for (const id of ['a1', 'b1']) cluster.node(id).supersedes.add(keyOfJob('j'));
  const rows = [
    ['j', 1, 766],
    ['k', 1, 1],
    ['j', 1, 680],
  ] as const;
  const writing = cluster.write([...rows]);
  for (const id of three) cluster.node(id).refuses.set(keyOfJob('j'), rowOutcome.tooFarPast);
  const { outcomes } = await writing;
  const { tooFarPast, written } = writeOutcome;
  assert.deepEqual([...outcomes!], [tooFarPast, written, tooFarPast]);
});

test('a row that one owner supersedes before it is written is sent again, after it nothing is', async () => {
  await using cluster = await startDeriving('all');
  cluster.node('c1').supersedes.add(keyOfJob('j'));
  assert.equal((await cluster.write([['j', 1, 1]])).outcomes, null);
  for (const id of three) {
    assert.deepEqual(modesOf(cluster, id).slice(1), [
      [1, true],
      [1, false],
    ]);
  }
  await using majority = await startDeriving();
  const late = majority.node('c1');
  late.supersedes.add(keyOfJob('j'));
  late.turnsBefore = 20;
  assert.equal((await majority.write([['j', 1, 1]])).outcomes, null);
  await until(() => late.writes.length === 2);
  for (let turns = 0; turns < 50; turns++) await turn();
  assert.equal(majority.node('a1').writes.length, 2);
});

test('after a deletion that the session knows writes have their own versions for a while', async () => {
  await using cluster = await startDeriving();
  const deletion = versionAtMillis(realEnv.clock.nowMillis());
  cluster.node('a1').deletionVersion = deletion;
  await cluster.write([['k', 1, 1]]);
  await until(() => three.every((id) => cluster.node(id).writes.length === 2));
  await turn();
  await cluster.write([['j', 1, 1]]);
  cluster.env.wallAheadMillis = 20_000;
  await cluster.write([['j', 2, 1]]);
  await until(() => three.every((id) => cluster.node(id).writes.length === 4));
  assert.deepEqual(modesOf(cluster, 'a1').slice(1), [
    [1, true],
    [1, false],
    [1, true],
  ]);
});

test('what nodes refuse since our clock is ahead fails for that reason, and the log says so', async () => {
  const said: string[] = [];
  const log = { ...silentLog, error: (_: object, message: string) => void said.push(message) };
  await using cluster = await FakeCluster.start(three, rf3, { log });
  cluster.env.wallAheadMillis = 3_600_000;
  const versionMax = versionAtMillis(realEnv.clock.nowMillis() + 60_000);
  for (const id of three) cluster.node(id).versionMax = versionMax;
  const { outcomes, errors } = await cluster.write([['j', 1, 1]]);
  assert.deepEqual([...outcomes!], [writeOutcome.clockAhead]);
  assert.ok(isRetryable(outcomes![0]!));
  assert.equal(
    describeOutcome(outcomes![0]!),
    'the clock of this coordinator is ahead of those of the storage nodes',
  );
  assert.match(errors.join(), /a1: the version of the batch is ahead/);
  await cluster.write([['j', 2, 1]]);
  const message =
    'the clock of this process is ahead: storage nodes refuse its writes until it is set right';
  assert.deepEqual(said, [message]);
});

test('once our clock is set back nothing fails, though versions were given from the future', async () => {
  const said: string[] = [];
  const log = { ...silentLog, error: (_: object, message: string) => void said.push(message) };
  await using cluster = await FakeCluster.start(three, rf3, { log });
  cluster.env.wallAheadMillis = 3_600_000;
  await cluster.write([['j', 1, 1]]);
  cluster.env.wallAheadMillis = 0;
  const versionMax = versionAtMillis(realEnv.clock.nowMillis() + 60_000);
  for (const id of three) cluster.node(id).versionMax = versionMax;
  const { outcomes } = await cluster.write([['j', 2, 2]]);
  assert.equal(outcomes, null);
  assert.deepEqual(said, []);
  const [, { version }] = cluster.node('a1').writes as [unknown, { version: number }];
  assert.ok(version <= versionMax);
});

test('a version that a minority refuses is kept', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.env.wallAheadMillis = 3_600_000;
  cluster.node('b1').versionMax = 0;
  await cluster.write([['j', 1, 1]]);
  cluster.env.wallAheadMillis = 0;
  await cluster.write([['j', 1, 2]]);
  const [first, second] = cluster.node('a1').writes.map(({ version }) => version);
  assert.equal(second, first! + 1);
});

test('majority is reached with one of three nodes down, all is not', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.node('b1').mode = 'down';
  const written = await cluster.write([['j', 1, 1]]);
  assert.equal(written.outcomes, null);
  const rows = cluster.table.rows([['j', 2, 2]]);
  const strict = await cluster.session.write('ns', rows, cluster.table, cluster.signal, {
    consistency: 'all',
  });
  assert.deepEqual([...strict.outcomes!], [writeOutcome.unavailable]);
  assert.deepEqual(strict.errors, ['b1: connection refused']);
  assert.ok(isRetryable(strict.outcomes![0]!));
});

test('a hung replica does not hold up a majority, and is not waited for', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.node('c1').mode = 'hung';
  const written = await cluster.write([['j', 1, 1]]);
  assert.equal(written.writtenCount, 1);
  assert.equal(cluster.session.outstandingRows, 0);
});

test('a write that cannot reach its level ends at its deadline as retryable', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.node('b1').mode = 'hung';
  cluster.node('c1').mode = 'hung';
  const writing = cluster.write([['j', 1, 1]]);
  await until(() => cluster.node('a1').writes.length === 1);
  cluster.env.expire();
  const { outcomes, errors } = await writing;
  assert.deepEqual([...outcomes!], [writeOutcome.unavailable]);
  assert.match(errors.join(), /b1: deadline of 10000 ms exceeded/);
});

test('a passing failure is retried after a pause, and the caller sees none of it', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of ['a1', 'b1']) cluster.node(id).failures = 1;
  const { outcomes } = await cluster.write([['j', 1, 1]]);
  assert.equal(outcomes, null);
  const [slept] = cluster.env.sleptMillis;
  assert.equal(cluster.env.sleptMillis.length, 1);
  assert.ok(slept! >= 250 && slept! <= 750, String(slept));
});

test('retries are bounded', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of three) cluster.node(id).mode = 'down';
  const { outcomes } = await cluster.write([['j', 1, 1]]);
  assert.deepEqual([...outcomes!], [writeOutcome.unavailable]);
  assert.equal(cluster.env.sleptMillis.length, 2);
});

test('who has acknowledged a row is not asked again while the others are', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of ['b1', 'c1']) cluster.node(id).failures = 1;
  assert.equal((await cluster.write(jobs.map((job) => [job, 1, 1]))).outcomes, null);
  const counts = () => three.map((id) => cluster.node(id).writes.map(({ rowCount }) => rowCount));
  await until(() => counts().every((each) => each.length === 1));
  assert.deepEqual(counts(), [[20], [20], [20]]);
  // By row: two replicas have no room for one series, and one of them has it then.
  const full = (id: string) => cluster.node(id).refuses;
  for (const id of ['b1', 'c1']) full(id).set(keyOfJob('j3'), rowOutcome.resourceExhausted);
  const writing = cluster.write(jobs.map((job) => [job, 2, 2]));
  await until(() => cluster.env.sleptMillis.length === 2);
  full('b1').clear();
  assert.equal((await writing).outcomes, null);
  await until(() => counts()[2]!.length === 3);
  assert.deepEqual(counts(), [
    [20, 20],
    [20, 20, 1],
    [20, 20, 1],
  ]);
});

test('what was acknowledged under another placement does not count for the next attempt', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of ['b1', 'c1']) cluster.node(id).failures = 1;
  cluster.held = cluster.topology.view;
  const writing = cluster.write([['j', 1, 1]]);
  await until(() => cluster.stored('j')['a1'] !== undefined);
  // Meanwhile a1 has lost what it had.
  cluster.node('a1').samples.clear();
  await cluster.admin.resetInstance('a1', cluster.signal);
  await cluster.adopt();
  cluster.held = null;
  assert.equal((await writing).outcomes, null);
  await until(() => Object.keys(cluster.stored('j')).length === 3);
});

test('an overloaded cluster gets no more than a tenth of its load again', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of three) cluster.node(id).mode = 'down';
  const rows = Array.from({ length: 20_000 }, (_, i) => ['j', i, 1] as const);
  const retries: number[] = [];
  for (let i = 0; i < 30; i++) {
    const before = cluster.env.sleptMillis.length;
    const { outcomes, errors } = await cluster.write(rows);
    assert.ok(outcomes!.every(isRetryable));
    retries.push(cluster.env.sleptMillis.length - before);
    if (retries.at(-1)! < 2) assert.match(errors.join(), /not tried again: too much/);
  }
  const sum = (counts: readonly number[]) => counts.reduce((a, b) => a + b, 0);
  assert.deepEqual(retries.slice(0, 5), [2, 2, 2, 2, 2], 'what was saved');
  assert.ok(sum(retries.slice(10)) <= 2, retries.join());
  // A single row is not kept from it by that.
  for (const id of three) cluster.node(id).mode = 'up';
  await cluster.write(rows.slice(0, 2000));
  for (const id of ['a1', 'b1']) cluster.node(id).failures = 1;
  assert.equal((await cluster.write([['j', 1, 1]])).outcomes, null);
});

test('the signal of the caller ends the write with its reason', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of three) cluster.node(id).mode = 'hung';
  const left = new AbortController();
  const writing = cluster.write([['j', 1, 1]], left.signal);
  await turn();
  left.abort(new Error('client left'));
  await assert.rejects(writing, /client left/);
  await until(() => cluster.session.outstandingRows === 0);
});

test('after a node restarts its rows are sent again with their series, once', async () => {
  await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 4 });
  await cluster.write(jobs.map((job) => [job, 1, 1]));
  const node = cluster.node('a1');
  node.restart();
  const { outcomes } = await cluster.write(jobs.map((job) => [job, 2, 2]));
  assert.equal(outcomes, null);
  assert.deepEqual(
    node.writes.map(({ seriesCount }) => seriesCount),
    [20, 0, 20],
  );
  assert.equal(node.writes[1]!.version, node.writes[2]!.version);
  await cluster.write(jobs.map((job) => [job, 3, 3]));
  assert.equal(node.writes[3]!.seriesCount, 0);
  assert.deepEqual(cluster.stored('j3'), { a1: '1=1 2=2 3=3' });
});

test('a reference that a node gave up is asked for again, the others go on', async () => {
  await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 4 });
  await cluster.write(jobs.map((job) => [job, 1, 1]));
  const node = cluster.node('a1');
  node.evict(keyOfJob('j4'));
  const { outcomes } = await cluster.write(jobs.map((job) => [job, 2, 2]));
  assert.equal(outcomes, null);
  assert.deepEqual(
    node.writes.slice(1).map(({ rowCount, seriesCount }) => [rowCount, seriesCount]),
    [
      [20, 0],
      [1, 1],
    ],
  );
  assert.deepEqual(cluster.stored('j4'), { a1: '1=1 2=2' });
});

test('a slot that was given to another series never writes to the old one', async () => {
  await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 4 });
  const { table } = cluster;
  await cluster.write([['old', 1, 1]]);
  table.assign(table.slotOf('old'), 'new');
  await cluster.write([['new', 2, 2]]);
  assert.deepEqual([cluster.stored('old'), cluster.stored('new')], [{ a1: '1=1' }, { a1: '2=2' }]);
});

test('rows whose slot was given away before a resend are retryable, never written elsewhere', async () => {
  await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 4 });
  const { table } = cluster;
  await cluster.write([
    ['x', 1, 1],
    ['y', 1, 1],
  ]);
  cluster.node('a1').restart();
  const writing = cluster.write([
    ['x', 2, 2],
    ['y', 2, 2],
  ]);
  table.assign(table.slotOf('x'), 'z');
  const { outcomes } = await writing;
  assert.deepEqual([...outcomes!], [writeOutcome.unavailable, writeOutcome.written]);
  assert.deepEqual(cluster.stored('z'), {});
  assert.deepEqual(cluster.stored('y'), { a1: '1=1 2=2' });
});

test('good rows are kept when others are refused, each with its reason', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  const { table } = cluster;
  table.refused[table.slotOf('bad')] = 1;
  for (const id of three) {
    cluster.node(id).refuses.set(keyOfJob('past'), rowOutcome.tooFarPast);
    cluster.node(id).refuses.set(keyOfJob('full'), rowOutcome.resourceExhausted);
  }
  const { outcomes, writtenCount } = await cluster.write([
    ['good', 1, 1],
    ['bad', 1, 1],
    ['past', 1, 1],
    ['full', 1, 1],
    ['fine', 1, 1],
  ]);
  assert.deepEqual(
    [...outcomes!],
    [
      writeOutcome.written,
      writeOutcome.refused,
      writeOutcome.tooFarPast,
      writeOutcome.resourceExhausted,
      writeOutcome.written,
    ],
  );
  assert.equal(writtenCount, 2);
  assert.deepEqual(cluster.stored('bad'), {});
  assert.equal(Object.keys(cluster.stored('fine')).length, 3);
});

test('a row is refused for good only when the refusals alone prevent the level', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  const refuse = (id: string) =>
    cluster.node(id).refuses.set(keyOfJob('j'), rowOutcome.tooFarFuture);
  refuse('a1');
  assert.equal((await cluster.write([['j', 1, 1]])).outcomes, null);
  cluster.node('b1').mode = 'down';
  const passing = await cluster.write([['j', 2, 1]]);
  assert.deepEqual([...passing.outcomes!], [writeOutcome.unavailable]);
  refuse('c1');
  const final = await cluster.write([['j', 3, 1]]);
  assert.deepEqual([...final.outcomes!], [writeOutcome.tooFarFuture]);
});

test('of a pair LEAVING and INITIALIZING both must acknowledge to count, as one', async () => {
  await using cluster = await FakeCluster.start(['a1', 'b1', 'c1'], {
    replicaFactor: 3,
    numShards: 1,
  });
  const body = { instances: [{ id: 'c2', isolationGroup: 'c', endpoint: 'c2:9000' }] };
  await cluster.admin.placementReplace(
    { leavingInstanceIDs: ['c1'], candidates: body.instances },
    { dryRun: false, force: false },
    cluster.signal,
  );
  await cluster.adopt();
  await cluster.seen();
  const all = { consistency: 'all' } as const;
  const write = (seconds: number) =>
    cluster.session.write(
      'ns',
      cluster.table.rows([['j', seconds, 1]]),
      cluster.table,
      cluster.signal,
      all,
    );

  assert.equal((await write(1)).outcomes, null);
  assert.deepEqual(Object.keys(cluster.stored('j')).sort(), ['a1', 'b1', 'c1', 'c2']);
  for (const missing of ['c1', 'c2']) {
    cluster.node(missing).mode = 'down';
    assert.deepEqual([...(await write(2)).outcomes!], [writeOutcome.unavailable], missing);
    // The pair is one replica: the two others are a majority without it.
    assert.equal((await cluster.write([['j', 3, 1]])).outcomes, null);
    cluster.node(missing).mode = 'up';
  }
  cluster.node('a1').mode = 'down';
  assert.equal((await cluster.write([['j', 4, 1]])).outcomes, null);
  cluster.node('c2').mode = 'down';
  assert.deepEqual([...(await cluster.write([['j', 5, 1]])).outcomes!], [writeOutcome.unavailable]);
});

test('replicas that lost their data are written to, but do not count before they are AVAILABLE', async () => {
  await using cluster = await FakeCluster.start(three, { replicaFactor: 3, numShards: 1 });
  await cluster.admin.resetInstance('c1', cluster.signal);
  await cluster.adopt();
  await cluster.seen();
  assert.equal((await cluster.write([['j', 1, 1]])).outcomes, null);
  await until(() => 'c1' in cluster.stored('j'));
  cluster.node('b1').mode = 'down';
  assert.deepEqual([...(await cluster.write([['j', 2, 1]])).outcomes!], [writeOutcome.unavailable]);
  for (const id of three) await cluster.admin.resetInstance(id, cluster.signal);
  await cluster.adopt();
  await cluster.seen();
  const { outcomes, errors } = await cluster.write([['j', 3, 1]]);
  assert.deepEqual([...outcomes!], [writeOutcome.unavailable]);
  assert.match(errors.join(), /too few replicas are AVAILABLE/);
});

test('a node with a newer placement sends the session to the new owners', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.held = cluster.topology.view;
  await cluster.add('a2');
  const rows = cluster.table.rows(jobs.map((job) => [job, 2, 2]));
  const { outcomes } = await cluster.session.write('ns', rows, cluster.table, cluster.signal, {
    consistency: 'all',
  });
  assert.equal(outcomes, null);
  assert.deepEqual(cluster.env.sleptMillis, []);
  const owners = jobs.map((job) => Object.keys(cluster.stored(job)).sort().join());
  assert.deepEqual([...new Set(owners)].sort(), ['a1,a2,b1,c1', 'a1,b1,c1']);
});

test('nodes that know that the namespace was made again get the rows with its number', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  const { admin, signal } = cluster;
  cluster.held = cluster.topology.view;
  await admin.namespaceDelete('ns', plainRequest, signal);
  await cluster.addNamespace();
  const { number } = (await admin.namespaces.get(signal)).value.get('ns')!;
  for (const id of three) cluster.node(id).namespaceNumber = number!;
  assert.equal((await cluster.write([['j', 1, 1]])).outcomes, null);
  await until(() => Object.keys(cluster.stored('j')).length === 3);
});

test('a namespace that was deleted since gets no rows', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.held = cluster.topology.view;
  await cluster.admin.namespaceDelete('ns', plainRequest, cluster.signal);
  for (const id of three) cluster.node(id).namespaceNumber = Number.MAX_SAFE_INTEGER;
  assert.deepEqual([...(await cluster.write([['j', 1, 1]])).outcomes!], [writeOutcome.unavailable]);
  assert.deepEqual(cluster.stored('j'), {});
});

test('rows that a minority refused as stale reach the new owners after the acknowledged write', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  cluster.held = cluster.topology.view;
  await cluster.add('a2');
  assert.equal((await cluster.write(jobs.map((job) => [job, 2, 2]))).outcomes, null);
  await until(() => jobs.every((job) => 'a1' in cluster.stored(job)));
  await until(() => jobs.some((job) => 'a2' in cluster.stored(job)));
});

test('a node that does not yet know its shards is waited for', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  const { adopted } = cluster;
  await cluster.add('a2');
  await cluster.seen();
  // The nodes are behind the session: a2 finds no shards of its own.
  cluster.adopted = adopted;
  const rows = cluster.table.rows(jobs.map((job) => [job, 2, 2]));
  const writing = cluster.session.write('ns', rows, cluster.table, cluster.signal, {
    consistency: 'all',
  });
  await until(() => cluster.env.sleptMillis.length === 2);
  await cluster.adopt();
  assert.equal((await writing).outcomes, null);
});

test('rows go to the owners of their shard only', async () => {
  const six = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2'];
  await using cluster = await FakeCluster.start(six, { replicaFactor: 3, numShards: 16 });
  const many = Array.from({ length: 200 }, (_, i) => `m${i}`);
  const { outcomes } = await cluster.write(many.map((job, i) => [job, 1, i]));
  assert.equal(outcomes, null);
  await until(() => many.every((job) => Object.keys(cluster.stored(job)).length === 3));
  for (const [i, job] of many.entries()) {
    const stored = cluster.stored(job);
    assert.deepEqual(
      Object.keys(stored)
        .map((id) => id.charAt(0))
        .sort(),
      ['a', 'b', 'c'],
    );
    assert.ok(Object.values(stored).every((text) => text === `1=${i}`));
  }
  for (const { writes } of cluster.nodes.values()) {
    assert.ok(writes[0]!.rowCount > 0 && writes[0]!.rowCount < 200);
  }
});

test('NaN payloads survive the way through subsets of rows', async () => {
  const two = ['a1', 'a2'];
  await using cluster = await FakeCluster.start(two, { replicaFactor: 1, numShards: 16 });
  const signalling = 0x7ff0000000000002n;
  const bits: bigint[] = [];
  for (const id of two) {
    const node = cluster.node(id);
    const write = node.write.bind(node);
    node.write = (request, signal) => {
      const { batch } = request;
      const { values, rowCount } = batch instanceof Uint8Array ? readBatch(batch) : batch;
      bits.push(...new BigUint64Array(values.buffer, values.byteOffset, rowCount));
      return write(request, signal);
    };
  }
  const rows = cluster.table.rows(jobs.map((job) => [job, 1, 0]));
  new BigUint64Array(rows.values.buffer).fill(signalling);
  await cluster.session.write('ns', rows, cluster.table, cluster.signal);
  assert.deepEqual(
    bits,
    jobs.map(() => signalling),
  );
});

test('an unknown namespace and a cluster without placement are refused before anything is sent', async () => {
  await using cluster = await FakeCluster.start(['a1'], { replicaFactor: 1, numShards: 1 });
  const rows = cluster.table.rows([['j', 1, 1]]);
  await assert.rejects(
    cluster.session.write('other', rows, cluster.table, cluster.signal),
    (error: unknown) => (error as { code: string }).code === 'NOT_FOUND',
  );
  await cluster.admin.placementDelete({ dryRun: false, force: false }, cluster.signal);
  await cluster.topology.until(({ placement }) => placement === null, cluster.signal);
  await assert.rejects(
    cluster.write([['j', 1, 1]]),
    (error: unknown) => (error as { code: string }).code === 'UNAVAILABLE',
  );
});

test('a placement that goes between two attempts leaves the rows unwritten, and says so', async () => {
  await using cluster = await FakeCluster.start(three, rf3);
  for (const id of three) cluster.node(id).mode = 'down';
  const writing = cluster.write([
    ['j', 1, 1],
    ['k', 2, 2],
  ]);
  await cluster.admin.placementDelete({ dryRun: false, force: false }, cluster.signal);
  const { writtenCount, outcomes } = await writing;
  assert.equal(writtenCount, 0);
  assert.deepEqual([...outcomes!], [writeOutcome.unavailable, writeOutcome.unavailable]);
});

test('too many rows on their way to a hung instance fail there at once, and the majority goes on', async () => {
  await using cluster = await FakeCluster.start(three, rf3, { rowsPerInstanceMax: 50 });
  cluster.node('c1').mode = 'hung';
  const write = (consistency: 'majority' | 'all') => {
    const rows = cluster.table.rows(jobs.map((job) => [job, 1, 1]));
    const { session, table, signal } = cluster;
    return session.write('ns', rows, table, signal, { consistency });
  };
  for (let i = 0; i < 4; i++) assert.equal((await write('majority')).outcomes, null);
  const { outcomes, errors } = await write('all');
  assert.equal(outcomes![0], writeOutcome.resourceExhausted);
  assert.deepEqual(errors, ['c1: too many rows are on their way to the instance']);
});

test('whatever is changed, cut and restarted, what was acknowledged is in every majority read', async () => {
  for (let seed = 0; seed < 10; seed++) await fuzz(seed, 60);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { type Log, silentLog } from '#lib/log.ts';
import type { Instance, Placement } from '../placement/placement.ts';
import { PeerClocks } from './peer_clocks.ts';
import type { NodeHealth } from './service.ts';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const startMillis = 1_700_000_000_000;

/** A peer: how far its clock is ahead of the true time; null when it does not answer. */
type Peer = number | null | 'older release' | 'another node';

class Stage {
  /** True time since the start, which the monotonic clock shows. */
  passedMillis = 0;
  ownAheadMillis = 0;
  /** How long an answer takes. */
  answerMillis = 0;
  readonly peers = new Map<string, Peer>();
  readonly asked: string[] = [];
  readonly said: string[] = [];
  readonly clocks: PeerClocks;
  #look: () => void | Promise<void> = () => {};

  constructor(peers: Record<string, Peer>) {
    for (const [id, peer] of Object.entries(peers)) this.peers.set(id, peer);
    const clock: Clock = {
      ...realEnv.clock,
      nowMillis: () => startMillis + this.passedMillis + this.ownAheadMillis,
      nowNanos: () => BigInt(startMillis + this.passedMillis + this.ownAheadMillis) * 1_000_000n,
      monotonicMillis: () => this.passedMillis,
      every: (_, task) => {
        this.#look = task;
      },
      deadline: (_, parent) => parent,
    };
    const say = (_: object, message: string): void => void this.said.push(message);
    const log: Log = { ...silentLog, info: say, error: say };
    this.clocks = new PeerClocks({ clock, random: realEnv.random }, log, 'own');
  }

  async begin(): Promise<this> {
    const { signal } = new AbortController();
    const placement = () => placementOf(['own', ...this.peers.keys()]);
    const nodeServiceOf = ({ id }: Instance) => ({ health: () => this.#healthOf(id) });
    await this.clocks.follow({ placement, nodeServiceOf }, signal);
    return this;
  }

  async pass(millis: number): Promise<void> {
    for (let left = millis; left > 0; left -= second) {
      this.passedMillis += second;
      await this.#look();
    }
  }

  /** How far the median is ahead of the true time; null without one. */
  get medianAhead(): number | null {
    const median = this.clocks.medianMillis();
    return median === null ? null : median - startMillis - this.passedMillis;
  }

  /** The same of the time that writes go by. */
  get timeAhead(): number {
    return Number(this.clocks.nowNanos() / 1_000_000n) - startMillis - this.passedMillis;
  }

  async #healthOf(id: string): Promise<NodeHealth> {
    this.asked.push(id);
    const peer = this.peers.get(id);
    if (peer === null || peer === undefined) throw new TsdbError('UNAVAILABLE', 'away');
    const ahead = typeof peer === 'number' ? peer : 0;
    const wallMillis = startMillis + this.passedMillis + ahead;
    this.passedMillis += this.answerMillis;
    return {
      ok: true,
      status: 'up',
      bootstrapped: true,
      writesRefused: '',
      instanceId: peer === 'another node' ? 'z' : id,
      incarnation: 'a',
      bootCount: 1,
      placementVersion: 1,
      retires: true,
      formatLevel: formatLevelNewest,
      formatLevelWritten: formatLevelNewest,
      formatLevelOfReaders: formatLevelNewest,
      blocksLacking: 0,
      blocksLost: 0,
      shardsLacking: [],
      unixNanos: peer === 'older release' ? 0n : BigInt(wallMillis) * 1_000_000n,
    };
  }
}

function placementOf(ids: readonly string[]): Pick<Placement, 'instances'> {
  return { instances: ids.map((id) => ({ id }) as Instance) };
}

test('the median of three clocks moves with none of them alone', async () => {
  for (const [own, b, c] of [
    [0, 0, hour],
    [0, -hour, 0],
    [hour, 0, 0],
    [-3 * hour, 0, 5],
  ] as const) {
    const stage = new Stage({ b, c });
    stage.ownAheadMillis = own;
    await stage.begin();
    assert.equal(stage.medianAhead, 0, `${own} ${b} ${c}`);
    assert.equal(stage.clocks.voters, 3);
    assert.equal(stage.clocks.aheadMillis, own);
  }
});

test('two clocks, or peers that cannot say, give no median', async () => {
  for (const peers of [
    {},
    { b: 0 },
    { b: 0, c: null },
    { b: 0, c: 'older release' },
    { b: 0, c: 'another node' },
  ] as Record<string, Peer>[]) {
    const stage = await new Stage(peers).begin();
    assert.equal(stage.medianAhead, null, JSON.stringify(peers));
    assert.equal(stage.clocks.voters, 0);
    assert.equal(stage.clocks.aheadMillis, 0);
  }
});

test('of an even number of clocks its own is left out', async () => {
  const stage = new Stage({ b: 0, c: 0, d: hour });
  stage.ownAheadMillis = hour;
  await stage.begin();
  assert.equal(stage.medianAhead, 0);
  assert.equal(stage.clocks.voters, 3);
});

test('a slow answer is taken as of its middle', async () => {
  const stage = new Stage({ b: 0, c: 0 });
  stage.answerMillis = second;
  stage.ownAheadMillis = hour;
  await stage.begin();
  assert.ok(Math.abs(stage.medianAhead!) <= 2 * second, `${stage.medianAhead}`);
});

test('a vote is forgotten after some rounds, and with its instance; the median with them', async () => {
  const stage = await new Stage({ b: 0, c: 0 }).begin();
  stage.peers.set('c', null);
  await stage.pass(30 * second);
  assert.equal(stage.medianAhead, 0);
  await stage.pass(20 * second);
  assert.equal(stage.medianAhead, null);
  stage.peers.set('c', 0);
  await stage.pass(3 * second);
  assert.equal(stage.medianAhead, 0);
  stage.peers.delete('c');
  await stage.pass(12 * second);
  assert.equal(stage.medianAhead, null);
});

test('each round asks five peers, the same ones as long as they answer', async () => {
  const ids = Array.from({ length: 12 }, (_, i) => `p${i}`);
  const stage = await new Stage(Object.fromEntries(ids.map((id) => [id, 0]))).begin();
  await stage.pass(20 * second);
  assert.equal(stage.asked.length, 15);
  assert.equal(new Set(stage.asked).size, 5);
  assert.equal(stage.clocks.voters, 5);
  const [gone] = stage.asked;
  stage.peers.set(gone!, null);
  await stage.pass(20 * second);
  assert.equal(new Set(stage.asked).size, 6);
  await stage.pass(40 * second);
  assert.equal(stage.clocks.voters, 5);
  assert.equal(stage.asked.filter((id) => id === gone).length, 4);
});

test('as long as too few answer all are asked in turn', async () => {
  const ids = Array.from({ length: 12 }, (_, i) => `p${i}`);
  const stage = await new Stage(Object.fromEntries(ids.map((id) => [id, null]))).begin();
  await stage.pass(10 * second);
  assert.equal(new Set(stage.asked).size, 12);
  for (const id of ['p3', 'p9']) stage.peers.set(id, 0);
  await stage.pass(10 * second);
  assert.equal(stage.clocks.voters, 3);
});

test('with a median a round comes every ten seconds, and at once when it is hastened', async () => {
  const stage = await new Stage({ b: 0, c: 0 }).begin();
  await stage.pass(60 * second);
  assert.equal(stage.asked.length, 14);
  stage.clocks.hasten();
  await stage.pass(second);
  assert.equal(stage.asked.length, 16);
});

test("the time of writes is the machine's, and the median where that is known to be wrong", async () => {
  const stage = await new Stage({ b: 0, c: 0 }).begin();
  stage.ownAheadMillis = 50 * second;
  assert.equal(stage.timeAhead, 50 * second);
  // A jump is asked about first, at once.
  stage.ownAheadMillis = hour;
  assert.equal(stage.timeAhead, hour);
  await stage.pass(second);
  assert.equal(stage.timeAhead, 0);
  stage.ownAheadMillis = 0;
  assert.equal(stage.timeAhead, 0);
  await stage.pass(12 * second);
  stage.ownAheadMillis = -hour;
  assert.equal(stage.timeAhead, -hour);
  await stage.pass(second);
  assert.equal(stage.timeAhead, 0);
  assert.deepEqual(stage.said, [
    'the clock of this machine is wrong by those of storage nodes: set it right',
    'the clock of this machine is no longer known to be wrong',
    'the clock of this machine is wrong by those of storage nodes: set it right',
  ]);
});

test('what expires goes by the earlier of both times, also between two rounds', async () => {
  const stage = await new Stage({ b: 0, c: 0 }).begin();
  const ahead = (): number =>
    Number(stage.clocks.earliestNanos() / 1_000_000n) - startMillis - stage.passedMillis;
  stage.ownAheadMillis = hour;
  assert.equal(ahead(), 0);
  stage.ownAheadMillis = -hour;
  await stage.pass(12 * second);
  assert.equal(ahead(), -hour);
});

test('a jump of all clocks together is taken with the next round', async () => {
  const stage = await new Stage({ b: 0, c: 0 }).begin();
  stage.ownAheadMillis = hour;
  for (const id of ['b', 'c']) stage.peers.set(id, hour);
  assert.equal(stage.medianAhead, 0);
  assert.equal(stage.timeAhead, hour);
  await stage.pass(second);
  assert.equal(stage.medianAhead, hour);
  assert.deepEqual(stage.said, []);
});

test('a process whose clock is ahead deletes nothing, and is told why', async () => {
  const stage = await new Stage({ b: 0, c: 0 }).begin();
  stage.ownAheadMillis = -hour;
  stage.clocks.checkNotAhead('delete series');
  stage.ownAheadMillis = hour;
  assert.throws(() => stage.clocks.checkNotAhead('delete series'), {
    code: 'FAILED_PRECONDITION',
    message:
      'cannot delete series: the clock of this coordinator is 3600.0 s ahead of the median of 3 clocks of storage nodes',
  });
  for (const id of ['b', 'c']) stage.peers.set(id, hour);
  await stage.pass(second);
  stage.clocks.checkNotAhead('delete series');
});

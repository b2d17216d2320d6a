import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type MemoryKv, MemoryKvStore } from '#cluster/kv/memory.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import type { Decision } from '../ingest/ha_pairs.ts';
import { StoredElections } from './elections.ts';

const never = new AbortController().signal;

/** Coordinators over one store, whose clocks go on when it is said. */
class Coordinators implements AsyncDisposable {
  readonly #store = new MemoryKvStore({ clock: realEnv.clock });
  readonly #stop = new AbortController();
  readonly #clients: MemoryKv[] = [];
  #millis = 1000;
  takeovers = 0;

  pass(millis: number): void {
    this.#millis += millis;
  }

  /** @param isAway asked at each call of its store */
  add(isAway: () => boolean = () => false): StoredElections {
    const env: Env = {
      ...realEnv,
      clock: { ...realEnv.clock, monotonicMillis: () => this.#millis },
    };
    const kv = this.#store.client();
    this.#clients.push(kv);
    const away = <T>(call: () => Promise<T>): Promise<T> =>
      isAway() ? Promise.reject(new TsdbError('UNAVAILABLE', 'the store is away')) : call();
    const of = {
      get: (...args: Parameters<MemoryKv['get']>) => away(() => kv.get(...args)),
      list: (...args: Parameters<MemoryKv['list']>) => kv.list(...args),
      watch: (...args: Parameters<MemoryKv['watch']>) => kv.watch(...args),
      transact: (...args: Parameters<MemoryKv['transact']>) => away(() => kv.transact(...args)),
    };
    const elections = new StoredElections({
      kv: of as unknown as MemoryKv,
      cluster: { environment: 'test', zone: 'embedded' },
      env,
      log: silentLog,
      takeoverMillis: 30_000,
      updateMillis: 15_000,
      clustersMax: 2,
      takeovers: { increase: () => this.takeovers++ } as never,
    });
    void elections.follow(this.#stop.signal);
    return elections;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const client of this.#clients) await client[Symbol.asyncDispose]();
  }
}

async function decided(
  elections: StoredElections,
  cluster: string,
  replica: string,
): Promise<Decision> {
  const decision = elections.decide(cluster, replica);
  if (decision !== 'ask') return decision;
  await elections.elect(cluster, replica, never);
  return elections.decide(cluster, replica);
}

async function until(holds: () => boolean): Promise<void> {
  for (let waits = 0; waits < 200 && !holds(); waits++) await realEnv.clock.sleep(5, never);
  assert.ok(holds());
}

test('the first replica that comes is taken, everywhere, and another one when it is silent for long', async () => {
  await using coordinators = new Coordinators();
  const [one, two] = [coordinators.add(), coordinators.add()];
  assert.equal(await decided(one, 'eu', 'a'), 'taken');
  assert.equal(await decided(two, 'eu', 'b'), 'duplicate');
  assert.equal(await decided(two, 'us', 'b'), 'taken');
  coordinators.pass(29_000);
  assert.equal(await decided(two, 'eu', 'b'), 'duplicate');
  coordinators.pass(2_000);
  assert.equal(await decided(two, 'eu', 'b'), 'taken');
  assert.equal(await decided(one, 'eu', 'b'), 'taken');
  await until(() => one.decide('eu', 'a') === 'duplicate');
  assert.equal(coordinators.takeovers, 1);
});

test('rows at one coordinator keep a replica for all of them', async () => {
  await using coordinators = new Coordinators();
  const [one, two] = [coordinators.add(), coordinators.add()];
  assert.equal(await decided(one, 'eu', 'a'), 'taken');
  for (let i = 0; i < 10; i++) {
    coordinators.pass(10_000);
    assert.equal(await decided(one, 'eu', 'a'), 'taken');
    await realEnv.clock.sleep(20, never);
    assert.equal(await decided(two, 'eu', 'b'), 'duplicate');
  }
  assert.equal(coordinators.takeovers, 0);
});

test('two that would take over at once: one does', async () => {
  await using coordinators = new Coordinators();
  const [one, two, three] = [coordinators.add(), coordinators.add(), coordinators.add()];
  assert.equal(await decided(one, 'eu', 'a'), 'taken');
  await until(() => two.clusterCount === 1 && three.clusterCount === 1);
  coordinators.pass(31_000);
  const both = await Promise.all([decided(two, 'eu', 'b'), decided(three, 'eu', 'c')]);
  assert.deepEqual(
    both.toSorted((a, b) => a.localeCompare(b)),
    ['duplicate', 'taken'],
  );
});

test('without the store what is known holds, and nothing is dropped that nobody may be sending', async () => {
  await using coordinators = new Coordinators();
  let isAway = false;
  const elections = coordinators.add(() => isAway);
  assert.equal(await decided(elections, 'eu', 'a'), 'taken');
  isAway = true;
  coordinators.pass(20_000);
  assert.equal(await decided(elections, 'eu', 'a'), 'taken');
  coordinators.pass(20_000);
  assert.equal(await decided(elections, 'eu', 'b'), 'duplicate', 'rows of the other came here');
  coordinators.pass(31_000);
  await assert.rejects(
    decided(elections, 'eu', 'b'),
    (error) => error instanceof TsdbError && error.code === 'UNAVAILABLE',
  );
  await assert.rejects(decided(elections, 'us', 'b'), /the store is away/);
  isAway = false;
  await assert.rejects(decided(elections, 'eu', 'b'), /the key-value store was away/);
  coordinators.pass(16_000);
  assert.equal(await decided(elections, 'eu', 'b'), 'taken');
});

test('after the store was away a replica that was taken all the time stays so', async () => {
  await using coordinators = new Coordinators();
  let isAway = false;
  const [one, two] = [coordinators.add(() => isAway), coordinators.add(() => isAway)];
  assert.equal(await decided(one, 'eu', 'a'), 'taken');
  await until(() => two.clusterCount === 1);
  isAway = true;
  for (let i = 0; i < 10; i++) {
    coordinators.pass(30_000);
    assert.equal(await decided(one, 'eu', 'a'), 'taken');
    await assert.rejects(decided(two, 'eu', 'b'));
  }
  isAway = false;
  await assert.rejects(decided(two, 'eu', 'b'), /was away/);
  assert.equal(await decided(one, 'eu', 'a'), 'taken');
  await until(() => two.decide('eu', 'b') === 'duplicate');
  assert.equal(coordinators.takeovers, 0);
});

test('who leaves while it waits ends the election of nobody else', async () => {
  await using coordinators = new Coordinators();
  const elections = coordinators.add();
  const leaves = new AbortController();
  const first = elections.elect('eu', 'a', leaves.signal);
  const second = elections.elect('eu', 'b', never);
  leaves.abort();
  await assert.rejects(first);
  await second;
  assert.equal(elections.decide('eu', 'a'), 'taken');
});

test('clusters have a limit, and are forgotten after a day', async () => {
  await using coordinators = new Coordinators();
  const elections = coordinators.add();
  assert.equal(await decided(elections, 'a/b c', 'x'), 'taken');
  assert.equal(await decided(elections, 'b', 'x'), 'taken');
  assert.equal(await decided(elections, 'c', 'x'), 'refused');
  coordinators.pass(25 * 3_600_000);
  assert.equal(await decided(elections, 'b', 'x'), 'taken');
  await realEnv.clock.sleep(50, never);
  await elections.forget(never);
  await until(() => elections.clusterCount === 1);
  assert.equal(await decided(elections, 'c', 'x'), 'taken');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { FakeKube } from './fake_kube_testing.ts';
import { KubeError } from './kube_api.ts';
import { leadWhileElected } from './lease.ts';

type Json = any;

interface Candidate {
  readonly identity: string;
  leading: boolean;
  mayWrite: () => void;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

class Election {
  readonly kube: FakeKube = new FakeKube();
  readonly clock: FakeClock = new FakeClock();
  /** Identities whose calls fail or, for 'hang', never end. */
  readonly cutOff: Map<string, 'fail' | 'hang'> = new Map();

  candidate(identity: string): Candidate {
    const reach = async <T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> => {
      const fate = this.cutOff.get(identity);
      if (fate === 'fail') throw new KubeError(500, 'InternalError', 'etcd is away');
      if (fate === 'hang') await this.clock.sleep(1e9, signal);
      return call();
    };
    const api = Object.assign(Object.create(this.kube), {
      get: (kind: Json, namespace: string, name: string, signal: AbortSignal) =>
        reach(signal, () => this.kube.get(kind, namespace, name)),
      create: (kind: Json, object: Json, signal: AbortSignal) =>
        reach(signal, () => this.kube.create(kind, object)),
      replace: (kind: Json, object: Json, signal: AbortSignal) =>
        reach(signal, () => this.kube.replace(kind, object)),
    }) as FakeKube;
    const stop = new AbortController();
    const one = { identity, leading: false, mayWrite: () => {}, stop } as Json;
    const options = {
      api,
      env: fakeEnv(this.clock),
      log: silentLog,
      namespace: 'default',
      name: 'tsdb-operator',
      identity,
    };
    one.ended = leadWhileElected(
      options,
      async (signal, mayWrite) => {
        one.leading = true;
        one.mayWrite = mayWrite;
        await this.clock.sleep(1e9, signal).catch(() => {});
        one.leading = false;
      },
      stop.signal,
    );
    return one as Candidate;
  }

  get holder(): string {
    return this.kube.find('Lease', 'tsdb-operator')?.spec.holderIdentity ?? '';
  }

  get lease(): Json {
    return this.kube.find('Lease', 'tsdb-operator');
  }
}

test('of two candidates one leads for as long as it renews', async () => {
  const election = new Election();
  const a = election.candidate('a');
  await election.clock.pass(0);
  const b = election.candidate('b');
  for (let second = 0; second < 120; second++) {
    await election.clock.pass(1_000);
    assert.deepEqual([a.leading, b.leading], [true, false]);
  }
  assert.equal(election.lease.spec.leaseTransitions, 0);
  a.stop.abort();
  b.stop.abort();
  await election.clock.pass(0);
  await Promise.all([a.ended, b.ended]);
});

test('who stops gives the lease back, and the other leads within three seconds', async () => {
  const election = new Election();
  const a = election.candidate('a');
  await election.clock.pass(5_000);
  const b = election.candidate('b');
  await election.clock.pass(5_000);
  a.stop.abort();
  await election.clock.pass(0);
  await a.ended;
  assert.equal(election.holder, '');
  await election.clock.pass(3_000);
  assert.deepEqual([b.leading, election.holder], [true, 'b']);
  b.stop.abort();
  await election.clock.pass(0);
  await b.ended;
});

test('a leader that died is followed after the duration of its lease, not sooner', async () => {
  const election = new Election();
  const a = election.candidate('a');
  await election.clock.pass(1_000);
  const b = election.candidate('b');
  await election.clock.pass(9_500);
  election.cutOff.set('a', 'hang');
  let waited = 0;
  for (; !b.leading && waited < 60_000; waited += 500) await election.clock.pass(500);
  assert.ok(waited >= 12_000 && waited <= 20_000, `followed after ${waited} ms`);
  assert.equal(election.lease.spec.leaseTransitions, 1);
  for (const one of [a, b]) one.stop.abort();
  await election.clock.pass(5_000);
  await Promise.all([a.ended, b.ended]);
});

for (const fate of ['fail', 'hang'] as const) {
  test(`a leader whose renewals ${fate} stops before another may lead`, async () => {
    const election = new Election();
    const a = election.candidate('a');
    await election.clock.pass(1_000);
    const b = election.candidate('b');
    await election.clock.pass(9_500);
    election.cutOff.set('a', fate);
    for (let waited = 0; waited < 30_000; waited += 100) {
      await election.clock.pass(100);
      assert.ok(!(a.leading && b.leading), `both lead after ${waited} ms`);
    }
    assert.deepEqual([a.leading, b.leading], [false, true]);
    await a.ended;
    assert.throws(() => a.mayWrite(), /lease/, 'one that was lost is never written under again');
    b.stop.abort();
    await election.clock.pass(0);
    await b.ended;
  });
}

test('a process that was stopped for longer than its lease may not write when it goes on', async () => {
  const election = new Election();
  const a = election.candidate('a');
  await election.clock.pass(1_000);
  a.mayWrite();
  // Time passes, but nothing of this process runs: its own renewals did not happen.
  election.clock.jump(10_500);
  assert.throws(() => a.mayWrite(), /lease/);
  a.stop.abort();
  await election.clock.pass(5_000);
  await a.ended;
});

test('one failed renewal is no reason to stop', async () => {
  const election = new Election();
  const a = election.candidate('a');
  await election.clock.pass(5_000);
  election.cutOff.set('a', 'fail');
  await election.clock.pass(6_000);
  election.cutOff.clear();
  await election.clock.pass(60_000);
  assert.ok(a.leading);
  a.mayWrite();
  a.stop.abort();
  await election.clock.pass(0);
  await a.ended;
});

test('a lease whose holder has another clock is judged by our own', async () => {
  const election = new Election();
  const a = election.candidate('a');
  await election.clock.pass(1_000);
  // Its times are years away, yet it renews.
  const skewed = () => {
    const lease = structuredClone(election.lease);
    lease.spec.renewTime = `1999-01-01T00:00:00.00000${election.clock.monotonicMillis() % 10}Z`;
    lease.spec.acquireTime = `1999-01-01T00:00:00.${election.clock.monotonicMillis()}Z`;
    election.kube.store(lease);
  };
  skewed();
  const b = election.candidate('b');
  for (let second = 0; second < 30; second++) {
    await election.clock.pass(1_000);
    assert.equal(b.leading, false);
  }
  for (const one of [a, b]) one.stop.abort();
  await election.clock.pass(5_000);
  await Promise.all([a.ended, b.ended]);
});

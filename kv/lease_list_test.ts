import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turnsOf } from '#engine/aside/turning_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import type { ProtoMessage } from '#lib/env/proto.ts';
import { Mvcc } from './core/mvcc.ts';
import { LeaseList, type LeaseListOptions } from './lease_list.ts';
import { schema } from './messages.ts';

const codec = schema.codec('etcdserverpb.LeaseLeasesResponse');
const idsOf = (answer: Uint8Array): bigint[] =>
  codec.decode(answer)['leases'].map(({ id }: ProtoMessage) => id);

test('the list of leases takes turns, and is one for all who asked before it was begun', async () => {
  const core = new Mvcc();
  for (let i = 0; i < 20_000; i++) core.leaseGrant(BigInt(1 + ((i * 7_919) % 20_011)), 60, 0);
  let begun = 0;
  const store: LeaseListOptions['store'] = {
    async perform(task) {
      begun += 1;
      return task(core, 0);
    },
  };
  // Each look at the clock takes some milliseconds, so that it gives way wherever it may.
  let millis = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => (millis += 5) };
  const list = new LeaseList({ store, clock, header: () => ({ revision: 9 }) });
  const first = turnsOf(list.encoded(codec));
  const beside = list.encoded(codec);
  await new Promise(setImmediate);
  core.leaseGrant(50_000n, 60, 0);
  const later = [list.encoded(codec), list.encoded(codec)];
  const { answer, turns } = await first;
  assert.ok(turns > 10, `${turns}`);
  assert.equal(await beside, answer);
  const ids = idsOf(answer);
  assert.equal(ids.length, 20_000);
  assert.ok(ids.every((id, i) => i === 0 || ids[i - 1]! < id));
  const [third, fourth] = await Promise.all(later);
  assert.equal(third, fourth);
  assert.deepEqual(idsOf(third!), [...ids, 50_000n]);
  assert.equal(begun, 2);
});

test('a list that fails is no hindrance to the next one', async () => {
  let isBroken = true;
  const core = new Mvcc();
  core.leaseGrant(3n, 60, 0);
  const store: LeaseListOptions['store'] = {
    async perform(task) {
      if (isBroken) throw new Error('no disk');
      return task(core, 0);
    },
  };
  const list = new LeaseList({ store, clock: realEnv.clock, header: () => ({}) });
  await assert.rejects(list.encoded(codec), /no disk/);
  isBroken = false;
  assert.deepEqual(idsOf(await list.encoded(codec)), [3n]);
});

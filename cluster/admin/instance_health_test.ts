import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { NodeHealth } from '../node/service.ts';
import type { Instance } from '../placement/placement.ts';
import { askHealths, healthReport } from './instance_health.ts';

const { signal } = new AbortController();
const instances = Array.from({ length: 100 }, (_, at) => ({ id: `n${at}` }) as Instance);

test('so many instances are asked at a time, and none that fails hides the others', async () => {
  let asked = 0;
  let askedMost = 0;
  const nodeOf = ({ id }: Instance) => ({
    health: async () => {
      askedMost = Math.max(askedMost, ++asked);
      await new Promise((resolve) => setImmediate(resolve));
      asked--;
      if (id === 'n3') throw new TsdbError('UNAVAILABLE', 'connection refused');
      return { instanceId: id === 'n4' ? 'n5' : id, blocksLacking: 2, shardsLacking: [7] };
    },
  });
  const target = { clock: realEnv.clock, nodeOf: nodeOf as never };
  const healths = await askHealths(target, instances, signal);
  assert.equal(askedMost, 32);
  assert.deepEqual(
    [...healths.keys()],
    instances.map(({ id }) => id),
  );
  assert.equal((healths.get('n99') as NodeHealth).instanceId, 'n99');
  const { instances: said } = await healthReport(target, instances, signal);
  assert.deepEqual(said['n3'], { error: 'connection refused' });
  assert.deepEqual(said['n4'], { error: 'instance n5 answers at its endpoint' });
  const { blocksLacking, shardsLacking } = said['n6'] as NodeHealth;
  assert.deepEqual([blocksLacking, shardsLacking], [2, [7]]);
});

test('nobody is asked where the nodes cannot be', async () => {
  const healths = await askHealths({ clock: realEnv.clock, nodeOf: null }, instances, signal);
  assert.match((healths.get('n0') as { error: string }).error, /another environment/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { QueryStorage, SelectLimits } from '../../select/storage.ts';
import { noFeatures } from '../parse/features.ts';
import type { Fetch } from '../plan/plan.ts';
import { Pacer } from './pacer.ts';
import { Reads, selectsAtOnceMax } from './reads.ts';

const fetch = { matchers: [], windows: null, restriction: null, isThroughout: false };

/** How many selectors were under way when each of them began. @param bytesOf what a selector brings, by its place */
async function widths(count: number, bytesOf: (place: number) => number): Promise<number[]> {
  const begun: number[] = [];
  let underWay = 0;
  const storage = {
    async select(_: unknown, place: number) {
      begun.push(++underWay);
      for (let i = 0; i < 80; i++) await turn();
      underWay -= 1;
      const bundle = { ...emptyBundle, chunkData: new Uint8Array(bytesOf(place)) };
      return { bundle, exhaustive: true, warnings: [`${place}`] };
    },
  } as unknown as QueryStorage;
  const work = Turns.of(realEnv.clock).begin(new AbortController().signal);
  const pacer = new Pacer(work, 1_000, unlimitedReadBytes);
  const reads = new Reads(storage, {} as SelectLimits, pacer, noFeatures);
  const fetches = Array.from({ length: count }, (_, place) => {
    return { ...fetch, range: place } as unknown as Fetch;
  });
  const all = await reads.read(fetches);
  assert.deepEqual(
    all.map((each) => each.fetch),
    fetches,
  );
  assert.deepEqual(
    reads.warnings,
    fetches.map((_, place) => `${place}`),
  );
  return begun;
}

test('as many selectors are read at a time as bring little, four before anything is known', async () => {
  assert.deepEqual(await widths(3, () => 0), [1, 2, 3]);
  const small = await widths(200, () => 100);
  assert.deepEqual(small.slice(0, 4), [1, 2, 3, 4]);
  assert.equal(Math.max(...small), selectsAtOnceMax);
  const large = await widths(20, () => 5 << 20);
  assert.deepEqual(large.slice(0, 4), [1, 2, 3, 4]);
  assert.ok(
    large.slice(4).every((width) => width === 1),
    large.join(' '),
  );
});

test('the first selector that cannot be read ends the read, and no other is begun', async () => {
  let begun = 0;
  const failing = new Error('no replica');
  const storage = {
    select: () => (++begun === 2 ? Promise.reject(failing) : new Promise(() => {})),
  } as unknown as QueryStorage;
  const work = Turns.of(realEnv.clock).begin(new AbortController().signal);
  const pacer = new Pacer(work, 1_000, unlimitedReadBytes);
  const reads = new Reads(storage, {} as SelectLimits, pacer, noFeatures);
  const fetches = Array.from({ length: 50 }, () => ({ ...fetch, range: 0 }) as unknown as Fetch);
  await assert.rejects(reads.read(fetches), failing);
  for (let i = 0; i < 20; i++) await turn();
  assert.ok(begun <= 4, `${begun}`);
});

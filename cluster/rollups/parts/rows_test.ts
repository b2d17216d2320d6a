import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { advanceStaging } from '../../namespaces/changes.ts';
import { registryOf } from '../../namespaces/namespaces.ts';
import { namespaceOfAddRequest } from '../../namespaces/request.ts';
import type { FetchOptions } from '../../session/types.ts';
import { RollupRows, type RowsParts } from './rows.ts';

const numShards = 64;
const all = { kind: 'all' } as const;
const never = new AbortController().signal;

/** Answers as long as it is told to; tells which shards were read. */
class Shards {
  /** Of a read, that may be answered. */
  shardsMax = numShards;
  readonly read: (readonly number[])[] = [];
  failures = 0;

  async fetch({ shardsOf }: FetchOptions): Promise<{ bundle: SeriesBundle }> {
    const shards = [...shardsOf!(numShards)];
    if (shards.length > this.shardsMax) {
      this.failures += 1;
      throw new TsdbError('RESOURCE_EXHAUSTED', 'too much');
    }
    this.read.push(shards);
    return { bundle: emptyBundle };
  }
}

function rowsOf(session: Shards): RollupRows {
  const samples = namespaceOfAddRequest({
    name: 'samples',
    options: {
      flushEnabled: true,
      retentionOptions: { retentionPeriodDuration: '48h', blockSizeDuration: '2h' },
    },
  });
  const namespaces = advanceStaging(registryOf([samples]), 'samples', 'READY', 1n);
  const view = { namespaces, placement: { numShards } };
  const parts = { session, topology: { view }, clock: realEnv.clock };
  return new RollupRows(parts as unknown as RowsParts);
}

const range = { startNanos: realEnv.clock.nowNanos() - 60_000_000_000n, endNanos: 2n ** 62n };

test('what is too much is read in smaller parts, down to a shard, and in larger ones again later', async () => {
  const session = new Shards();
  const rows = rowsOf(session);
  const readAll = async (shards: ReadonlySet<number> | null = null): Promise<number> => {
    session.read.length = session.failures = 0;
    await rows.each(all, range, () => {}, never, shards);
    const read = session.read.flat().sort((a, b) => a - b);
    assert.deepEqual(read, shards === null ? Array.from({ length: 64 }, (_, i) => i) : [...shards]);
    return session.read.length;
  };
  assert.equal(await readAll(), 4);
  session.shardsMax = 8;
  assert.equal(await readAll(), 8);
  assert.equal(session.failures, 1);
  // Whoever refuses all, as a node that has too much to do, has no parts made that nothing is in.
  session.shardsMax = 0;
  await assert.rejects(
    rows.each(all, range, () => {}, never),
    /too much/,
  );
  assert.ok(session.failures <= 9, `${session.failures} failures`);
  session.shardsMax = numShards;
  const counts: number[] = [];
  for (let i = 0; i < 6; i++) counts.push(await readAll());
  assert.deepEqual(counts, [64, 32, 16, 8, 4, 4]);
  await readAll(new Set([3, 9]));
});

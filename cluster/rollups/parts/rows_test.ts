import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { advanceStaging } from '../../namespaces/changes.ts';
import { droppedNamespace } from '../../namespaces/companions.ts';
import { type Namespace, type NamespaceRegistry, registryOf } from '../../namespaces/namespaces.ts';
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

const readyOf = (name: string, retentionPeriodDuration: string): Namespace => {
  const namespace = namespaceOfAddRequest({
    name,
    options: {
      flushEnabled: true,
      retentionOptions: { retentionPeriodDuration, blockSizeDuration: '2h' },
    },
  });
  return advanceStaging(registryOf([namespace]), name, 'READY', 1n).get(name)!;
};

const nowNanos = realEnv.clock.nowNanos();

function rowsOf(
  session: object,
  namespaces: NamespaceRegistry = registryOf([readyOf('samples', '48h')]),
): RollupRows {
  const view = { namespaces, placement: { numShards } };
  const time = { earliestNanos: () => nowNanos };
  const parts = { session, topology: { view }, clock: realEnv.clock, time };
  return new RollupRows(parts as unknown as RowsParts);
}

const range = { startNanos: nowNanos - 60_000_000_000n, endNanos: 2n ** 62n };

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

test('rows are kept for as long as one namespace of samples has all, and dropped ones are', async () => {
  const hour = 3_600_000_000_000n;
  const short = readyOf('short', '12h');
  const long = readyOf('long', '720h');
  const both = registryOf([short, long]);
  assert.equal(rowsOf({}, both).keptFromNanos, nowNanos - 720n * hour);
  const dropped = { ...readyOf('dropped', '72h'), name: droppedNamespace };
  const all = registryOf([short, long, dropped]);
  assert.equal(rowsOf({}, all).keptFromNanos, nowNanos - 72n * hour);
  assert.equal(rowsOf({}, registryOf([dropped])).keptFromNanos, null);
  // Before it had all, somebody else may have had more.
  const since = { completeSinceNanos: nowNanos - 100n * hour };
  const some = registryOf([short, { ...long, ...since, goneBeforeNanos: nowNanos - 90n * hour }]);
  assert.equal(rowsOf({}, some).keptFromNanos, nowNanos - 90n * hour);

  const asked: string[] = [];
  const session = {
    fetch: async ({ namespace, startNanos, shardsOf }: FetchOptions) => {
      if (shardsOf!(numShards).includes(0)) {
        asked.push(`${namespace} ${(nowNanos - startNanos) / hour}`);
      }
      return { bundle: emptyBundle };
    },
  };
  // Of a day that ended a while ago, and what is looked back at.
  const day = { startNanos: nowNanos - 76n * hour, endNanos: nowNanos - 26n * hour };
  await rowsOf(session, both).each({ kind: 'all' }, day, () => {}, never);
  assert.deepEqual(asked, ['long 76']);
  asked.length = 0;
  await rowsOf(session, all).each({ kind: 'all' }, day, () => {}, never);
  assert.deepEqual(asked, ['long 72', `${droppedNamespace} 72`]);
});

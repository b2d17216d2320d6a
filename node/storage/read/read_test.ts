import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import {
  closeDatabases,
  never,
  openDatabase,
  samplesOfBundle,
  truncateByLog,
  writeRows,
} from '../database_testing.ts';
import { type AnswerMemory, bundleOf, fetchBytesMax } from './read.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-read-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

test('room for an answer is never foreseen beyond what an answer may have', async () => {
  const { database } = await openDatabase(folder);
  const endNanos = realEnv.clock.nowNanos();
  const long = Array.from({ length: 2000 }, (_, i) => ({
    series: { __name__: 'long' },
    nanos: endNanos - BigInt(i) * 1_000_000_000n,
    value: Math.sin(i),
  }));
  const { references } = await writeRows(database, [
    ...long,
    { series: { __name__: 'short' }, nanos: endNanos, value: 1 },
  ]);
  const namespace = database.namespaces.get('metrics')!;
  const [slotOfLong, slotOfShort] = [references[0]!, references.at(-2)!];
  const range = { startNanos: 0n, endNanos: endNanos + 1n };
  const parts = { store: database.store, cache: database.fileCache, queries: database.queries };
  const unlimited: AnswerMemory = {
    bytes: Infinity,
    bytesMax: Infinity,
    growTo: async () => {},
    shrinkTo: () => {},
  };
  const read = (slots: Uint32Array) =>
    bundleOf(parts, namespace, slots, range, unlimited, Turns.of(realEnv.clock).begin(never));
  const bytesOfLong = (await read(Uint32Array.of(slotOfLong))).chunkData.length;
  // The first piece is of long series, from which it would be concluded that all are so long.
  const firstPiece = 4096;
  const slots = new Uint32Array(Math.ceil((1.5 * fetchBytesMax) / bytesOfLong));
  slots.fill(slotOfShort);
  slots.fill(slotOfLong, 0, firstPiece);
  const { chunkData } = await read(slots);
  assert.ok(chunkData.length > firstPiece * bytesOfLong);
  assert.ok(chunkData.buffer.byteLength <= fetchBytesMax, `${chunkData.buffer.byteLength} bytes`);
});

/** Gives way after each slice, and then does something in the first of the pauses. */
function pausing(meanwhile: () => Promise<unknown>): Work {
  let pauses = 0;
  return Object.assign(Turns.of(realEnv.clock).begin(never), {
    spend: () => true,
    pause: async () => {
      if (++pauses === 1) await meanwhile();
    },
  });
}

test('what is flushed or truncated while a read gives way is neither lost nor half of it', async () => {
  const seriesCount = 5000;
  const { database } = await openDatabase(join(folder, 'pauses'));
  const endNanos = realEnv.clock.nowNanos();
  const { references } = await writeRows(
    database,
    Array.from({ length: seriesCount }, (_, i) => ({
      series: { __name__: 'up', instance: `${i}` },
      nanos: endNanos,
      value: i,
    })),
  );
  const slots = references.filter((_, at) => at % 2 === 0).sort();
  const namespace = database.namespaces.get('metrics')!;
  const range = { startNanos: 0n, endNanos: endNanos + 1n };
  const parts = { store: database.store, cache: database.fileCache, queries: database.queries };
  using reservation = await database.readMemory.enter(0, never);
  const read = (meanwhile: () => Promise<unknown>) =>
    bundleOf(parts, namespace, slots, range, reservation, pausing(meanwhile));
  const whole = samplesOfBundle(await read(() => database.flush(null, never)));
  assert.equal(whole.size, seriesCount);
  for (const samples of whole.values()) assert.equal(samples.length, 1);
  assert.equal(database.store.sampleCount, 0, 'the rows are in filesets now');
  const none = await read(() => truncateByLog(database, 'metrics'));
  assert.equal(none.seriesCount, 0, 'all or nothing');
});

test('answers that wait to be sent count against the memory of reads', async () => {
  const { database } = await openDatabase(join(folder, 'memory'), {
    memoryBytesMax: 64 * 1024 * 1024,
  });
  const endNanos = realEnv.clock.nowNanos();
  await writeRows(
    database,
    Array.from({ length: 1500 }, (_, i) => ({
      series: { __name__: 'up', text: `${i}`.padStart(4000, 'x') },
      nanos: endNanos,
      value: i,
    })),
  );
  const { readMemory } = database;
  assert.equal(readMemory.bytesMax, 16 * 1024 * 1024);
  const sending = Promise.withResolvers<void>();
  const read = (sent?: Promise<void>, signal = never) => {
    const head = { namespace: 'metrics', placementVersion: 0, shards: null, seriesLimit: 0 };
    const range = { startNanos: 0n, endNanos: endNanos + 1n };
    const request = { ...head, ...range, query: { kind: 'all' }, fetchData: true } as const;
    return database.fetch(request, signal, sent === undefined ? {} : { sent });
  };
  assert.equal((await read()).bundle.seriesCount, 1500);
  assert.equal(readMemory.bytes, 0, 'nobody sends it on');
  // Six megabytes each.
  for (let i = 0; i < 2; i += 1) await read(sending.promise);
  assert.ok(readMemory.bytes > 12_000_000 && readMemory.bytes < 13_000_000);
  const left = new AbortController();
  const third = read(undefined, left.signal);
  const fourth = read();
  for (let i = 0; i < 20; i += 1) await realEnv.clock.sleep(1, never);
  assert.equal(readMemory.waiting, 2);
  left.abort(new Error('the client left'));
  await assert.rejects(third, /the client left/);
  sending.resolve();
  assert.equal((await fourth).bundle.seriesCount, 1500);
  assert.equal(readMemory.bytes, 0);
});

test('a shard that is lost and ready again while an answer is read is not whole in it', async () => {
  let whileOpening = (): void => {};
  const open: typeof realEnv.disk.open = (path, mode) => {
    whileOpening();
    return realEnv.disk.open(path, mode);
  };
  const env = { ...realEnv, disk: { ...realEnv.disk, open } };
  const { database } = await openDatabase(join(folder, 'lost'), { env });
  const endNanos = realEnv.clock.nowNanos();
  await writeRows(database, [{ series: { __name__: 'up' }, nanos: endNanos, value: 1 }]);
  await database.flush(null, never);
  const { readyShards } = database.namespaces.get('metrics')!;
  const shardsOfAnswer = async () => {
    const { shards } = await database.fetch(
      {
        namespace: 'metrics',
        placementVersion: 0,
        query: { kind: 'all' },
        shards: null,
        seriesLimit: 0,
        fetchData: true,
        startNanos: 0n,
        endNanos: endNanos + 1n,
      },
      never,
    );
    return [...shards];
  };
  const [lost, ...others] = [...readyShards];
  let openings = 0;
  whileOpening = () => {
    openings += 1;
    readyShards.delete(lost!);
    readyShards.add(lost!);
  };
  assert.deepEqual(await shardsOfAnswer(), others);
  assert.ok(openings > 0);
  whileOpening = () => {};
  assert.deepEqual(await shardsOfAnswer(), [lost, ...others]);
});

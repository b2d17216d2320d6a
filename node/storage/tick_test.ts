import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rowOutcome } from '#cluster/node_service.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { listFilesets, shardFolder } from '../persist/fileset_format.ts';
import { closeDatabases, never, openDatabase, readAll, writeRows } from './database_testing.ts';
import { tick } from './tick.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-tick-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const hourNanos = 3_600_000_000_000n;

/** A clock that can be put forward. */
function movedEnv(): { env: Env; moved: { nanos: bigint } } {
  const moved = { nanos: 0n };
  const clock = {
    ...realEnv.clock,
    nowNanos: () => realEnv.clock.nowNanos() + moved.nanos,
    nowMillis: () => realEnv.clock.nowMillis() + Number(moved.nanos / 1_000_000n),
  };
  return { env: { ...realEnv, clock }, moved };
}

test('a tick forgets series, segments and filesets that are past retention, and no others', async () => {
  const { env, moved } = movedEnv();
  const { database } = await openDatabase(folder, { env, segmentBytesMax: 100 });
  const old = { __name__: 'old' };
  const kept = { __name__: 'kept' };
  await writeRows(database, [{ series: old, nanos: env.clock.nowNanos(), value: 1 }]);
  await database.flusher.flushAll(null, never);
  const filesets = async () => {
    const found = [];
    for (let shard = 0; shard < 4; shard += 1) {
      found.push(...(await listFilesets(env.disk, shardFolder(folder, 'metrics', shard))));
    }
    return found;
  };
  assert.equal((await filesets()).length, 1);
  moved.nanos = 47n * hourNanos;
  await writeRows(database, [{ series: kept, nanos: env.clock.nowNanos(), value: 2 }]);
  await writeRows(database, [{ series: kept, nanos: env.clock.nowNanos() + 1n, value: 3 }]);
  assert.deepEqual(await tick(database), {
    seriesExpired: 0,
    segmentsDeleted: 0,
    filesetsDeleted: 0,
  });
  assert.equal((await readAll(database)).size, 2);
  moved.nanos = 53n * hourNanos;
  const reports = [await tick(database), await tick(database)];
  const sum = (of: (report: (typeof reports)[number]) => number) =>
    reports.reduce((total, report) => total + of(report), 0);
  assert.equal(
    sum(({ seriesExpired }) => seriesExpired),
    1,
  );
  assert.equal(
    sum(({ segmentsDeleted }) => segmentsDeleted),
    1,
  );
  assert.equal(
    sum(({ filesetsDeleted }) => filesetsDeleted),
    1,
  );
  assert.deepEqual(await filesets(), []);
  assert.deepEqual([...(await readAll(database)).keys()], ['__name__=kept']);
});

test('rows that come while their series expire are kept, and old references are refused', async () => {
  const { env, moved } = movedEnv();
  const data = join(folder, 'expiry');
  const { database } = await openDatabase(data, { env });
  const seriesCount = 10_000;
  const nameOf = (i: number) => ({ __name__: 'm', i: `${i}` });
  const first = env.clock.nowNanos();
  const { references } = await writeRows(
    database,
    Array.from({ length: seriesCount }, (_, i) => ({ series: nameOf(i), nanos: first, value: 1 })),
  );
  await database.flusher.flushAll(null, never);
  await tick(database);
  moved.nanos = 53n * hourNanos;
  const expiring = tick(database);
  const isOver = expiring.then(() => true);
  const expected = new Map<string, number>();
  for (let turn = 0; turn < 1000; turn += 1) {
    // From the last ones to the first ones, by reference or by name: before and after their turn.
    const i = seriesCount - 1 - ((turn * 37) % seriesCount);
    const [slot, generation] = [references[2 * i]!, references[2 * i + 1]!];
    const series = turn % 2 === 0 ? { slot, generation } : nameOf(i);
    const row = { series, nanos: env.clock.nowNanos(), value: turn };
    const { outcomes } = await writeRows(database, [row]);
    if (outcomes.length === 0) expected.set(`__name__=m,i=${i}`, turn);
    else assert.deepEqual([...outcomes], [rowOutcome.unknownReference]);
    if (await Promise.race([isOver, Promise.resolve(false)])) break;
  }
  const { seriesExpired } = await expiring;
  const found = await readAll(database);
  assert.deepEqual([...found.keys()].sort(), [...expected.keys()].sort());
  for (const [name, value] of expected) assert.equal(found.get(name)!.at(-1)![1], value);
  assert.ok(seriesExpired > 0 && seriesExpired <= seriesCount);
  const [namespace] = database.namespaces.values();
  assert.equal(namespace!.leaving.count, 0);
  assert.equal(database.store.seriesCount, namespace!.index.seriesCount);
});

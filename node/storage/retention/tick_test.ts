import { inOneGo } from '#lib/turns/steps.ts';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { listFilesets, shardFolder } from '../../persist/fileset/format.ts';
import {
  closeDatabases,
  handoverSteps,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  writeRows,
} from '../database_testing.ts';
import { removeEmptySeries } from './series_removal.ts';
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

test('series of a shard that leaves between two steps of their removal are passed over', async () => {
  const { env, moved } = movedEnv();
  const registry = registryOf([namespaceOf('metrics'), namespaceOf('other')]);
  const { database } = await openDatabase(join(folder, 'leaving-shard'), { env, registry });
  const seriesCount = 10_000;
  const rowsOf = (name: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({
      series: { __name__: name, i: `${i}` },
      nanos: env.clock.nowNanos(),
      value: 1,
    }));
  await writeRows(database, rowsOf('old', seriesCount));
  moved.nanos = 53n * hourNanos;
  const metrics = database.namespaces.get('metrics')!;
  // Once for their rows, and again for the series without any.
  for (const _ of metrics.expireInSteps(env.clock.nowNanos())) continue;
  const { empty } = inOneGo(metrics.expireInSteps(env.clock.nowNanos()));
  assert.equal(empty.length, seriesCount);
  // Steps have their turn one after the other: the change of the placement comes after the first
  // of the removal.
  const [moving, taken, left] = handoverSteps(database, [1, 2, 3]);
  await database.applyTopology(moving!, 2, registry);
  await database.applyTopology(taken!, 3, registry);
  const removal = removeEmptySeries(database, metrics, empty);
  await database.applyTopology(left!, 4, registry);
  // Slots that are free now are taken at once, by series of both namespaces.
  await writeRows(database, rowsOf('new', 3000));
  await writeRows(database, rowsOf('new', 3000), { namespace: 'other' });
  const removed = await removal;
  assert.ok(removed > 0 && removed < seriesCount, `${removed} of ${seriesCount} were left`);
  assert.equal(metrics.leaving.count, 0);
  const namespaces = [...database.namespaces.values()];
  const inIndex = namespaces.reduce((sum, of) => sum + of.index.seriesCount, 0);
  assert.equal(database.store.seriesCount, inIndex);
  for (const { name, index: now } of namespaces) {
    const found = await readAll(database, name);
    assert.ok(found.size > 0 && found.size === now.seriesCount);
    for (const series of found.keys()) assert.match(series, /^__name__=new,/);
  }
});

test('what truncated a namespace stays in the log as long as rows that it truncated', async () => {
  const data = join(folder, 'dropped');
  const other = registryOf([namespaceOf('other')]);
  const both = registryOf([namespaceOf('metrics'), namespaceOf('other')]);
  const row = () => ({ series: { __name__: 'm' }, nanos: realEnv.clock.nowNanos(), value: 1 });
  // Each process writes to a segment of its own.
  const { database: first } = await openDatabase(data, { registry: both });
  await writeRows(first, [row()]);
  await writeRows(first, [row()], { namespace: 'other' });
  await closeDatabases();
  const { database: second } = await openDatabase(data, { registry: both });
  assert.equal((await readAll(second)).size, 1);
  await second.applyTopology(second.shards.placement, 2, other, new Map([['metrics', 1]]));
  await closeDatabases();
  const { database: third } = await openDatabase(data, { registry: other });
  await writeRows(third, [row()], { namespace: 'other' });
  assert.equal(third.commitlog.segments().length, 3);
  assert.equal((await tick(third)).segmentsDeleted, 0);
  await closeDatabases();
  const { database: fourth } = await openDatabase(data, { registry: both });
  assert.equal((await readAll(fourth)).size, 0);
  assert.equal((await readAll(fourth, 'other')).size, 1);
});

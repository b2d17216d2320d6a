import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import type { Database } from '../database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  type TestRow,
  truncateByLog,
  writeRows,
} from '../database_testing.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Pace } from './pace.ts';
import { paceThat } from './pace_testing.ts';
import { seriesWithRows, sumsOfBlocks } from './store_walks.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const hourNanos = 3_600_000_000_000n;
const now = realEnv.clock.nowNanos();
const metricsEnded = new Map([['metrics', 1]]);

/** A row of each of so many series. */
function rowsOf(seriesCount: number, nanos: bigint): TestRow[] {
  return Array.from({ length: seriesCount }, (_, s) => ({
    series: { __name__: 'cpu', host: `h${s}` },
    nanos,
    value: s,
  }));
}

async function open(): Promise<{ database: Database; metrics: NamespaceState }> {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-walks-'));
  folders.push(folder);
  const { database } = await openDatabase(folder, {
    registry: registryOf([
      namespaceOf('metrics', { coldWritesEnabled: true }),
      namespaceOf('other', { coldWritesEnabled: true }),
    ]),
    slotsOfStretch: 2,
  });
  return { database, metrics: database.namespaces.get('metrics')! };
}

async function drop(database: Database): Promise<void> {
  const registry = registryOf([namespaceOf('other', { coldWritesEnabled: true })]);
  await database.applyTopology(onePlacement, 2, registry, metricsEnded);
}

async function slotsFound(
  database: Database,
  namespace: NamespaceState,
  pace: Pace,
  blockStartNanos: bigint | null = null,
): Promise<number[]> {
  const { store } = database;
  const all: number[] = [];
  const found = seriesWithRows(database, namespace, blockStartNanos, pace, never);
  for await (const { slots, generations } of found) {
    assert.ok(slots.length <= 2);
    slots.forEach((slot, i) => assert.equal(generations[i], store.generation[slot]));
    all.push(...slots);
  }
  return all;
}

test('a walk finds series of one block or any, and what had rows before it is found whatever comes meanwhile', async () => {
  const { database, metrics } = await open();
  const old = now - 5n * hourNanos;
  await writeRows(database, [...rowsOf(10, now), ...rowsOf(4, old)]);
  const quiet = paceThat(() => {});
  const all = Array.from({ length: 10 }, (_, slot) => slot);
  assert.deepEqual(await slotsFound(database, metrics, quiet), all);
  const oldBlock = metrics.blockStartOf(old);
  assert.deepEqual(await slotsFound(database, metrics, quiet, oldBlock), [0, 1, 2, 3]);
  const busy = paceThat(async (rest) => {
    if (rest < 3) await writeRows(database, rowsOf(15 + 5 * rest, now));
  });
  const found = await slotsFound(database, metrics, busy);
  assert.deepEqual(found.slice(0, 10), all);
  assert.equal(new Set(found).size, found.length);
});

test('a walk goes as far as the namespace is there', async () => {
  for (const [why, isOfSums] of [
    ['truncated', true],
    ['truncated', false],
    ['dropped', true],
    ['dropped', false],
  ] as const) {
    const { database, metrics } = await open();
    await writeRows(database, rowsOf(10, now));
    const sums = await sumsOfBlocks(
      database,
      metrics,
      paceThat(() => {}),
      never,
    );
    assert.deepEqual(
      sums!.map(({ blockStartNanos, rowCount, seriesCount }) => [
        blockStartNanos,
        rowCount,
        seriesCount,
      ]),
      [[metrics.blockStartOf(now), 10, 10]],
    );
    const pace = paceThat(async (rest) => {
      if (rest !== 1) return;
      if (why === 'truncated') await truncateByLog(database, 'metrics');
      else await drop(database);
    });
    if (isOfSums) assert.equal(await sumsOfBlocks(database, metrics, pace, never), null);
    else assert.deepEqual(await slotsFound(database, metrics, pace), [0, 1, 2, 3]);
  }
});

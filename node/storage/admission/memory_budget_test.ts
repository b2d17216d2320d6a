import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { realEnv } from '#lib/env/real.ts';
import {
  closeDatabases,
  dueNow,
  never,
  openDatabase,
  readAll,
  writeRows,
} from '../database_testing.ts';
import { MemoryBudget } from './memory_budget.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-memory-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

test('over the budget new series are refused, known ones are written, and flushes make room', async () => {
  const { database } = await openDatabase(folder, { memoryBytesMax: 16 * 1024 * 1024 });
  const nanos = realEnv.clock.nowNanos();
  let refused = 0;
  let next = 0;
  while (refused === 0) {
    const rows = Array.from({ length: 500 }, (_, i) => ({
      series: { __name__: 'cpu', host: `h${next + i}`, text: 'x'.repeat(60) },
      nanos: nanos + BigInt(i % 20),
      value: i,
    }));
    next += 500;
    const { outcomes } = await writeRows(database, rows);
    refused = outcomes.filter((outcome) => outcome === rowOutcome.resourceExhausted).length;
    assert.equal(outcomes.filter((outcome) => outcome !== 0).length, refused);
  }
  const known = { __name__: 'cpu', host: 'h3', text: 'x'.repeat(60) };
  const { outcomes } = await writeRows(database, [{ series: known, nanos: nanos + 99n, value: 7 }]);
  assert.equal(outcomes.length, 0, 'rows of known series are taken');
  const due = await dueNow(database);
  assert.equal(database.memory.isShort, true);
  assert.ok(due.length > 0);
  assert.ok(due.every(({ why }) => why === 'memory is short'));
  const before = await readAll(database);
  await database.flusher.runDue(never);
  assert.equal(database.store.sampleCount, 0);
  assert.deepEqual(await readAll(database), before);
});

test('the parts of the budget are measured together', () => {
  const use = { storeBytes: 30, indexBytes: 30, cacheBytes: 5, readBytes: 0 };
  const budget = new MemoryBudget(100, () => use);
  budget.noteFlushable(20);
  assert.deepEqual(
    [budget.isShort, budget.isStillShort, budget.admitsSeries()],
    [false, true, true],
  );
  use.indexBytes = 60;
  const later = new MemoryBudget(100, () => use);
  assert.equal(later.isShort, true, 'all that the store has, as long as nobody has looked');
  later.noteFlushable(3);
  assert.equal(later.isShort, false, 'a flush would win little');
  later.noteFlushable(10);
  assert.deepEqual([later.isShort, later.isStillShort, later.admitsSeries()], [true, true, false]);
  use.indexBytes = 50;
  assert.equal(later.isShort, false, 'it would win little while new series are admitted');
  use.storeBytes = 33;
  assert.equal(later.isShort, true, 'rows that came since count');
  use.storeBytes = 20;
  use.indexBytes = 60;
  assert.equal(later.isShort, false, 'rows that went since count');
  use.cacheBytes = 50;
  later.noteFlushable(20);
  use.indexBytes = 30;
  assert.equal(later.isShort, false, 'caches give back what is asked of them');
  use.cacheBytes = 5;
  assert.equal(later.admitsSeries(), true, 'what was freed counts at once');
});

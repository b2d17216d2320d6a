/** A memory without room for one more series, for tests of starts and bootstraps. */
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Database } from '../storage/database.ts';
import { writeRows } from '../storage/database_testing.ts';

/** The least that a store has. */
export const smallMemoryBytes: number = 8 << 20;

const seriesCount = 1000;
const rowsEach = 120;

/**
 * Fills a small memory: most of it with rows of a namespace, which a flush frees, the rest with
 * slots.
 */
export async function fillMemory(database: Database, namespace: string): Promise<void> {
  const { store, namespaces } = database;
  const nanos = realEnv.clock.nowNanos();
  for (let row = 0; row < rowsEach; row += 1) {
    const rows = Array.from({ length: seriesCount }, (_, i) => ({
      series: { __name__: 'filling', host: `h${i}` },
      nanos: nanos + BigInt(row),
      value: realEnv.random.fraction(),
    }));
    await writeRows(database, rows, { namespace });
  }
  try {
    for (;;) store.createSeries(namespaces.get(namespace)!.ordinal);
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
  }
}

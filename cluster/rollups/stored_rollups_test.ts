import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Log, silentLog } from '#lib/log.ts';
import type { Session } from '../session/session.ts';
import { writeOutcome } from '../session/outcomes/write_result.ts';
import { StoredRollups } from './stored_rollups.ts';

const never = new AbortController().signal;

test('series that can be none are left out, and told once; what passes fails all', async () => {
  const warnings: unknown[] = [];
  const log: Log = { ...silentLog, warn: (fields) => warnings.push(fields) };
  let outcomes: Uint8Array = Uint8Array.of(writeOutcome.written, writeOutcome.badSeries);
  const session = { write: async () => ({ outcomes }) } as unknown as Session;
  const stored = new StoredRollups(session, 'minutes', 'quoted', log);
  const rows = ['a', 'b'].map((value) => ({
    tags: [{ name: 'app', value }],
    seriesHash: 0,
    nanos: 60n,
    value: 1,
  }));
  await stored.write(rows, never);
  outcomes = Uint8Array.of(writeOutcome.otherTags, writeOutcome.written);
  await stored.write(rows, never);
  assert.deepEqual(warnings, [
    {
      namespace: 'minutes',
      series: '[{"name":"app","value":"b"}]',
      reason: 'series is malformed',
    },
  ]);
  outcomes = Uint8Array.of(writeOutcome.badSeries, writeOutcome.resourceExhausted);
  await assert.rejects(stored.write(rows, never), { code: 'UNAVAILABLE' });
  outcomes = Uint8Array.of(writeOutcome.tooFarFuture, writeOutcome.written);
  await assert.rejects(stored.write(rows, never), { code: 'FAILED_PRECONDITION' });
});

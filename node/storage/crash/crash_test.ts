import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { killAgainAndAgain } from './kills_testing.ts';
import { closeDatabases } from '../database_testing.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-crash-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

test('kill -9 in the middle of writes, flushes and snapshots loses nothing that was acknowledged', async () => {
  await killAgainAndAgain(folder, [30, 200, 90], () => {});
});

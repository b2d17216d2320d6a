import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { ConfigError } from '#lib/config/config.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { claimDataFolder } from './data_folder.ts';

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder with a file of so many bytes. */
function folderWith(name: string, bytes: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-claim-'));
  folders.push(folder);
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, Buffer.alloc(bytes, 1));
  return folder;
}

const { signal } = new AbortController();
const checkpoint = 'data/default/7/fileset-1600000000000000000-0-checkpoint.db';

test('a folder of M3 is refused, and everything in it stays: its files have the names of ours', async () => {
  for (const name of [
    'commitlogs/commitlog-0-12.db',
    checkpoint,
    checkpoint.replace('data', 'snapshots'),
  ]) {
    const folder = folderWith(name, 4);
    await assert.rejects(
      claimDataFolder(realEnv.disk, folder, silentLog, signal),
      (error: ConfigError) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.problems[0]!, /has data of M3/);
        assert.ok(error.problems[0]!.includes(join(folder, name)));
        return true;
      },
    );
    assert.ok(existsSync(join(folder, name)));
    assert.ok(!existsSync(join(folder, 'tsdb.pid')));
  }
});

test('a folder of this database is taken, with an identity and without', async () => {
  for (const folder of [
    folderWith('commitlogs/commitlog-12.db', 100),
    folderWith(checkpoint, 20),
    folderWith('lost+found/x', 0),
  ]) {
    await using claim = await claimDataFolder(realEnv.disk, folder, silentLog, signal);
    assert.ok(claim);
    assert.ok(existsSync(join(folder, 'tsdb.pid')));
  }
});

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { test } from 'node:test';

/** A device that has no room. */
const full = '/dev/full';

test('a disk without room for the log ends no process', { skip: !existsSync(full) }, () => {
  const program = `
    import { openLog } from ${JSON.stringify(new URL('log.ts', import.meta.url).href)};
    const log = openLog('info', 'json');
    for (let i = 0; i < 5_000; i += 1) log.info({ i, text: 'x'.repeat(1_000) }, 'a line');
    setTimeout(() => process.exit(7), 50);
  `;
  const output = openSync(full, 'w');
  try {
    const args = ['--input-type=module', '-e', program];
    const { status, stderr } = spawnSync(process.execPath, args, {
      stdio: ['ignore', output, 'pipe'],
      encoding: 'utf8',
    });
    assert.equal(status, 7, stderr);
  } finally {
    closeSync(output);
  }
});

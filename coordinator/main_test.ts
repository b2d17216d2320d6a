import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { test } from 'node:test';

/** Runs the coordinator with a configuration that cannot work, to its end. */
function outcome(text: string): { readonly code: number | null; readonly error: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-coordinator-'));
  try {
    const file = join(folder, 'tsdb.yml');
    writeFileSync(file, text);
    const main = join(import.meta.dirname, 'main.ts');
    const { status, stderr } = spawnSync(process.execPath, [main, '-f', file], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    return { code: status, error: stderr.replaceAll(file, 'tsdb.yml') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('a mistake in the configuration ends the coordinator with one line for each', () => {
  assert.deepEqual(outcome('listenAdress: ":1"\nlookbackDuration: 5\n'), {
    code: 1,
    error:
      'tsdb.yml:2: lookbackDuration: not a duration such as "48h", "30m" or "10s": 5\n' +
      'tsdb.yml:1: listenAdress: unknown key\n',
  });
});

test('an address that is taken ends the coordinator with one line', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  try {
    const { code, error } = outcome(
      `listenAddress: 127.0.0.1:${port}\nmetrics: {prometheus: {listenAddress: "127.0.0.1:0"}}\n`,
    );
    assert.equal(code, 1);
    assert.equal(
      error,
      `cannot start: cannot listen on 127.0.0.1:${port}: another program has this port (set by listenAddress of coordinator:)\n`,
    );
  } finally {
    taken.close();
  }
});

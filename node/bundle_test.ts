import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

test('the bundle of the node is the node: it finds its kernels and reads a configuration', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-node-bundle-'));
  try {
    const run = (...args: string[]) =>
      spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    const built = run(join(import.meta.dirname, 'bundle.mjs'), folder);
    assert.deepEqual([built.status, built.stderr], [0, '']);
    const file = join(folder, 'tsdb.yml');
    writeFileSync(file, 'db: {filesystem: {filePathPrefix: x}, nonsense: 1}\n');
    const { status, stderr } = run(join(folder, 'server.mjs'), '-f', file);
    assert.equal(status, 1);
    assert.match(stderr, /^\S*tsdb\.yml\S* .*nonsense/m);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

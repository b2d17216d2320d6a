import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-bundle-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const fixtures = join(import.meta.dirname, '../test/fixtures');

function run(script: string, ...args: string[]): { status: number | null; text: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    cwd: folder,
    encoding: 'utf8',
  });
  return { status, text: stdout + stderr };
}

test('the bundle of tsdbctl runs where nothing of ours is', () => {
  const bundle = join(folder, 'bundle');
  const built = run(join(import.meta.dirname, 'bundle.mjs'), bundle);
  assert.deepEqual(built, { status: 0, text: '' });
  const data = join(folder, 'data');
  for (const [name, path] of [
    ['commitlog_v1.bin', 'commitlogs/commitlog-7.db'],
    ['snapshot_v1.bin', 'snapshots/snapshot-8.db'],
  ] as const) {
    mkdirSync(join(data, path, '..'), { recursive: true });
    cpSync(join(fixtures, name), join(data, path));
  }
  const tsdbctl = join(bundle, 'tsdbctl.mjs');
  const verified = run(tsdbctl, 'data', 'verify', data);
  assert.equal(verified.status, 0, verified.text);
  assert.match(verified.text, /2 files, \d+ bytes: all checksums are right\n$/);
  const read = run(tsdbctl, 'data', 'read', data, '--match', 'plain', '--rows');
  assert.equal(read.status, 0, read.text);
  assert.match(read.text, /^default snapshots\/snapshot-8\.db plain: \d+ rows/m);
  assert.match(read.text, /^default commitlogs\/commitlog-7\.db plain: 1 row from 2023-11-14/m);
  assert.deepEqual(run(tsdbctl, 'data', 'verify', join(folder, 'nothing')), {
    status: 2,
    text: `there is no such folder: ${join(folder, 'nothing')}\n`,
  });
  const rules = join(folder, 'rules.yml');
  writeFileSync(rules, 'mappingRules: [{filter: "env:dev", drop: true}]\n');
  const explained = run(tsdbctl, 'aggregation-rules', 'explain', rules, 'up', 'env=dev');
  assert.match(explained.text, /^up\{env="dev"\}\n {2}its rows are not kept/);
  assert.match(run(tsdbctl).text, /^no command is given\n\ntsdbctl status/);
});

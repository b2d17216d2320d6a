/** What the commands of setup.mjs install, and what `npm test` does with its arguments. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const root = join(import.meta.dirname, '..');

/** Runs setup.mjs as npm does; not as a part of this run of tests. */
function setup(...args: string[]): { status: number | null; output: string } {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['setup.mjs', ...args], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

test('npm test -- FILE runs the tests of a file, a folder or a pattern, and no checks', () => {
  for (const named of ['lib/version_test.ts', 'lib/ver*_test.ts']) {
    const { status, output } = setup('test', named);
    assert.equal(status, 0, `${status} ${output}`);
    assert.match(output, /tests 1\b/);
    assert.doesNotMatch(output, /lint/);
  }
  const { status, output } = setup('test', '--test-name-pattern=glob', 'lib/regexp');
  assert.equal(status, 0, `${status} ${output}`);
  assert.match(output, /tests [1-9]/);
});

test('npm test -- FILE says which file is not there', () => {
  const { status, output } = setup('test', 'lib/nothing_test.ts');
  assert.equal(status, 2);
  assert.match(output, /no such file or folder of tests: lib\/nothing_test\.ts/);
});

const copies = mkdtempSync(join(tmpdir(), 'tsdb-setup-'));
after(() => rmSync(copies, { recursive: true }));

/** What npm is called with first for a command in a fresh clone; nothing is installed. */
function installOf(args: readonly string[], developersAreInstalled: boolean): string {
  const folder = mkdtempSync(join(copies, 'clone-'));
  const files = ['setup.mjs', 'package.json', 'package-lock.json'];
  for (const file of [...files, 'lib/process/server_process.mjs']) {
    cpSync(join(root, file), join(folder, file));
  }
  if (developersAreInstalled) {
    mkdirSync(join(folder, 'node_modules/typescript'), { recursive: true });
  }
  const npm = join(folder, 'npm');
  writeFileSync(npm, `#!/bin/sh\necho "$@" > ${folder}/called\nexit 1\n`);
  chmodSync(npm, 0o755);
  const { status } = spawnSync(process.execPath, [join(folder, 'setup.mjs'), ...args], {
    env: { ...process.env, PATH: folder },
  });
  assert.equal(status, 1);
  return readFileSync(join(folder, 'called'), 'utf8').trim();
}

test('a start installs what a user needs, a test also what developers need', () => {
  const everything = 'install --no-save --loglevel=error';
  const production = `${everything} --omit=dev`;
  assert.equal(installOf(['start'], false), production);
  assert.equal(installOf(['tsdbctl'], false), production);
  assert.equal(installOf(['--production'], false), production);
  assert.equal(installOf(['test'], false), everything);
  assert.equal(installOf([], false), everything);
  // What a developer has stays, but for who asks.
  assert.equal(installOf(['start'], true), everything);
  assert.equal(installOf(['--production'], true), production);
});

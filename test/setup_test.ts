/** What `npm test` and `npm run check` do with their arguments. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

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
    assert.equal(status, 0, output);
    assert.match(output, /tests 1\b/);
    assert.doesNotMatch(output, /lint/);
  }
  const { status, output } = setup('test', '--test-name-pattern=glob', 'lib/regexp');
  assert.equal(status, 0, output);
  assert.match(output, /tests [1-9]/);
});

test('npm test -- FILE says which file is not there', () => {
  const { status, output } = setup('test', 'lib/nothing_test.ts');
  assert.equal(status, 2);
  assert.match(output, /no such file or folder of tests: lib\/nothing_test\.ts/);
});

/** Every command says what it takes, which version it is, and what it does not know. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { version } from '#lib/version.ts';

const root = join(import.meta.dirname, '..');

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(...args: string[]): Promise<Ended> {
  const { promise, resolve } = Promise.withResolvers<Ended>();
  execFile(process.execPath, args, { cwd: root }, (error, stdout, stderr) =>
    resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
  );
  return promise;
}

for (const [product, file, code] of [
  ['tsdb-node', 'node/main.mjs', 1],
  ['tsdb-coordinator', 'coordinator/main.ts', 1],
  ['tsdb-operator', 'operator/main.ts', 2],
  ['tsdbctl', 'tsdbctl/main.ts', 2],
] as const) {
  test(`${product} --help, --version and an option that it does not know`, async () => {
    const [help, ownVersion, unknown] = await Promise.all([
      run(file, '--help'),
      run(file, '--version'),
      run(file, '--nonsense'),
    ]);
    assert.deepEqual([help.code, help.stderr], [0, '']);
    assert.ok(help.stdout.startsWith(product) && help.stdout.includes('--version'), help.stdout);
    assert.deepEqual(ownVersion, { code: 0, stdout: `${product} ${version}\n`, stderr: '' });
    assert.equal(unknown.code, code);
    assert.match(unknown.stderr, /--nonsense/);
  });
}

test('tsdbctl COMMAND --help tells of that command, and an unknown command is named', async () => {
  const help = await run('tsdbctl/main.ts', 'data', 'verify', '--help');
  assert.match(help.stdout, /^tsdbctl data verify FOLDER\n/);
  assert.doesNotMatch(help.stdout, /data flush/);
  const unknown = await run('tsdbctl/main.ts', 'data', 'nonsense');
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /^unknown command: data nonsense\n/);
});

for (const [tool, ...args] of [
  ['sim', 'test/sim/sim.ts'],
  ['e2e', 'test/kube/e2e.ts'],
  ['bench', 'test/bench.ts'],
  ['setup.mjs', 'setup.mjs'],
] as const) {
  test(`${tool} --help, and an option that it does not know`, async () => {
    const [help, unknown] = await Promise.all([run(...args, '--help'), run(...args, '--nonsense')]);
    assert.equal(help.code, 0, help.stderr);
    assert.match(help.stdout, /^n(pm|ode) /);
    assert.equal(unknown.code, 2);
    assert.match(unknown.stderr, /--nonsense/);
  });
}

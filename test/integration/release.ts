/** Earlier releases of this project, to run beside the sources of today. */
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const modules = join(root, 'node_modules');

/** The release before the one that these sources become. */
export const previousRelease = { version: '0.1.0', commit: 'b82a8ef' } as const;

/** What a process of that release left: its data folder, its stored values, what it answered. */
export const previousReleaseFixture: string = join(
  root,
  'test/fixtures/releases',
  `${previousRelease.version}-${previousRelease.commit}`,
);

/** The full hash, or null when this is no repository or has not its history. */
function fullHashOf(commit: string): string | null {
  try {
    const args = ['rev-parse', '--verify', '--quiet', `${commit}^{commit}`];
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim();
  } catch {
    return null;
  }
}

/** Sources of a commit in a temporary folder, ready to run; disposing removes it. */
export interface Checkout extends Disposable {
  readonly folder: string;
}

/**
 * The sources of a commit with kernels and packages, or null after saying in one line what is left
 * out. Its kernels are compiled once and kept in the cache of node_modules; the sources cannot lie
 * there, since Node runs no TypeScript under node_modules.
 * @throws when there is no such commit and `TSDB_TEST_REQUIRE_ALL=1`
 */
export function checkoutOrSkip(commit: string, whatIsSkipped: string): Checkout | null {
  const hash = fullHashOf(commit);
  if (hash === null) {
    const message = `commit ${commit} was not found, so ${whatIsSkipped}: it needs git and a clone with its history`;
    if (process.env['TSDB_TEST_REQUIRE_ALL'] === '1') throw new Error(message);
    console.log(`skipped: ${message}`);
    return null;
  }
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-release-'));
  const archive = execFileSync('git', ['archive', hash], { cwd: root, maxBuffer: 1 << 30 });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  symlinkSync(modules, join(folder, 'node_modules'));
  const built = join(folder, 'engine/build');
  const cache = join(modules, '.cache/tsdb/releases', hash);
  if (existsSync(cache)) cpSync(cache, built, { recursive: true });
  else {
    execFileSync(process.execPath, ['engine/build_kernels.mjs'], { cwd: folder, stdio: 'pipe' });
    mkdirSync(join(cache, '..'), { recursive: true });
    const part = `${cache}.${process.pid}`;
    cpSync(built, part, { recursive: true });
    try {
      renameSync(part, cache);
    } catch {
      // Another process was first.
      rmSync(part, { recursive: true });
    }
  }
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

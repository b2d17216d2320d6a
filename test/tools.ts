/** Programs of others that tests drive: the real etcd, etcdctl, Prometheus and so on. */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, globSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

interface NeededVersion {
  /** Print the program's version. */
  readonly args: readonly string[];
  readonly major: number;
  readonly minor: number;
}

/** Oldest versions that the tests are held with; test/tools/install.sh builds newer ones. */
const neededVersions: Readonly<Record<string, NeededVersion>> = {
  etcd: { args: ['--version'], major: 3, minor: 6 },
  etcdctl: { args: ['version'], major: 3, minor: 6 },
  prometheus: { args: ['--version'], major: 3, minor: 0 },
  promtool: { args: ['--version'], major: 3, minor: 0 },
};

interface Found {
  readonly path: string | null;
  /** Programs that were passed over, with their versions. */
  readonly tooOld: readonly string[];
}

/**
 * Looks in `$TSDB_TEST_TOOLS`, on the `PATH`, in the project's cache of tools and in its caches of
 * Kubernetes binaries, in this order. A program that says that it is older than the tests need is
 * as good as none; one that does not know its version, as when built from its module, is taken.
 */
function findTool(name: string): Found {
  const cache = join(homedir(), '.cache');
  const folders = [
    ...(process.env['TSDB_TEST_TOOLS'] ?? '').split(delimiter),
    ...(process.env['PATH'] ?? '').split(delimiter),
    join(cache, 'tsdb', 'tools'),
    ...globSync(join(cache, 'tsdb-kube', 'bin-*'))
      .sort()
      .reverse(),
  ];
  const tooOld: string[] = [];
  for (const folder of folders) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
    } catch {
      continue; // Not in this folder.
    }
    const old = versionIfTooOld(path, neededVersions[name]);
    if (old === null) return { path, tooOld };
    tooOld.push(`${path} is ${old}`);
  }
  return { path: null, tooOld };
}

function versionIfTooOld(path: string, needed: NeededVersion | undefined): string | null {
  if (needed === undefined) return null;
  const { stdout, stderr } = spawnSync(path, needed.args, { encoding: 'utf8' });
  const printed = /version:?[ \t]+v?(\d+)\.(\d+)[\w.+~-]*/i.exec(`${stdout}\n${stderr}`);
  if (printed === null) return null;
  const [text, major, minor] = printed;
  const isOld =
    Number(major) < needed.major ||
    (Number(major) === needed.major && Number(minor) < needed.minor);
  return isOld ? text.replace(/^version:?\s+v?/i, '') : null;
}

/**
 * The program's path, or null after saying in one line what is left out and how to get it.
 * @throws when `TSDB_TEST_REQUIRE_ALL=1`, under which nothing may be left out
 */
export function toolOrSkip(name: string, whatIsSkipped: string): string | null {
  const { path, tooOld } = findTool(name);
  if (path !== null) return path;
  const needed = neededVersions[name];
  const what = needed === undefined ? name : `${name} ${needed.major}.${needed.minor} or newer`;
  const passedOver = tooOld.length === 0 ? '' : ` (${tooOld.join(', ')})`;
  const message = `${what} was not found${passedOver}, so ${whatIsSkipped}: put it on the PATH or name its folder in TSDB_TEST_TOOLS`;
  if (process.env['TSDB_TEST_REQUIRE_ALL'] === '1') throw new Error(message);
  console.log(`skipped: ${message}`);
  return null;
}

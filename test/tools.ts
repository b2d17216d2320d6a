/** Programs of others that tests drive: the real etcd, etcdctl, Prometheus and so on. */
import { accessSync, constants, globSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

/**
 * The program's path, or null. Looked for in `$TSDB_TEST_TOOLS`, on the `PATH`, in the project's
 * cache of tools and in its caches of Kubernetes binaries, in this order.
 */
export function findTool(name: string): string | null {
  const cache = join(homedir(), '.cache');
  const folders = [
    ...(process.env['TSDB_TEST_TOOLS'] ?? '').split(delimiter),
    ...(process.env['PATH'] ?? '').split(delimiter),
    join(cache, 'tsdb', 'tools'),
    ...globSync(join(cache, 'tsdb-kube', 'bin-*'))
      .sort()
      .reverse(),
  ];
  for (const folder of folders) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

/**
 * The program's path, or null after saying in one line what is left out and how to get it.
 * @throws when `TSDB_TEST_REQUIRE_ALL=1`, under which nothing may be left out
 */
export function toolOrSkip(name: string, whatIsSkipped: string): string | null {
  const path = findTool(name);
  if (path !== null) return path;
  const message = `${name} was not found, so ${whatIsSkipped}: put it on the PATH or name its folder in TSDB_TEST_TOOLS`;
  if (process.env['TSDB_TEST_REQUIRE_ALL'] === '1') throw new Error(message);
  console.log(`skipped: ${message}`);
  return null;
}

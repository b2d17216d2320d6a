/**
 * Keeps compiled code between starts: half of the time of a start is reading, stripping and
 * compiling sources otherwise. Plain JavaScript that imports nothing which is worth caching: it is
 * loaded before the cache is on, and to strip types from one file takes as long as to start Node.
 */
import { accessSync, constants, mkdirSync, readFileSync, statSync } from 'node:fs';
import { enableCompileCache, flushCompileCache } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const packageFolder = join(import.meta.dirname, '../..');

/**
 * Switches the cache on for what is imported from now on, also in worker threads. Entries are found
 * by the content of their source, so they are never stale. It lies in the package's own folder, or
 * in the data folder where that cannot be written, as in an image; in a folder that others may
 * write to, they could put code there.
 */
export function keepCompiledCode(environment) {
  if (environment['NODE_COMPILE_CACHE'] !== undefined) return;
  const folders = [join(packageFolder, 'node_modules/.cache/tsdb')];
  const dataFolder = environment['TSDB_DATA_DIR'];
  if (dataFolder !== undefined && dataFolder !== '') folders.push(join(dataFolder, 'compiled'));
  for (const folder of folders) {
    if (!isWritable(folder)) continue;
    enableCompileCache(folder);
    environment['NODE_COMPILE_CACHE'] = folder;
    return;
  }
}

/**
 * URL of the bundle in a folder of the package (node/bundle.mjs), or null when one of the files
 * that it was made of is not as it was then, or there is none. In an image, where files stay as
 * they are, it names none.
 */
export function currentBundle(folder, root = packageFolder) {
  try {
    const stamp = readFileSync(join(root, folder, 'sources.json'), 'utf8');
    for (const [path, mtimeMillis, size] of JSON.parse(stamp)) {
      const now = statSync(join(root, path));
      if (now.mtimeMs !== mtimeMillis || now.size !== size) return null;
    }
    const bundle = join(root, folder, 'server.mjs');
    accessSync(bundle, constants.R_OK);
    return pathToFileURL(bundle).href;
  } catch {
    return null;
  }
}

/** Writes what was compiled by now; a process that is killed would write nothing. */
export function saveCompiledCode() {
  flushCompileCache();
}

function isWritable(folder) {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

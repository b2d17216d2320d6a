import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { withSourcePlaces } from '#lib/process/source_places.ts';

/** Line and column, from 1, of a text. */
function placeOf(whole: string, text: string): [line: number, column: number] {
  const lines = whole.slice(0, whole.indexOf(text)).split('\n');
  return [lines.length, lines.at(-1)!.length + 1];
}

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

    // A place of a text that stands once in our sources and once in the bundle.
    const text = 'the configuration has ';
    const bundle = join(folder, 'server.mjs');
    const url = pathToFileURL(bundle).href;
    const inBundle = placeOf(readFileSync(bundle, 'utf8'), text);
    const source = join(import.meta.dirname, '../lib/config/config.ts');
    const [line] = placeOf(readFileSync(source, 'utf8'), text);
    const trace = withSourcePlaces(`at f (${url}:${inBundle.join(':')})`);
    assert.equal(trace.replace(/:\d+\)$/, ''), `at f (${pathToFileURL(source).href}:${line}`);
    assert.equal(
      withSourcePlaces('at f (file:///no/map.mjs:1:2)'),
      'at f (file:///no/map.mjs:1:2)',
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

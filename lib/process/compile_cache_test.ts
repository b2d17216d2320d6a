import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { currentBundle } from './compile_cache.mjs';

test('a bundle counts only while its sources are as they were', () => {
  const root = mkdtempSync(join(tmpdir(), 'tsdb-bundle-'));
  try {
    assert.equal(currentBundle('out', root), null);
    mkdirSync(join(root, 'out'));
    writeFileSync(join(root, 'a.ts'), 'one');
    const { mtimeMs, size } = statSync(join(root, 'a.ts'));
    writeFileSync(join(root, 'out/sources.json'), JSON.stringify([['a.ts', mtimeMs, size]]));
    assert.equal(currentBundle('out', root), null, 'the bundle itself is missing');
    writeFileSync(join(root, 'out/server.mjs'), '');
    assert.ok(currentBundle('out', root)!.endsWith('/out/server.mjs'));
    writeFileSync(join(root, 'a.ts'), 'other');
    assert.equal(currentBundle('out', root), null);
    rmSync(join(root, 'a.ts'));
    assert.equal(currentBundle('out', root), null);
    writeFileSync(join(root, 'out/sources.json'), '[]');
    assert.ok(currentBundle('out', root) !== null, 'the bundle of an image');
  } finally {
    rmSync(root, { recursive: true });
  }
});

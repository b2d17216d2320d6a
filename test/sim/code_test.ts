import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { codeOf } from './code.ts';

test('code is what a campaign reaches: other files change nothing of it', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'code-'));
  t.after(() => rmSync(root, { recursive: true }));
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  write('package-lock.json', '1');
  write(
    'test/x_fuzz.ts',
    "import { a } from '#lib/a.ts';\nreadFileSync(join(import.meta.dirname, 'list.txt'));",
  );
  write('test/list.txt', '1');
  write(
    'lib/a.ts',
    "import './b.ts';\nconst kernel = new URL('../build/k.wasm', import.meta.url);",
  );
  write(
    'lib/b.ts',
    "import { join } from 'node:path';\nimport './a.ts';\nnew URL('worker.ts', import.meta.url);",
  );
  write('lib/worker.ts', '1');
  write('build/k.wasm', '1');
  write('lib/c.ts', '1');
  const code = (): string => codeOf(root, 'test/x_fuzz.ts');
  const first = code();
  write('lib/c.ts', '2');
  write('docs/page.md', '2');
  assert.equal(code(), first);
  for (const path of ['package-lock.json', 'test/list.txt', 'lib/worker.ts', 'build/k.wasm']) {
    write(path, '2');
    assert.notEqual(code(), first, path);
    write(path, '1');
    assert.equal(code(), first);
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { version } from './version.ts';

test('version is that of package.json', () => {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  assert.equal((JSON.parse(text) as { version: string }).version, version);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PathPatterns } from './path_patterns.ts';

test('patterns that were not used lately make room for others', () => {
  const texts = Array.from({ length: 40 }, (_, i) => `a{100}${i}`);
  const bytesOfOne = new PathPatterns().of(texts[0]!).regexp!.memoryBytes;
  const patterns = new PathPatterns(4.5 * bytesOfOne);
  const used = patterns.of(texts[0]!);
  for (const text of texts.slice(1)) {
    patterns.of(text);
    used.isUsed = true;
  }
  const kept = texts.filter((text) => patterns.has(text));
  assert.ok(kept.length >= 3 && kept.length <= 4, String(kept.length));
  assert.ok(used.regexp !== null, 'what is used stays');
  assert.equal(patterns.compiledCount, texts.length);
  const gone = texts.find((text) => !patterns.has(text))!;
  assert.ok(patterns.of(gone).regexp!.test(`${'a'.repeat(100)}${gone.slice(6)}`));
  assert.equal(patterns.compiledCount, texts.length + 1);
});

test('one that is larger than all may be is there for who asked', () => {
  const patterns = new PathPatterns(1);
  const kept = patterns.of('ab');
  assert.ok(kept.regexp!.test('cab'));
  patterns.of('cd');
  assert.ok(!patterns.has('ab'));
  assert.equal(kept.regexp, null);
});

/**
 * Holds the shortcuts of regexp.ts equal to V8's own engine, on patterns that both read the same.
 */
import assert from 'node:assert/strict';
import { compileAnchored } from './regexp.ts';

const pieces = [
  'a',
  'b',
  'ab',
  '.*',
  '.+',
  '.*',
  '|',
  '(',
  ')',
  '(?:',
  '\\.',
  '\\|',
  'é',
  '😀',
  '-',
  '_',
  ' ',
  '[ab]',
  '\\d',
  'b?',
  'a*',
  '^',
  '$',
  '.',
  '1',
  '\n',
] as const;
const letters = ['a', 'b', 'a', 'b', 'ab', '.', '|', 'é', '😀', '-', '_', ' ', '1', '\n'] as const;

/** @param size number of patterns */
export function fuzz(seed: number, size: number): void {
  let state = seed;
  const below = (end: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
  const some = (items: readonly string[], max: number) =>
    Array.from({ length: below(max) }, () => items[below(items.length)]!).join('');
  for (let i = 0; i < size; i++) {
    const pattern = some(pieces, 8);
    let expected: RegExp;
    try {
      // The bare pattern first: brackets that do not pair may pair by the wrapping.
      void new RegExp(pattern, 'su');
      expected = new RegExp(`^(?:${pattern})$`, 'su');
    } catch {
      continue;
    }
    const regexp = compileAnchored(pattern);
    for (let k = 0; k < 20; k++) {
      const text = regexp.set !== null && below(2) === 0 ? regexp.set[0]! : some(letters, 7);
      const label = `${JSON.stringify(pattern)} on ${JSON.stringify(text)}`;
      assert.equal(regexp.test(text), expected.test(text), label);
      const bytes = Buffer.from(`x${text}y`);
      assert.equal(regexp.testBytes(bytes, 1, bytes.length - 1), expected.test(text), label);
      if (regexp.test(text)) {
        assert.ok(text.startsWith(regexp.literalPrefix), label);
        assert.equal(regexp.replace(text, '<$0>'), `<${text}>`, label);
      }
    }
  }
}

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

type Below = (end: number) => number;

function generator(seed: number): Below {
  let state = seed;
  return (end) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
}

const some = (below: Below, items: readonly string[], max: number): string =>
  Array.from({ length: below(max) }, () => items[below(items.length)]!).join('');

/** @param size number of patterns */
export function fuzz(seed: number, size: number): void {
  const below = generator(seed);
  for (let i = 0; i < size; i++) compare(below, some(below, pieces, 8), 20);
}

const listPieces = ['a', 'b', '1', '2', '-', '.*', '.+', '\\.', 'é', '😀', '(a|1)', '(?:b|)'];

/** Lists of hundreds of alternatives. @param size number of patterns */
export function fuzzLists(seed: number, size: number): void {
  const below = generator(seed);
  for (let i = 0; i < size; i++) {
    const length = 200 + below(400);
    const from = below(2) === 0 ? listPieces : listPieces.slice(0, 8);
    const list = Array.from({ length }, () => some(below, from, 6)).join('|');
    compare(below, below(3) === 0 ? `^(${list})$` : list, 60);
  }
}

function compare(below: Below, pattern: string, texts: number): void {
  let expected: RegExp;
  try {
    // The bare pattern first: brackets that do not pair may pair by the wrapping.
    void new RegExp(pattern, 'su');
    expected = new RegExp(`^(?:${pattern})$`, 'su');
  } catch {
    return;
  }
  const regexp = compileAnchored(pattern);
  for (let k = 0; k < texts; k++) {
    const isOfSet = regexp.set !== null && below(2) === 0;
    const text = isOfSet ? [...regexp.set!][0]! : some(below, letters, 7);
    const label = `${JSON.stringify(pattern)} on ${JSON.stringify(text)}`;
    const matches = expected.test(text);
    assert.equal(regexp.test(text), matches, label);
    const bytes = Buffer.from(`x${text}y`);
    assert.equal(regexp.testBytes(bytes, 1, bytes.length - 1), matches, label);
    if (matches) assert.equal(regexp.replace(text, '<$0>'), `<${text}>`, label);
  }
  assert.equal(regexp.matchesEmpty, expected.test(''), pattern);
}

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { AsideThread } from './aside.ts';
import { withRegexps } from './regexps.ts';
import { assertNotHeld, turningOf, turnsOf } from './turning_testing.ts';

const aside = new AsideThread(realEnv.clock);
after(() => aside[Symbol.asyncDispose]());

/** On the loop some of these took half a second. */
const dear: readonly (readonly [pattern: string, problem: RegExp | null])[] = [
  ['[^\\p{L}]'.repeat(6_000), null],
  ['(?i)\\p{L}'.repeat(2_000), null],
  [Array.from({ length: 25_000 }, (_, i) => `a${i}.*[ab]`).join('|'), /needs \d+ instructions/],
  ['('.repeat(100_000) + 'a' + ')'.repeat(100_000), /nests too deeply/],
];

test('the loop goes on while patterns are compiled that take long', async () => {
  for (const [pattern, problem] of dear) {
    const compiled = withRegexps(turningOf(aside), (regexps) => regexps.compile(pattern));
    const outcome = compiled.then(
      ({ matchesEmpty }) => assert.equal(matchesEmpty, false),
      (error: unknown) => {
        assert.ok(problem !== null && error instanceof Error);
        assert.match(error.message, problem);
      },
    );
    assertNotHeld(await turnsOf(outcome), pattern.slice(0, 20));
  }
});

test('a list of a megabyte of texts is compiled in parts', async () => {
  const texts = Array.from({ length: 170_000 }, (_, i) => (1_679_616 + i).toString(36));
  const compiled = withRegexps(turningOf(aside), (regexps) => regexps.compile(texts.join('|')));
  const { answer, turns } = await turnsOf(compiled);
  assert.equal(answer.set?.size, texts.length);
  assert.ok(turns > 5, `${turns}`);
});

test('compiling aside ends with the query', async () => {
  const cancel = new AbortController();
  const pattern = '(?:[^\\p{L}]|w)'.repeat(7_000);
  const compiled = withRegexps(turningOf(aside, cancel), (regexps) => regexps.compile(pattern));
  setImmediate(() => cancel.abort(new Error('over')));
  await assert.rejects(compiled, /over/);
});

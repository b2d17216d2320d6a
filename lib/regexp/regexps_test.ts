import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../env/real.ts';
import { Turns, type Work } from '../turns/turns.ts';
import type { RegexpFacts } from './regexp.ts';
import { NeedsRegexps, QueryRegexps } from './regexps.ts';

const work = (abort = new AbortController()): Work => Turns.of(realEnv.clock).begin(abort.signal);
const noAside = (pattern: string): Promise<RegexpFacts> => assert.fail(pattern);
const good: RegexpFacts = { problem: null, programSize: 20_000, matchesEmpty: true };

test('what takes little is compiled where it is asked for', () => {
  const regexps = new QueryRegexps();
  assert.ok(regexps.compile('host-[0-9]+').test('host-1'));
  assert.throws(() => regexps.compile('a('), { code: 'BAD_REQUEST' });
  assert.ok(regexps.areFound);
});

test('many patterns are compiled in turns, before the next attempt', async () => {
  const patterns = Array.from({ length: 3_000 }, (_, i) => `(many|of)+them${i}`);
  const regexps = new QueryRegexps();
  const found = patterns.filter((pattern) => regexps.find(pattern) !== null);
  assert.ok(found.length > 0 && found.length < 1_500, `${found.length}`);
  assert.throws(() => regexps.checkFound(), NeedsRegexps);
  let turns = 0;
  const turn = (): void => {
    turns++;
    if (!regexps.areFound) setImmediate(turn);
  };
  turn();
  await regexps.learn(work(), noAside);
  assert.ok(turns > 3, `${turns}`);
  for (const [i, pattern] of patterns.entries()) {
    assert.ok(regexps.compile(pattern).test(`manyofthem${i}`));
  }
});

test('what is dear to compile is never compiled here', async () => {
  const dear = '(?:[^\\p{L}]|x)'.repeat(5_000);
  const regexps = new QueryRegexps();
  assert.throws(() => regexps.compile(dear), NeedsRegexps);
  const asked: string[] = [];
  await regexps.learn(work(), async (pattern) => {
    asked.push(pattern);
    return good;
  });
  assert.deepEqual(asked, [dear]);
  const { isCompiledAside, matchesEmpty, matches, set } = regexps.compile(dear);
  assert.deepEqual([isCompiledAside, matchesEmpty, matches, set], [true, true, 'some', null]);
  // Others are spared the question.
  assert.equal(new QueryRegexps().compile(dear).isCompiledAside, true);
});

test('what cannot be compiled aside is told with the next attempt', async () => {
  const dear = `${'(?:[^\\p{L}]|y)'.repeat(5_000)}(`;
  const regexps = new QueryRegexps();
  assert.equal(regexps.find(dear), null);
  await regexps.learn(work(), async () => ({ ...good, problem: 'missing )' }));
  assert.throws(() => regexps.find(dear), { code: 'BAD_REQUEST', message: 'missing )' });
});

test('a query that ends while its regexps are compiled leaves nothing wrong behind', async () => {
  const dear = '(?:[^\\p{L}]|z)'.repeat(5_000);
  const regexps = new QueryRegexps();
  assert.equal(regexps.find(dear), null);
  const over = Promise.reject(new Error('over'));
  await assert.rejects(
    regexps.learn(work(), () => over),
    /over/,
  );
  const next = new QueryRegexps();
  assert.equal(next.find(dear), null);
  await next.learn(work(), async () => good);
  assert.ok(next.compile(dear).matchesEmpty);
});

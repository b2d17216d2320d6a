/** Queries that take their turns with others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Aside, onTheLoop } from '#engine/aside/aside.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { realEnv } from '#lib/env/real.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { NamespaceIndex, type Turning } from './namespace_index.ts';

const range = { startNanos: 0n, endNanos: 100n };
const unlimited = { limit: 0, shards: null };
const noId = new Uint8Array(0);
const regexp = (pattern: string, field = 'v'): IndexQuery => ({
  kind: 'regexp',
  field,
  regexp: pattern,
});
const and = (...queries: IndexQuery[]): IndexQuery => ({ kind: 'conjunction', queries });

/** Series with these values of `v`, each of one of ten groups. */
function indexOf(values: readonly string[]): NamespaceIndex {
  const index = new NamespaceIndex({ random: new SeededRandom(7), blockSizeNanos: 100n });
  for (const [slot, value] of values.entries()) {
    const tags = [
      { name: 'g', value: String(slot % 10) },
      { name: 'v', value },
    ];
    index.insert(slot, encodeTags(tags), idSchemeCode.quoted, noId, 1);
  }
  index.markLive(
    values.map((_, slot) => slot),
    0n,
  );
  return index;
}

function turning(aside: Aside = onTheLoop, { signal } = new AbortController()): Turning {
  return { work: Turns.of(realEnv.clock).begin(signal), aside };
}

/** Turns of the loop while it is done. */
async function turnsOf<T>(done: Promise<T>): Promise<{ answer: T; turns: number }> {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const answer = await done;
  isOver = true;
  return { answer, turns };
}

const slotsOf = (index: NamespaceIndex, query: IndexQuery, how: Turning): Promise<number[]> =>
  index.inTurns(how, (isBounded) => [...index.query(query, range, unlimited, isBounded).slots]);

const many = Array.from({ length: 60_000 }, (_, i) => `host-${i % 7}-${i}.example`);
/** None of those that are matched without an engine. */
const pattern = '(host|node)-[36]-[0-9]*[05]\\.(example|test)';

test('a regexp over many values is tested in turns, and finds the same', async () => {
  const expected = [...indexOf(many).query(regexp(pattern), range, unlimited).slots];
  assert.ok(expected.length > 1000);
  const index = indexOf(many);
  const { answer, turns } = await turnsOf(slotsOf(index, regexp(pattern), turning()));
  assert.deepEqual(answer, expected);
  assert.ok(turns > 3, `${turns}`);
  const again = await turnsOf(slotsOf(index, regexp(pattern), turning()));
  assert.deepEqual(again.answer, expected);
  assert.ok(again.turns <= turns, 'what was tested is remembered');
});

test('so is one that narrows what is left of others', async () => {
  const queries: IndexQuery[] = [
    and({ kind: 'term', field: 'g', term: '5' }, regexp(pattern)),
    and(
      {
        kind: 'disjunction',
        queries: [regexp('[3-5]', 'g'), { kind: 'term', field: 'g', term: '8' }],
      },
      { kind: 'negation', query: regexp(pattern) },
    ),
  ];
  for (const query of queries) {
    const expected = [...indexOf(many).query(query, range, unlimited).slots];
    assert.deepEqual(await slotsOf(indexOf(many), query, turning()), expected);
  }
});

test('values for which a test would hold up others are tested aside', async () => {
  const long = Array.from({ length: 150 }, (_, i) => `${'ab'.repeat(20_000 - i)}${i % 3}`);
  const values = [...many.slice(0, 100), ...long, ...many.slice(100, 200)];
  const dear = '(a|b)*a(a|b){41}[12]';
  let jobs = 0;
  const counted: Aside = {
    run: (job, work) => {
      jobs++;
      return onTheLoop.run(job, work);
    },
  };
  const found = await slotsOf(indexOf(values), regexp(dear), turning(counted));
  const expected = values.flatMap((value, slot) => (/[ab][12]$/.test(value) ? [slot] : []));
  assert.deepEqual(found, expected);
  assert.ok(jobs >= 3 && jobs <= 150, `${jobs}`);
});

test('series that come and go while a regexp is tested are answered as they are then', async () => {
  const index = indexOf(many);
  const query = slotsOf(index, regexp(pattern), turning());
  const gone = Uint32Array.from({ length: 45_000 }, (_, i) => i);
  await new Promise(setImmediate);
  index.remove(gone);
  const tags = [{ name: 'v', value: 'host-3-5.test' }];
  index.insert(7, encodeTags(tags), idSchemeCode.quoted, noId, 1);
  index.markLive([7], 0n);
  const expected = many.flatMap((value, slot) =>
    slot >= 45_000 && new RegExp(`^${pattern}$`).test(value) ? [slot] : [],
  );
  assert.deepEqual(await query, [7, ...expected]);
});

test('a query that is cancelled ends between two tests', async () => {
  const cancel = new AbortController();
  const query = slotsOf(indexOf(many), regexp(`${pattern}|x+`), turning(onTheLoop, cancel));
  cancel.abort(new Error('over'));
  await assert.rejects(query, /over/);
});

test('values of a label are collected and sorted in turns', async () => {
  const index = indexOf(many);
  const options = { tagNames: ['v'], namesOnly: false, ...unlimited };
  const all: IndexQuery = { kind: 'all' };
  const { answer, turns } = await turnsOf(index.aggregateInTurns(all, range, options, turning()));
  assert.deepEqual(answer, { tags: [{ name: 'v', values: many.toSorted() }], exhaustive: true });
  assert.ok(turns > 3, `${turns}`);
  assert.deepEqual(index.aggregate(all, range, options), answer);
  const cut = await index.aggregateInTurns(all, range, { ...options, limit: 3 }, turning());
  assert.deepEqual(cut, {
    tags: [{ name: 'v', values: many.toSorted().slice(0, 2) }],
    exhaustive: false,
  });
});

test('values that go meanwhile are not in the answer', async () => {
  const index = indexOf(many);
  const options = { tagNames: ['v'], namesOnly: false, ...unlimited };
  const answer = index.aggregateInTurns({ kind: 'all' }, range, options, turning());
  await new Promise(setImmediate);
  index.remove(Uint32Array.from({ length: 30_000 }, (_, i) => i));
  assert.deepEqual((await answer).tags, [{ name: 'v', values: many.slice(30_000).sort() }]);
});

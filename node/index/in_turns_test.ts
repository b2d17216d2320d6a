/** Queries that take their turns with others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onTheLoop, type Turning } from '#engine/aside/aside.ts';
import { assertNotHeld, countedAside, turningOf, turnsOf } from '#engine/aside/turning_testing.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { loopTurn, Turns } from '#lib/turns/turns.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { NamespaceIndex } from './namespace_index.ts';

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

const slotsOf = (index: NamespaceIndex, query: IndexQuery, how: Turning): Promise<number[]> =>
  index.inTurns(how, (attempts) => [...index.query(query, range, unlimited, attempts).slots]);

const many = Array.from({ length: 60_000 }, (_, i) => `host-${i % 7}-${i}.example`);
/** None of those that are matched without an engine. */
const pattern = '(host|node)-[36]-[0-9]*[05]\\.(example|test)';

test('a regexp over many values is tested in turns, and finds the same', async () => {
  const expected = [...indexOf(many).query(regexp(pattern), range, unlimited).slots];
  assert.ok(expected.length > 1000);
  const index = indexOf(many);
  const { answer, turns } = await turnsOf(slotsOf(index, regexp(pattern), turningOf()));
  assert.deepEqual(answer, expected);
  assert.ok(turns > 3, `${turns}`);
  const again = await turnsOf(slotsOf(index, regexp(pattern), turningOf()));
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
    assert.deepEqual(await slotsOf(indexOf(many), query, turningOf()), expected);
  }
});

test('values for which a test would hold up others are tested aside', async () => {
  const long = Array.from({ length: 150 }, (_, i) => `${'ab'.repeat(20_000 - i)}${i % 3}`);
  const values = [...many.slice(0, 100), ...long, ...many.slice(100, 200)];
  const dear = '(a|b)*a(a|b){41}[12]';
  const { aside, kinds } = countedAside();
  const found = await slotsOf(indexOf(values), regexp(dear), turningOf(aside));
  const expected = values.flatMap((value, slot) => (/[ab][12]$/.test(value) ? [slot] : []));
  assert.deepEqual(found, expected);
  assert.ok(kinds.length >= 3 && kinds.length <= 150, `${kinds.length}`);
});

test('a list of more texts than may be looked up at once takes turns', async () => {
  const listed = many.filter((_, i) => i % 2 === 0);
  const list = regexp([...listed, 'a', 'b'].map((text) => text.replaceAll('.', '\\.')).join('|'));
  const expected = listed.map((_, i) => 2 * i);
  const index = indexOf(many);
  const { answer, turns } = await turnsOf(slotsOf(index, list, turningOf()));
  assert.deepEqual(answer, expected);
  assert.ok(turns > 3, `${turns}`);
  const tags = [{ name: 'v', value: 'a' }];
  index.insert(many.length, encodeTags(tags), idSchemeCode.quoted, noId, 1);
  index.markLive([many.length], 0n);
  assert.deepEqual(await slotsOf(index, list, turningOf()), [...expected, many.length]);
});

test('a regexp that it takes long to compile is compiled and tested aside, and only there', async () => {
  const hosts = Array.from({ length: 1_200 }, (_, i) => `host-${i % 7}-${i}\\.[a-z]+`);
  const dear = `(${hosts.join('|')})`;
  const { aside, kinds } = countedAside();
  const found = await slotsOf(indexOf(many), regexp(dear), turningOf(aside));
  assert.deepEqual(
    found,
    hosts.map((_, slot) => slot),
  );
  assert.equal(kinds[0], 'compile');
  assert.ok(kinds.length > many.length / 2_000, `${kinds.length}`);
  const left = and(
    { kind: 'term', field: 'g', term: '5' },
    regexp(`(${hosts.slice(1).join('|')})`),
  );
  assert.deepEqual(
    await slotsOf(indexOf(many), left, turningOf()),
    hosts.flatMap((_, slot) => (slot % 10 === 5 ? [slot] : [])),
  );
});

test('a regexp that makes new states with every text takes turns', async () => {
  const random = new SeededRandom(3);
  const letters = Array.from({ length: 300 }, () =>
    Array.from({ length: 24 }, () => 'ab'[random.below(2)]).join(''),
  );
  const states = '((a|b)*a(a|b){20}c)|((a?b?){400}c)|((a|b)*aaaa(a|b)*)';
  const found = slotsOf(indexOf(letters), regexp(states), turningOf());
  const seen = await turnsOf(found);
  assert.deepEqual(
    seen.answer,
    letters.flatMap((text, slot) => (text.includes('aaaa') ? [slot] : [])),
  );
  assertNotHeld(seen);
});

test('all regexps of a query take turns, however many they are', async () => {
  const count = 16;
  const queries = Array.from({ length: count }, (_, i) => regexp(`${pattern}|y{${i + 2}}`));
  const all = await turnsOf(slotsOf(indexOf(many), and(...queries), turningOf()));
  assert.deepEqual(all.answer, [...indexOf(many).query(regexp(pattern), range, unlimited).slots]);
  assert.ok(all.turns > count, `${all.turns}`);
  assertNotHeld(all);
  // Also when all values are tested in less than a turn; the clock stands, so that nothing else gives way.
  const few = many.slice(0, 3_000);
  const some = Array.from({ length: 200 }, (_, i) => regexp(`${pattern}|z{${i + 2}}`));
  const standing = turningBy(() => 0);
  const any: IndexQuery = { kind: 'disjunction', queries: some };
  const seen = await turnsOf(slotsOf(indexOf(few), any, standing));
  assert.deepEqual(
    seen.answer,
    all.answer.filter((slot) => slot < few.length),
  );
  assert.ok(seen.turns > 50, `${seen.turns}`);
  const more = Array.from({ length: 501 }, (_, i) => regexp(`x[0-9]{${i + 1}}`));
  const tooMany: IndexQuery = { kind: 'disjunction', queries: more };
  await assert.rejects(slotsOf(indexOf(['x1', 'x2']), tooMany, turningOf()), {
    code: 'BAD_REQUEST',
    message: /more than 500 regular expressions/,
  });
});

test('a query of many parts gives way between them, and goes on where it was', async () => {
  const index = indexOf(many);
  const parts = Array.from({ length: 3_000 }, (_, i): IndexQuery => {
    const term: IndexQuery = { kind: 'term', field: 'g', term: String(i % 9) };
    return i % 2 === 0 ? { kind: 'negation', query: term } : { kind: 'field', field: 'v' };
  });
  for (const query of [and(...parts), and({ kind: 'disjunction', queries: parts }, ...parts)]) {
    const expected = [...index.query(query, range, unlimited).slots];
    const { answer, turns } = await turnsOf(slotsOf(index, query, hastyTurning()));
    assert.deepEqual(answer, expected);
    assert.ok(turns > 1_000, `${turns}`);
  }
});

test('so does a union of many terms', async () => {
  const index = indexOf(many);
  const most = regexp('host-[0-5]-.*');
  const listed = many.filter((_, i) => i % 3 !== 0).map((text) => text.replaceAll('.', '\\.'));
  const others = and(regexp('[0-7]', 'g'), regexp(listed.join('|')));
  for (const query of [most, others]) {
    const expected = [...index.query(query, range, unlimited).slots];
    const { answer, turns } = await turnsOf(slotsOf(index, query, hastyTurning()));
    assert.deepEqual(answer, expected);
    assert.ok(turns >= 4, `${turns}`);
  }
});

test('terms that go while they are united take none of the others with them', async () => {
  const index = indexOf(many);
  const most = regexp('host-[0-5]-.*');
  // Its values are tested by now.
  const expected = new Set(index.query(most, range, unlimited).slots);
  const gone = Uint32Array.from({ length: 3_000 }, (_, i) => 7 * i);
  for (const slot of gone) expected.delete(slot);
  const steps = index.removeInSteps(gone, 50);
  // The series leave before anybody asks; their terms do meanwhile.
  while (steps.next().value === true) continue;
  const found = slotsOf(index, most, hastyTurning());
  let stepsMeanwhile = 0;
  let isOver = false;
  void found.finally(() => (isOver = true));
  while (!isOver) {
    if (steps.next().done !== true) stepsMeanwhile++;
    await new Promise(setImmediate);
  }
  assert.deepEqual(await found, [...expected]);
  assert.ok(stepsMeanwhile >= 4, `${stepsMeanwhile}`);
});

function turningBy(monotonicMillis: () => number): Turning {
  const { signal } = new AbortController();
  return { work: Turns.of({ monotonicMillis }).begin(signal), aside: onTheLoop };
}

/** Every look at its clock takes some milliseconds, so that attempts are given up wherever that may be. */
function hastyTurning(): Turning {
  let millis = 0;
  return turningBy(() => (millis += 5));
}

test('whatever happens between the attempts, a query finds series that match then', async () => {
  const random = new SeededRandom(11);
  const value = (): string => `v${random.below(12)}`;
  const patterns = ['v[0-5]', 'v1.*', 'v3|v7|v9', '.*', 'v(1|2)?[^3]*', '.+'];
  const queryOf = (depth: number): IndexQuery => {
    const field = random.pick(['a', 'b', 'c']);
    switch (random.below(depth > 2 ? 3 : 6)) {
      case 0:
        return { kind: 'term', field, term: value() };
      case 1:
        return { kind: 'field', field };
      case 2:
        return regexp(random.pick(patterns), field);
      case 3:
        return { kind: 'negation', query: queryOf(depth + 1) };
      default: {
        const queries = Array.from({ length: 1 + random.below(5) }, () => queryOf(depth + 1));
        return { kind: random.pick(['conjunction', 'disjunction']), queries };
      }
    }
  };
  const index = new NamespaceIndex({ random, blockSizeNanos: 100n });
  let slotsEnd = 0;
  const free: number[] = [];
  const here = new Set<number>();
  const insert = (): number => {
    const slot = free.pop() ?? slotsEnd++;
    const tags = ['a', 'b', 'c'].flatMap((name) =>
      random.below(4) === 0 ? [] : [{ name, value: value() }],
    );
    const id = Buffer.from(`${slot} ${random.u32()}`);
    index.insert(slot, encodeTags(tags), idSchemeCode.explicit, id, 1);
    index.markLive([slot], 0n);
    here.add(slot);
    return slot;
  };
  /** Under way still when a query begins, and beyond its end. */
  let removing: Generator<boolean, void, void> | null = null;
  let leaving: number[] = [];
  const change = (): number => {
    if (removing !== null && random.below(2) === 0) {
      if (removing.next().done === true) {
        free.push(...leaving);
        removing = null;
      }
    } else if (removing === null && random.below(3) === 0) {
      leaving = [...here].filter(() => random.below(20) === 0);
      for (const slot of leaving) {
        here.delete(slot);
        index.unmarkLive([slot], 0n);
      }
      removing = index.removeInSteps(Uint32Array.from(leaving), 3);
      removing.next();
    } else if (here.size < 400) return insert();
    return -1;
  };
  for (let i = 0; i < 300; i++) insert();
  for (let round = 0; round < 400; round++) {
    const query = queryOf(0);
    const added = new Set<number>();
    const found = index.inTurns(hastyTurning(), (attempts) => {
      const { slots } = index.query(query, range, unlimited, attempts);
      return { slots: new Set(slots), all: new Set(index.query(query, range, unlimited).slots) };
    });
    let isOver = false;
    void found.finally(() => (isOver = true));
    while (!isOver) {
      added.add(change());
      await new Promise(setImmediate);
    }
    const { slots, all } = await found;
    const label = JSON.stringify(query);
    for (const slot of slots) assert.ok(all.has(slot), `${label}: ${slot} does not match`);
    for (const slot of all) assert.ok(slots.has(slot) || added.has(slot), `${label}: ${slot}`);
  }
});

test('series that come and go while a regexp is tested are answered as they are then', async () => {
  const index = indexOf(many);
  const query = slotsOf(index, regexp(pattern), turningOf());
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
  const query = slotsOf(indexOf(many), regexp(`${pattern}|x+`), turningOf(onTheLoop, cancel));
  cancel.abort(new Error('over'));
  await assert.rejects(query, /over/);
});

test('values of a label are collected and sorted in turns', async () => {
  const index = indexOf(many);
  const options = { tagNames: ['v'], namesOnly: false, ...unlimited };
  const all: IndexQuery = { kind: 'all' };
  const { answer, turns } = await turnsOf(index.aggregateInTurns(all, range, options, turningOf()));
  assert.deepEqual(answer, { tags: [{ name: 'v', values: many.toSorted() }], exhaustive: true });
  assert.ok(turns > 3, `${turns}`);
  assert.deepEqual(index.aggregate(all, range, options), answer);
  const cut = await index.aggregateInTurns(all, range, { ...options, limit: 3 }, turningOf());
  assert.deepEqual(cut, {
    tags: [{ name: 'v', values: many.toSorted().slice(0, 2) }],
    exhaustive: false,
  });
});

test('joined values are collected and sorted in turns, and those of series that go meanwhile are not in the answer', async () => {
  const values = many.map((value) => value.replace('.', '_'));
  const index = indexOf(values);
  const options = { tagNames: ['v', 'v'], namesOnly: false, joined: true, ...unlimited };
  const joinedFrom = (first: number): string[] =>
    values
      .slice(first)
      .map((v) => `${v}.${v}`)
      .sort();
  const all: IndexQuery = { kind: 'all' };
  const { answer, turns } = await turnsOf(index.aggregateInTurns(all, range, options, turningOf()));
  assert.deepEqual(answer.tags, [{ name: 'v.v', values: joinedFrom(0) }]);
  assert.ok(turns > 3, `${turns}`);
  assert.deepEqual(index.aggregate(all, range, options), answer);
  const later = index.aggregateInTurns(all, range, options, turningOf());
  await new Promise(setImmediate);
  index.remove(Uint32Array.from({ length: 30_000 }, (_, i) => i));
  assert.deepEqual((await later).tags, [{ name: 'v.v', values: joinedFrom(30_000) }]);
});

test('values that go meanwhile are not in the answer', async () => {
  const index = indexOf(many);
  const options = { tagNames: ['v'], namesOnly: false, ...unlimited };
  const answer = index.aggregateInTurns({ kind: 'all' }, range, options, turningOf());
  await new Promise(setImmediate);
  index.remove(Uint32Array.from({ length: 30_000 }, (_, i) => i));
  assert.deepEqual((await answer).tags, [{ name: 'v', values: many.slice(30_000).sort() }]);
});

/** Each of the first series has tags of its own. */
function indexOfNames(count: number): { index: NamespaceIndex; names: string[] } {
  const index = indexOf(['a', 'b', 'c']);
  const names = ['g', 'v'];
  for (let slot = 3; slot < count + 3; slot++) {
    const name = `n${slot}`;
    names.push(name);
    index.insert(slot, encodeTags([{ name, value: '1' }]), idSchemeCode.quoted, noId, 1);
    index.markLive([slot], 0n);
  }
  return { index, names: names.sort() };
}

test('names of tags are sorted in turns, once, and those that come later are among them', async () => {
  const { index, names } = indexOfNames(30_000);
  const options = { tagNames: [], namesOnly: true, ...unlimited };
  const all: IndexQuery = { kind: 'all' };
  const told = async () => {
    // What the index took to make was no work of others, who would be given their time back.
    await loopTurn();
    const { answer, ...seen } = await turnsOf(
      index.aggregateInTurns(all, range, options, turningOf()),
    );
    return { names: answer.tags.map(({ name }) => name), ...seen };
  };
  const first = await told();
  assert.deepEqual(first.names, names);
  assert.ok(first.turns > 1, `${first.turns}`);
  const second = await told();
  assert.deepEqual(second.names, names);
  assert.ok(second.turns < first.turns, `what was sorted is remembered: ${second.turns}`);
  index.insert(40_000, encodeTags([{ name: 'm', value: '1' }]), idSchemeCode.quoted, noId, 1);
  index.markLive([40_000], 0n);
  assert.deepEqual((await told()).names, [...names, 'm'].sort());
  index.remove(Uint32Array.of(40_000));
  assert.deepEqual((await told()).names, names);
});

test('names of a few series are told without those of all others', async () => {
  const { index } = indexOfNames(30_000);
  const options = { tagNames: [], namesOnly: true, ...unlimited };
  const few: IndexQuery = { kind: 'term', field: 'v', term: 'b' };
  const { answer, turns } = await turnsOf(index.aggregateInTurns(few, range, options, turningOf()));
  assert.deepEqual(answer.tags, [
    { name: 'g', values: [] },
    { name: 'v', values: [] },
  ]);
  assert.ok(turns <= 1, `${turns}`);
});

test('cardinality is counted in turns', async () => {
  const { index } = indexOfNames(30_000);
  await loopTurn();
  const options = { limit: 3, metricName: 'v', withSketches: true };
  const { answer, turns } = await turnsOf(index.statisticsInTurns(options, turningOf().work));
  assert.ok(turns > 3, `${turns}`);
  assert.deepEqual(answer, index.statistics(options));
  assert.deepEqual(answer.valuesByName.slice(0, 2), [
    { name: 'g', count: 3 },
    { name: 'v', count: 3 },
  ]);
  // Where terms go meanwhile it is that of what is left.
  const later = index.statisticsInTurns(options, turningOf().work);
  await new Promise(setImmediate);
  index.remove(Uint32Array.from({ length: 10_000 }, (_, i) => i + 3));
  assert.deepEqual(await later, index.statistics(options));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Places } from './places.ts';

const never = new AbortController().signal;

/** Asks for places one after the other. @returns the names of those that have theirs, as they get them */
function asked(places: Places, wanted: Readonly<Record<string, number>>, signal = never): string[] {
  const got: string[] = [];
  for (const [name, count] of Object.entries(wanted)) {
    places.take(signal, count).then(
      () => got.push(name),
      () => got.push(`not ${name}`),
    );
  }
  return got;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('places are given in the order in which they were asked for, also those that would fit', async () => {
  const places = new Places(10);
  const got = asked(places, { a: 6, b: 5, c: 1 });
  await settled();
  assert.deepEqual(got, ['a']);
  places.give(6);
  await settled();
  assert.deepEqual(got, ['a', 'b', 'c']);
});

test('what is more than there are places waits for all of them', async () => {
  const places = new Places(10);
  const got = asked(places, { small: 1, huge: 1_000, next: 10 });
  await settled();
  assert.deepEqual(got, ['small']);
  places.give(1);
  await settled();
  assert.deepEqual(got, ['small', 'huge']);
  places.give(1_000);
  await settled();
  assert.deepEqual(got, ['small', 'huge', 'next']);
});

test('who leaves makes room for those behind, and takes no place', async () => {
  const places = new Places(10);
  const got = asked(places, { a: 6 });
  const leaving = new AbortController();
  const left = asked(places, { b: 5 }, leaving.signal);
  const last = asked(places, { c: 4 });
  await settled();
  assert.deepEqual([got, left, last], [['a'], [], []]);
  leaving.abort(new Error('left'));
  await settled();
  assert.deepEqual([left, last], [['not b'], ['c']]);
  places.give(6);
  places.give(4);
  const all = asked(places, { all: 10 });
  await settled();
  assert.deepEqual(all, ['all']);
});

test('who leaves when the place is given already gives it back as others do', async () => {
  const places = new Places(1);
  await places.take(never);
  const leaving = new AbortController();
  const taken = places.take(leaving.signal);
  const behind = asked(places, { behind: 1 });
  places.give();
  leaving.abort(new Error('left'));
  await taken;
  assert.deepEqual(behind, []);
  places.give();
  await settled();
  assert.deepEqual(behind, ['behind']);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareAnswers, isSame } from './answers.ts';
import { queriesOf, queriesOfText } from './queries.ts';

const metric = { __name__: 'up', job: 'a', zone: 'z' };

test('answers are the same whatever the order of series, and of the last digits', () => {
  const other = { __name__: 'up', job: 'b' };
  const a = [
    {
      metric,
      values: [
        [1, '0.1'],
        [2, 'NaN'],
      ] as [number, string][],
    },
    { metric: other, values: [[1, '3']] as [number, string][] },
  ];
  const b = [
    { metric: other, values: [[1, '3']] as [number, string][] },
    {
      metric: { zone: 'z', job: 'a', __name__: 'up' },
      values: [
        [1, '0.10000000000000002'],
        [2, 'NaN'],
      ] as [number, string][],
    },
  ];
  const found = compareAnswers(a, b);
  assert.deepEqual(found, { equal: 3, different: 0, onlyInA: 0, onlyInB: 0, first: '' });
  assert.ok(isSame(found));
});

test('what differs is counted, and the first of it told', () => {
  const a = [
    {
      metric,
      values: [
        [1, '1'],
        [2, '2'],
        [3, '3'],
      ] as [number, string][],
    },
    { metric: { __name__: 'only' }, values: [[1, '1']] as [number, string][] },
  ];
  const b = [
    {
      metric,
      values: [
        [1, '1'],
        [2, '2.001'],
        [4, '4'],
      ] as [number, string][],
    },
  ];
  const found = compareAnswers(a, b);
  assert.deepEqual(found, {
    equal: 1,
    different: 1,
    onlyInA: 2,
    onlyInB: 1,
    first: 'up{job="a",zone="z"} at 2: 2 and 2.001',
  });
  assert.ok(!isSame(found));
  assert.equal(compareAnswers([], b).first, 'up{job="a",zone="z"} is in the second alone');
});

test('queries are made of metrics and tags, or stand in a file', () => {
  const take = (names: string[], tags: string[], count: number, empty: string[] = []): string[] => {
    const queries = queriesOf(names, tags);
    const taken: string[] = [];
    let next = queries.next();
    while (next.done !== true && taken.length < count) {
      taken.push(next.value);
      next = queries.next(!empty.includes(next.value));
    }
    return taken;
  };
  const made = take(['a', 'b', 'bad-name'], ['__name__', 'host'], 5);
  assert.deepEqual(made, ['a', 'sum(b)', 'sum(a)', 'avg by (host) (b)', 'avg by (host) (a)']);
  const all = take(['a'], ['x', 'y'], 1000);
  assert.ok(all.length > 50 && new Set(all).size === all.length);
  // What has no value in the range is not asked for again.
  const some = take(['old', 'a'], ['x'], 1000, ['old']);
  assert.deepEqual(some.slice(0, 2), ['old', 'sum(a)']);
  assert.ok(some.slice(1).every((query) => !query.includes('old')));
  assert.deepEqual(queriesOfText('# note\none\tup == 1\n\nsum(x)\n'), ['up == 1', 'sum(x)']);
});

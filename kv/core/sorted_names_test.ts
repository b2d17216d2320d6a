import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { SortedNames } from './sorted_names.ts';

test('names keep their order, whatever comes and goes', () => {
  const random = new SeededRandom(4);
  let names = new SortedNames();
  const twin = new Set<string>();
  const sorted = (): string[] => [...twin].sort();
  for (let round = 0; round < 40; round++) {
    for (let i = 0; i < 300; i++) {
      const name = `k${random.below(100_000)}`;
      if (twin.has(name)) continue;
      twin.add(name);
      names.add(name);
    }
    if (random.below(4) === 0) {
      const stays = (name: string): boolean => !name.endsWith(String(round % 10));
      for (const name of twin) {
        if (stays(name)) continue;
        twin.delete(name);
        names.remove(name);
      }
    }
    if (random.below(8) === 0) names = SortedNames.of(sorted());
    const all = sorted();
    assert.equal(names.count, all.length);
    assert.deepEqual([...names.from('')], all);
    for (let i = 0; i < 20; i++) {
      const from = `k${random.below(120_000)}`;
      const before = all.filter((name) => name < from).length;
      assert.equal(names.rank(from), before);
      assert.deepEqual([...names.from(from)], all.slice(before));
    }
  }
});

test('all may go, and others come', () => {
  const names = SortedNames.of(['a', 'b']);
  names.remove('b');
  names.remove('a');
  assert.deepEqual([names.count, [...names.from('')], names.rank('b')], [0, [], 0]);
  names.add('c');
  assert.deepEqual([...names.from('a')], ['c']);
});

test('a name that comes before a hundred thousand others is quickly there', () => {
  const names = SortedNames.of(
    Array.from({ length: 100_000 }, (_, i) => `x${String(i).padStart(6, '0')}`),
  );
  for (let i = 0; i < 20_000; i++) names.add(`a${String(20_000 - i).padStart(6, '0')}`);
  assert.equal(names.count, 120_000);
  assert.equal(names.rank('x'), 20_000);
});

import { inOneGo } from '#lib/turns/steps.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { hashBytes } from '../../index/tables/term_dictionary.ts';
import { ColumnTexts } from './column_texts.ts';

/** Beside a map. */
function check(texts: readonly string[]): void {
  const column = new ColumnTexts(new Uint8Array(0));
  const known = new Map<string, number>();
  for (const text of texts) {
    const bytes = Buffer.from(`xx${text}y`, 'latin1');
    if (!known.has(text)) known.set(text, known.size);
    assert.equal(column.numberOf(bytes, 2, bytes.length - 1), known.get(text));
  }
  const inOrder = Array.from(inOneGo(column.order()), (number) =>
    Buffer.from(column.texts[number]!).toString('latin1'),
  );
  assert.deepEqual(inOrder, [...known.keys()].sort());
}

test('texts have numbers in the order in which they come, each once', () => {
  const random = new SeededRandom(1);
  for (const values of [1, 3, 40, 5_000]) {
    const some = () => 'é'.repeat(random.below(3)) + random.below(values).toString(36);
    check(Array.from({ length: 20_000 }, some));
  }
  check(['', 'a', '', 'aa', 'a', '\0', '\0\0']);
  // All begin alike, many go on alike for longer than what is compared as a number, and some end there.
  const letter = () => '\0a\xff'[random.below(3)]!;
  const alike = () => `zone-${Array.from({ length: random.below(12) }, letter).join('')}`;
  check(Array.from({ length: 9_000 }, alike));
});

test('texts that were made to have one place do not make look-ups long', () => {
  // A text of a name that differs in its last word alone can be chosen for any lower bits of its hash.
  const texts: string[] = [];
  for (let i = 0; texts.length < 3_000; i += 1) {
    const bytes = Buffer.from(`pod-${i.toString(36)}`);
    if ((hashBytes(bytes, 0, bytes.length, 0) & 0xff) === 7) texts.push(bytes.toString('latin1'));
  }
  check([...texts, ...texts]);
});

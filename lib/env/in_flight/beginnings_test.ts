import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Beginnings } from './beginnings.ts';

/** Takes the main loop for so long. */
function work(millis: number): void {
  for (const end = performance.now() + millis; performance.now() < end; );
}

test('a small request waits for no hundred large ones, and a large one for no hundred small ones', async () => {
  for (const manyAreSmall of [false, true]) {
    const beginnings = new Beginnings(1);
    const order: string[] = [];
    const begin = async (name: string, isSmall: boolean): Promise<void> => {
      await beginnings.turn({}, isSmall);
      order.push(name);
      work(1);
    };
    const many = Array.from({ length: 100 }, () => begin('one of many', manyAreSmall));
    await Promise.all([...many, begin('the other', !manyAreSmall)]);
    // Thirty-two begin at once before anybody has worked.
    assert.ok(order.indexOf('the other') <= 36, `${order.indexOf('the other')}`);
    assert.equal(order.length, 101);
  }
});

test('connections take turns, whatever each of them has sent ahead', async () => {
  const beginnings = new Beginnings(1);
  const order: number[] = [];
  const begin = async (connection: object, index: number): Promise<void> => {
    await beginnings.turn(connection);
    order.push(index);
    work(1);
  };
  const [first, second] = [{}, {}];
  const ahead = Array.from({ length: 50 }, () => begin(first, 0));
  await Promise.all([...ahead, begin(second, 1)]);
  assert.ok(order.indexOf(1) <= 36, `${order.indexOf(1)}`);
});

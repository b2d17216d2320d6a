import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Datagrams } from './datagrams.ts';

async function allOf(datagrams: Datagrams): Promise<string[]> {
  const texts: string[] = [];
  const reading = (async () => {
    for await (const text of datagrams.texts()) texts.push(Buffer.from(text).toString());
  })();
  datagrams.end();
  await reading;
  return texts;
}

test('each ends its last line, and an empty one is nothing', async () => {
  const datagrams = new Datagrams(() => assert.fail('there is room'));
  for (const text of ['a 1 1', '', 'b 2 2\nc 3 3']) datagrams.add(Buffer.from(text));
  assert.deepEqual(await allOf(datagrams), ['a 1 1\nb 2 2\nc 3 3\n']);
  assert.deepEqual(await allOf(datagrams), []);
});

test('what waits at the end is counted when nobody takes it', () => {
  let dropped = 0;
  const datagrams = new Datagrams(() => (dropped += 1));
  for (const text of ['a 1 1', 'b 2 2']) datagrams.add(Buffer.from(text));
  datagrams.drop();
  assert.equal(dropped, 2);
});

test('small ones count as what they take, not only as their bytes', async () => {
  let dropped = 0;
  const datagrams = new Datagrams(() => (dropped += 1));
  const message = Buffer.from('x');
  for (let i = 0; i < 100_000; i++) datagrams.add(message);
  assert.ok(dropped > 60_000, `${dropped}`);
  const texts = await allOf(datagrams);
  const kept = texts.join('').length / 'x\n'.length;
  assert.equal(kept + dropped, 100_000);
  assert.ok(Math.max(...texts.map(({ length }) => length)) < 4096);
  datagrams.add(message);
  assert.deepEqual(await allOf(datagrams), ['x\n'], 'there is room again');
});

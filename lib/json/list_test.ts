import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { readJsonList } from './list.ts';
import { Turns } from '../turns/turns.ts';
import { realEnv } from '../env/real.ts';

const turns = Turns.of(realEnv.clock);
const never = new AbortController().signal;

async function read(text: string, elementsMax = 100_000) {
  const { isList, parts } = readJsonList(
    new TextEncoder().encode(text),
    elementsMax,
    turns.begin(never),
  );
  const values: unknown[] = [];
  const twice: number[] = [];
  const refused = new Map<number, string>();
  let count = 0;
  for await (const part of parts) {
    assert.equal(part.firstIndex, values.length);
    for (const index of part.twice.keys()) twice.push(part.firstIndex + index);
    if (part.refusal !== null) refused.set(part.firstIndex, part.refusal);
    values.push(...part.values);
    count += 1;
  }
  return { value: isList ? values : values[0], twice, count, refused };
}

test('a list comes in parts, with what JSON.parse makes of it', async () => {
  const list = Array.from({ length: 20_000 }, (_, i) => ({ a: { b: `],"${i}` }, c: [i, -1.5e3] }));
  for (const text of [JSON.stringify(list), JSON.stringify(list, null, 1)]) {
    const { value, count } = await read(text);
    assert.deepEqual(value, list);
    assert.ok(count > 10, `${count}`);
  }
  for (const text of ['[]', ' [ ] ', '{}', '"a"', '5', 'null', '\n[[],[[]],{"a":[]}]\t']) {
    assert.deepEqual((await read(text)).value, JSON.parse(text), text);
  }
});

test('which elements have a key twice is told by their place in the whole list', async () => {
  const one = JSON.stringify({ text: 'x'.repeat(10_000) });
  const text = `[${one},${one},${one},${one},{"a":1,"a":2},${one},{"a":{"b":1,"b":1}}]`;
  assert.deepEqual((await read(text)).twice, [4, 6]);
});

test('what is no JSON is refused, wherever its flaw lies', async () => {
  const long = `"${'x'.repeat(40_000)}"`;
  for (const text of [
    '[',
    '[1',
    '[1}',
    '[1]]',
    '[1] 2',
    '[,1]',
    '[1,]',
    '[1,,2]',
    `[${long},]`,
    `[${long},,1]`,
    `[${long},${long}, ]`,
    `[${long},${long}`,
    `[${long},{"a":1]]`,
    `[${long},"open]`,
    '[{"a":1],{"b":2}]',
    '',
    '{"a":1',
  ]) {
    assert.throws(() => JSON.parse(text), text);
    await assert.rejects(read(text), { code: 'BAD_REQUEST', message: /is not JSON/ }, text);
  }
});

test('lists with more elements than expected, and values with more than one element has, are refused soon', async () => {
  await assert.rejects(read(`[${'1,'.repeat(1000)}1]`, 1000), /more than 1000 elements/);
  assert.equal(((await read(`[${'1,'.repeat(999)}1]`, 1000)).value as unknown[]).length, 1000);
  for (const many of [
    `[${'[],'.repeat(1_000_000)}1]`,
    `{"a":${'['.repeat(200)}${'{},'.repeat(1_000_000)}`,
  ]) {
    await assert.rejects(read(many), /values|elements/);
  }
  await assert.rejects(read(`[${'['.repeat(300)}`), /nested more than 256 deep/);
  const long = JSON.stringify('x'.repeat(4 << 20));
  await assert.rejects(read(long), /it is longer than 4194304 bytes: 4194306/);
});

test('an element of a list that has too many values, or is too long, is told by its place, and the others are read', async () => {
  const many = `{"a":[${'1,'.repeat(150_000)}1]}`;
  const long = JSON.stringify('x'.repeat(4 << 20));
  const refusals = {
    [many]: 'it has more than 150000 values: 150002',
    [long]: 'it is longer than 4194304 bytes: 4194306',
  };
  const most = `[${'1,'.repeat(149_998)}1]`;
  for (const elements of [
    [many],
    ['1', many],
    [many, '1'],
    [long, '[1]', many, long, most, '{"b":2}', many],
    [most, most],
    ['[1]', '2', '"c"', long, '3'],
  ]) {
    const expected = elements.map((text) =>
      text === many || text === long ? null : (JSON.parse(text) as unknown),
    );
    const { value, refused } = await read(`[${elements.join(' , ')} ]`);
    assert.deepEqual(value, expected);
    const places = elements.flatMap((text, i) => (text in refusals ? [i] : []));
    assert.deepEqual([...refused.keys()], places);
    for (const [place, refusal] of refused) {
      // Blanks around it count.
      assert.equal(refusal.slice(0, 30), refusals[elements[place]!]!.slice(0, 30));
    }
  }
  await assert.rejects(read(`[${many},]`), /an element is missing/);
  await assert.rejects(read(`[${many},,1]`), /is not JSON/);
});

test('texts that are changed somewhere are taken as JSON.parse takes them', async () => {
  const text = JSON.stringify(
    Array.from({ length: 300 }, (_, i) => ({ tags: { a: `b${i}`, c: '"\\' }, value: [i, null] })),
  );
  const change = fc.record({
    at: fc.nat(text.length - 1),
    by: fc.constantFrom('', ',', '[', ']', '{', '}', '"', ' ', '1', ':', '\\'),
    isInserted: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      let changed = text;
      for (const { at, by, isInserted } of changes) {
        changed = changed.slice(0, at) + by + changed.slice(isInserted ? at : at + 1);
      }
      let expected: unknown;
      try {
        expected = JSON.parse(changed);
      } catch {
        await assert.rejects(read(changed), { code: 'BAD_REQUEST' });
        return;
      }
      assert.deepEqual((await read(changed)).value, expected);
    }),
    { numRuns: 300 },
  );
});

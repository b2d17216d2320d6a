import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noFeatures } from './features.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { ParsedQueries } from './parsed_queries.ts';

const queries = (): ParsedQueries => new ParsedQueries(noFeatures);

test('a text that comes again is not parsed again, also while others come', async () => {
  const parsed = queries();
  const text = 'sum by (job) (rate(x{a=~"b.*"}[5m]))';
  const [first, second] = await Promise.all([
    parsed.parse(text, turningOf()),
    parsed.parse(text, turningOf()),
  ]);
  assert.deepEqual(first, second);
  assert.equal(parsed.size, 1);
  const again = await parsed.parse(text, turningOf());
  for (let i = 0; i < 10; i++) {
    assert.equal(await parsed.parse(text, turningOf()), again);
    await parsed.parse(`x${i}`, turningOf());
  }
  assert.equal(parsed.size, 11);
});

test('a bad text is bad each time, and not kept', async () => {
  const parsed = queries();
  for (let i = 0; i < 2; i++) {
    await assert.rejects(parsed.parse('sum(', turningOf()), { kind: 'bad_data' });
  }
  assert.equal(parsed.size, 0);
});

test('those that came longest ago go first; long texts are not kept', async () => {
  const parsed = queries();
  const first = await parsed.parse('first', turningOf());
  for (let i = 0; i < 999; i++) await parsed.parse(`x${i}`, turningOf());
  assert.equal(await parsed.parse('first', turningOf()), first);
  await parsed.parse('one_more', turningOf());
  assert.equal(parsed.size, 1_000);
  assert.equal(await parsed.parse('first', turningOf()), first);
  const long = (name: string): string => `${name}{a="${'b'.repeat(4_000)}"}`;
  for (let i = 0; i < 70; i++) await parsed.parse(long(`y${i}`), turningOf());
  assert.ok(parsed.size < 70, `${parsed.size}`);
  const { size } = parsed;
  await parsed.parse(`z{a="${'b'.repeat(5_000)}"}`, turningOf());
  assert.equal(parsed.size, size);
});

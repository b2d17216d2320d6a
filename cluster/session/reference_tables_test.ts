import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { FakeTable } from './fakes_testing.ts';
import { ReferenceTables } from './reference_tables.ts';
import type { References } from './references.ts';
import type { SeriesTable } from './types.ts';

const slotMax = 99_999;
/** Of one table with room for these slots. */
const tableBytes = 8 * (slotMax + 1);

function open(tables: number) {
  let millis = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => millis };
  const kept = new ReferenceTables(clock, tables * tableBytes + 100_000);
  const series: SeriesTable = new FakeTable();
  const of = (instance: string, namespace = 'ns') => kept.of(series, instance, namespace, slotMax);
  return { kept, of, series, pass: (by: number) => void (millis += by) };
}

/** Whether what a node answers is there for the next batch. */
function learns(references: References): boolean {
  references.learn(1, 'epoch', [7], [1], Uint32Array.of(3, 1));
  const [slots, generations] = [Uint32Array.of(7), Uint32Array.of(1)];
  return references.resolve(1, slots, generations, new Uint32Array(1)) === 0;
}

test('references of all instances together stay within their limit, and those in use stay', () => {
  const { kept, of, pass } = open(3);
  for (const instance of ['a', 'b', 'c']) assert.ok(learns(of(instance)));
  assert.ok(kept.bytes >= 3 * tableBytes);
  const none = of('d');
  assert.ok(!learns(none), 'its series are named in full');
  assert.equal(none.epoch, '');
  assert.equal(of('a').epoch, 'epoch');
  pass(30_000);
  of('a');
  pass(30_001);
  // b and c were not used for a minute.
  assert.ok(learns(of('d')));
  assert.ok(learns(of('e')));
  assert.ok(!learns(of('b')));
  assert.equal(of('a').epoch, 'epoch');
  assert.ok(kept.bytes <= 3 * tableBytes + 100_000, String(kept.bytes));
});

test('references of what has left the cluster are freed at once, whoever still learns of them', () => {
  const { kept, of } = open(4);
  const gone = of('a');
  for (const namespace of ['ns', 'other']) assert.ok(learns(of('b', namespace)));
  kept.retain(new Set(['b']), new Set(['ns']));
  assert.ok(kept.bytes < 2 * tableBytes, String(kept.bytes));
  // An answer that comes late.
  assert.ok(!learns(gone));
  assert.ok(kept.bytes < 2 * tableBytes);
  assert.equal(of('b').epoch, 'epoch');
  kept.retain(new Set(), new Set());
  assert.equal(kept.bytes, 0);
});

test('a table of one write has none', () => {
  const { kept, series } = open(1);
  const one = Object.assign(Object.create(series) as SeriesTable, { isOfOneWrite: true as const });
  assert.ok(!learns(kept.of(one, 'a', 'ns', 5)));
  assert.equal(kept.bytes, 0);
});

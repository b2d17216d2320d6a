import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import type { KeyValue } from './kv.ts';
import {
  breakBetween,
  firstLineage,
  lineageToStored,
  nextLineage,
  refuseUnapproved,
  type SeenKey,
  storedLineage,
} from './lineage.ts';
import { MemoryKvStore } from './memory.ts';
import { encodeJson } from './stored_json.ts';

const never = new AbortController().signal;
const bytes = (text: string) => new TextEncoder().encode(text);
const at = (
  createRevision: number,
  modRevision: number,
  version: number,
  text = 'x',
): SeenKey & { item: NonNullable<SeenKey['item']> } => ({
  item: { createRevision, modRevision, version, value: bytes(text) },
  modRevision,
});
const gone = (revision: number): SeenKey => ({ item: null, modRevision: revision });

test('whatever a key goes through, a later state follows from an earlier one', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const seen: SeenKey[] = [];
  const note = async () => {
    const { items, revision } = await kv.list('k', never);
    const item = items[0] ?? null;
    seen.push({ item, modRevision: item?.modRevision ?? revision });
  };
  await note();
  for (const text of ['a', 'a', 'b', null, 'c', 'd', null, 'e']) {
    await kv.transact([], [{ kind: 'put', key: 'other', value: bytes('x') }], never);
    const put = { kind: 'put', key: 'k', value: bytes(text ?? '') } as const;
    await kv.transact([], [text === null ? { kind: 'delete', key: 'k' } : put], never);
    await note();
  }
  for (const [i, earlier] of seen.entries()) {
    for (const later of seen.slice(i)) assert.equal(breakBetween(earlier, later), null);
    // And none the other way round, where a revision says so.
    for (const before of seen.slice(0, i)) assert.notEqual(breakBetween(earlier, before), null);
  }
});

test('what went back and on again is told by revisions, versions and values', () => {
  const seen = at(10, 20, 5);
  // As many changes since as before, others than those that were seen.
  assert.match(breakBetween(seen, at(10, 20, 5, 'y'))!, /another value of revision 20/);
  assert.match(breakBetween(seen, at(10, 30, 5))!, /version 5 of revision 30, and had 5 of 20/);
  assert.match(breakBetween(seen, at(10, 30, 4))!, /version 4 of revision 30/);
  assert.match(breakBetween(seen, at(10, 22, 8))!, /version 8 of revision 22/);
  assert.equal(breakBetween(seen, at(10, 22, 7)), null);
  // Made again, before what was seen; then after it.
  assert.match(breakBetween(seen, at(15, 30, 2))!, /made in revision 15, and in 10 before/);
  assert.equal(breakBetween(seen, at(21, 30, 2)), null);
  assert.match(breakBetween(seen, gone(20))!, /gone in revision 20/);
  assert.match(breakBetween(seen, gone(19))!, /as of revision 19, and was as of 20/);
  assert.equal(breakBetween(seen, gone(21)), null);
  assert.match(breakBetween(gone(12), at(10, 20, 5))!, /made in revision 10, and not there in 12/);
});

test('a lineage that nobody approved refuses changes, and knows those before it', () => {
  const itemOf = (json: object): KeyValue => {
    const value = encodeJson(json);
    return { key: 'k', value, createRevision: 1, modRevision: 7, version: 1, leaseId: '0' };
  };
  assert.deepEqual(storedLineage(null), firstLineage);
  refuseUnapproved(firstLineage);
  const next = nextLineage(nextLineage(firstLineage, 'one'), 'two');
  assert.deepEqual(next.follows, ['', 'one']);
  const stored = storedLineage(itemOf(lineageToStored(next)));
  assert.deepEqual(stored, { ...next, modRevision: 7 });
  assert.throws(() => refuseUnapproved(stored), { code: 'CONFLICT', message: /placement approve/ });
  assert.throws(() => storedLineage(itemOf({ id: 5 })), /value of key k is damaged.*id/);
  // Who declares one names in front what it knew: the order stays that in which they came.
  const declared = nextLineage({ ...next, follows: ['two', ...next.follows] }, 'three');
  assert.deepEqual(storedLineage(itemOf(lineageToStored(declared))).follows, ['', 'one', 'two']);
  // Those of a later release are passed over.
  const later = storedLineage(itemOf({ ...lineageToStored(next), future: 1 }));
  assert.equal(later.id, 'two');
  const many = { ...next, follows: Array.from({ length: 200 }, (_, i) => `${i}`) };
  assert.equal((lineageToStored(many) as { follows: string[] }).follows.at(-1), '199');
  assert.equal((lineageToStored(many) as { follows: string[] }).follows.length, 64);
});

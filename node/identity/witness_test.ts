import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Introduction } from '#cluster/node/service.ts';
import { Witness } from './witness.ts';

const heard: Introduction = {
  instanceId: 'a',
  incarnation: 'one',
  bootCount: 3,
  mark: 'm2',
  markBefore: 'm1',
  placementVersion: 1,
  lineageId: '',
  asks: false,
  deletionSequence: 0,
};

let millis = 0;

/** The same folder at its next start. */
const asker: Introduction = { ...heard, bootCount: 4, asks: true };

test('a folder is vouched for when it is the one that was heard of last', () => {
  const witness = new Witness({ monotonicMillis: () => millis });
  assert.equal(witness.vouchesFor(asker), false);
  witness.note(heard);
  assert.equal(witness.vouchesFor(asker), true);
  // It was marked once more before it ended, and nobody heard that.
  assert.equal(witness.vouchesFor({ ...asker, mark: 'm3', markBefore: 'm2' }), true);
  assert.equal(witness.vouchesFor({ ...asker, instanceId: 'b' }), false);
});

test('nobody vouches for an older copy of a folder, another folder, or a second process', () => {
  const witness = new Witness({ monotonicMillis: () => millis });
  witness.note(heard);
  assert.equal(witness.vouchesFor({ ...asker, mark: 'm1', markBefore: 'm0' }), false);
  assert.equal(witness.vouchesFor({ ...asker, incarnation: 'two' }), false);
  assert.equal(witness.vouchesFor({ ...asker, bootCount: 3 }), false);
  witness.note({ ...asker, asks: false });
  assert.equal(witness.vouchesFor(asker), false);
});

test('who has not introduced itself for some time is silent', () => {
  const witness = new Witness({ monotonicMillis: () => millis });
  assert.equal(witness.isSilent('a'), true);
  witness.note(heard);
  millis += 15_000;
  assert.equal(witness.isSilent('a'), false);
  millis += 1;
  assert.equal(witness.isSilent('a'), true);
});

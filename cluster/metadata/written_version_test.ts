import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtMillis } from '#lib/hybrid_clock.ts';
import { writtenVersionOf } from './written_version.ts';

const startMillis = 1_700_000_000_000;
const at = (seconds: number): number => versionAtMillis(startMillis + seconds * 1000);

/** @param median and `own` seconds after the start; null for no median */
function written(heard: number, median: number | null, own: number): number {
  const medianMillis = () => (median === null ? null : startMillis + median * 1000);
  const nowMillis = () => startMillis + own * 1000;
  return writtenVersionOf({ lastVersion: heard }, { medianMillis }, { nowMillis });
}

test('what was written before a deletion is what was heard of, and what the time gives', () => {
  assert.equal(written(at(20), 0, 0), at(20));
  assert.equal(written(at(-20), 0, 0), at(0));
  // Our clock is behind: others write by the time of the nodes.
  assert.equal(written(0, 0, -3600), at(0));
  assert.equal(written(0, null, -3600), at(-3600));
  assert.equal(written(at(0), null, -20), at(0));
  // What was given while our clock was ahead leads no further than nodes lead.
  assert.equal(written(at(3600), 0, 0), at(30));
  assert.equal(written(at(3600), null, 0), at(30));
});

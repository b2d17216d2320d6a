import assert from 'node:assert/strict';
import { test } from 'node:test';
import { takeCounts } from '#test/sim/counts.ts';
import { fuzz } from './crash_fuzz.ts';

test('crashes, failed syncs, a full disk and flipped bits lose nothing that was acknowledged', async () => {
  for (let seed = 8; seed <= 16; seed += 1) await fuzz(seed, 8);
  const counts = takeCounts();
  // A campaign that stopped doing what it is for would find nothing for ever.
  for (const wanted of [
    'failed sync:',
    'short write:',
    'write without space:',
    'lost write at power loss:',
    'torn write at power loss:',
    'new file lost at power loss:',
    'removed file back after power loss:',
    'flipped bit:',
    'removal: commit log',
    'removal: snapshot',
    'removal: fileset',
    'short write: merged fileset',
    'power lost during write',
    'power lost during flush',
    'power lost during truncation',
    'begun: snapshot',
    'begun: cleanup',
  ]) {
    assert.ok(
      counts.some(([what]) => what.startsWith(wanted)),
      wanted,
    );
  }
});

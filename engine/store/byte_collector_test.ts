import assert from 'node:assert/strict';
import test from 'node:test';
import { ByteCollector } from './byte_collector.ts';

test('parts stand one after the other, foreseen or not', () => {
  for (const expected of [0, 3, 1000]) {
    const collector = new ByteCollector();
    collector.expect(expected);
    collector.append(Uint8Array.of(1, 2));
    collector.append(new Uint8Array(0));
    collector.append(Uint8Array.of(3, 4, 5));
    // An expectation that was too low, or is lowered, changes nothing.
    collector.expect(1);
    assert.deepEqual([...collector.view()], [1, 2, 3, 4, 5]);
    assert.equal(collector.length, 5);
  }
});

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

test('expectations that rise with each part do not copy all that is there each time', () => {
  const collector = new ByteCollector();
  const buffers = new Set<ArrayBuffer>();
  for (let part = 0; part < 1000; part++) {
    collector.expect(collector.length + 3000);
    collector.append(new Uint8Array(1000).fill(part));
    buffers.add(collector.view().buffer);
  }
  assert.equal(collector.length, 1_000_000);
  assert.ok(buffers.size < 20, `${buffers.size} copies`);
  assert.ok(collector.view().every((byte, i) => byte === Math.floor(i / 1000) % 256));
});

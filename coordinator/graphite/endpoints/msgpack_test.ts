import assert from 'node:assert/strict';
import { test } from 'node:test';
import { packedDictionary, packedList } from './msgpack.ts';

test('packed lists are those that msgpack reads', () => {
  const column = { values: Float64Array.of(1.5, 9, -0), present: Uint8Array.of(1, 0, 1) };
  const items = [packedDictionary({ ü: [-1, true, null, 0.5] }, { name: 'v', of: column })];
  const text = Buffer.concat([...packedList(1, items)]).toString('hex');
  assert.equal(
    text,
    [
      'dd00000001',
      'df00000002',
      'db00000002c3bc',
      'dd00000004',
      'd3ffffffffffffffff',
      'c3',
      'c0',
      'cb3fe0000000000000',
      'db0000000176',
      'dd00000003',
      'cb3ff8000000000000',
      'c0',
      'cb8000000000000000',
    ].join(''),
  );
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';
import { decodeReadRequest } from './messages.ts';

function requestOf(matchers: number): Uint8Array {
  const query = new MessageWriter();
  for (let i = 0; i < matchers; i++) {
    const matcher = new MessageWriter();
    matcher.int64Field(1, 1);
    matcher.bytesField(2, Buffer.from(`name${i}`));
    matcher.bytesField(3, Buffer.from('value'));
    query.bytesField(3, matcher.finish());
  }
  const request = new MessageWriter();
  request.bytesField(1, query.finish());
  return new Uint8Array(request.finish());
}

test('decodeReadRequest() takes thousands of matchers, and no millions of fields', () => {
  const { queries } = decodeReadRequest(requestOf(20_000));
  assert.equal(queries[0]!.matchers.length, 20_000);
  assert.deepEqual(queries[0]!.matchers[7], { kind: '!=', name: 'name7', value: 'value' });
  const unknown = Buffer.alloc(16 << 20, Buffer.from([0x20, 1]));
  const packed = new MessageWriter();
  packed.bytesField(2, new Uint8Array(1 << 20));
  for (const bytes of [requestOf(30_000), unknown, new Uint8Array(packed.finish())]) {
    assert.throws(() => decodeReadRequest(bytes), {
      code: 'BAD_REQUEST',
      message: /more than 100000 fields/,
    });
  }
});

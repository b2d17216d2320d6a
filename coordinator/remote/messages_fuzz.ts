/**
 * Damaged remote-read requests: whatever the bytes are, they are read or refused, never anything
 * else.
 */
import { TsdbError } from '#lib/errors.ts';
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';
import { countInputs } from '#test/sim/counts.ts';
import { decodeReadRequest } from './messages.ts';

/** A small generator of its own, so that a seed says everything. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

export function fuzz(seed: number, size: number): void {
  const random = generator(seed);
  for (let round = 0; round < size; round += 1) {
    countInputs('remote read');
    const bytes = new Uint8Array(request(random));
    for (let damage = random(4); damage > 0; damage -= 1) {
      if (bytes.length > 0) bytes[random(bytes.length)] = random(256);
    }
    const cut = bytes.subarray(0, random(10) === 0 ? random(bytes.length + 1) : bytes.length);
    try {
      decodeReadRequest(cut);
    } catch (error) {
      if (error instanceof TsdbError && error.code === 'BAD_REQUEST') continue;
      throw error;
    }
  }
}

function request(random: (below: number) => number): Uint8Array {
  const message = new MessageWriter();
  for (let queries = random(4); queries > 0; queries -= 1) {
    const query = new MessageWriter();
    query.int64Field(1, random(2) === 0 ? -random(2 ** 40) : random(2 ** 40));
    query.int64Field(2, random(2 ** 40));
    for (let matchers = random(4); matchers > 0; matchers -= 1) {
      const matcher = new MessageWriter();
      matcher.int64Field(1, random(4));
      matcher.bytesField(
        2,
        Uint8Array.from({ length: random(8) }, () => 97 + random(26)),
      );
      matcher.bytesField(
        3,
        Uint8Array.from({ length: random(8) }, () => 97 + random(26)),
      );
      query.bytesField(3, matcher.finish());
    }
    message.bytesField(1, query.finish());
  }
  message.bytesField(2, Uint8Array.of(1, 0));
  return message.finish();
}

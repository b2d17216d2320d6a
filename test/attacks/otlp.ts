/** OpenTelemetry metrics that cost more than they are: much of nothing, and nothing twice. */
import { gzipSync } from 'node:zlib';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask } from './http.ts';
import { bytesField, doubleField } from './protobuf.ts';
import { SeededRandom } from '../seeded_random.ts';

const path = '/api/v1/otlp/v1/metrics';
const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' };
const mebibyte = 2 ** 20;

const gauge = 5;
const histogram = 9;

function bodyOf(kind: number, points: Uint8Array, description = ''): Buffer {
  const metric = Buffer.concat([
    bytesField(1, 'attacked'),
    bytesField(2, description),
    bytesField(kind, points),
  ]);
  return bytesField(1, bytesField(2, bytesField(2, metric)));
}

function timeField(): Buffer {
  const nanos = Buffer.alloc(8);
  nanos.writeBigUInt64LE(BigInt(Date.now()) * 1_000_000n);
  return Buffer.concat([Buffer.of((3 << 3) | 1), nanos]);
}

function attribute(number: number, key: string, value: Uint8Array): Buffer {
  return bytesField(number, Buffer.concat([bytesField(1, key), bytesField(2, value)]));
}

/** A list in a list, and so on. */
function nested(depth: number): Buffer {
  let value = bytesField(1, 'x');
  for (let i = 0; i < depth; i++) value = bytesField(5, bytesField(1, value));
  return value;
}

/** Of the sizes that limits let through, and of those that they do not. */
function bodies(random: SeededRandom): readonly Buffer[] {
  const emptyPoints = (bytes: number): Buffer => Buffer.alloc(bytes, Buffer.of(0x0a, 0));
  const wide = Array.from({ length: 1000 }, (_, i) => attribute(7, `k${i}`, nested(3)));
  const bounds = (count: number): Buffer => {
    const numbers = Float64Array.from({ length: count }, (_, i) => i + random.below(1000) / 1000);
    return Buffer.from(numbers.buffer);
  };
  const buckets = Array.from({ length: 4 }, () =>
    bytesField(
      1,
      Buffer.concat([
        timeField(),
        bytesField(6, Buffer.alloc(8 * 1000)),
        bytesField(7, bounds(999)),
      ]),
    ),
  );
  const values = Array.from({ length: 20_000 }, (_, i) =>
    bytesField(
      1,
      Buffer.concat([
        timeField(),
        doubleField(4, i),
        attribute(7, 'i', bytesField(1, String(i % 5000))),
      ]),
    ),
  );
  return [
    bodyOf(gauge, emptyPoints(3 * mebibyte)),
    bodyOf(gauge, emptyPoints(31 * mebibyte)),
    bodyOf(gauge, bytesField(1, Buffer.concat([timeField(), doubleField(4, 1), ...wide]))),
    bodyOf(gauge, bytesField(1, Buffer.concat([timeField(), attribute(7, 'deep', nested(4000))]))),
    bodyOf(histogram, Buffer.concat([...buckets, Buffer.of(0x10, 2)])),
    bodyOf(gauge, Buffer.concat(values)),
    bodyOf(gauge, Buffer.alloc(0), 'x'.repeat(30 * mebibyte)),
  ].map((body) => gzipSync(body, { level: 1 }));
}

const points: Attack = {
  name: 'OTLP of much that is nothing',
  subject: 'bodies',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const all = bodies(random);
    await keepDoing(new Span(seconds), random.pick([4, 12]), async () => {
      answers.note((await ask(coordinator, path, { body: random.pick(all), headers })).status);
    });
    return answers;
  },
};

export const otlpAttacks: readonly Attack[] = [points];

/** Bodies of Datadog and OpenTSDB that cost more than they are: what their readers do for each part of them, many times. */
import { gzipSync } from 'node:zlib';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask } from './http.ts';
import { bytesField } from './protobuf.ts';

const mebibyte = 2 ** 20;
const metric = 2;

interface Body {
  readonly path: string;
  readonly type: string;
  readonly bytes: Buffer;
}

const json = (path: string, value: unknown): Body => ({
  path,
  type: 'application/json',
  bytes: Buffer.from(JSON.stringify(value)),
});

const agents = (bytes: Buffer): Body => ({
  path: '/api/v2/series',
  type: 'application/x-protobuf',
  bytes,
});

/** Of the sizes that limits let through. */
function bodies(random: SeededRandom): readonly Body[] {
  const tag = random.below(1e9);
  const seconds = Math.floor(Date.now() / 1000);
  const v1 = (series: unknown): Body => json('/datadog/api/v1/series', { series });
  const put = (points: unknown): Body => json('/api/put?details', points);
  const times = <T>(count: number, of: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => of(i));
  const point = { metric: 'attacked', timestamp: seconds, value: 1 };
  return [
    v1([{ metric: 'attacked', points: Array(99_000).fill(0) }]),
    v1([{ metric: 'attacked', points: Array(50_000).fill('x'.repeat(90)) }]),
    v1(Array(100_000).fill({})),
    v1([{ metric: 'attacked', points: [[seconds, 1]], tags: times(200_000, (i) => `t${i}`) }]),
    v1(times(20_000, (i) => ({ metric: `attacked_${tag}_${i}`, points: [[seconds, 1]] }))),
    v1(['x\n'.repeat(1.6 * mebibyte)]),
    agents(bytesField(1, bytesField(1, Buffer.alloc(4 * mebibyte, Buffer.of(0x0a, 0))))),
    agents(bytesField(1, bytesField(4, Buffer.alloc(4 * mebibyte, Buffer.of(0x10, 0))))),
    agents(bytesField(1, Buffer.alloc(4 * mebibyte, Buffer.of(metric * 8 + 2, 0)))),
    agents(Buffer.alloc(4 * mebibyte, bytesField(1, Buffer.alloc(0)))),
    put(times(100_000, () => 0)),
    put(times(150, () => ({ ...point, value: 'x'.repeat(100_000) }))),
    put(times(8, (i) => ({ ...point, tags: { [`a${i}`]: 'x'.repeat(1.9 * mebibyte) } }))),
    put(times(20_000, (i) => ({ ...point, tags: { a: `${tag}-${i}` } }))),
    put({ ...point, tags: { a: 'x\n'.repeat(6 * mebibyte) } }),
  ];
}

const senders: Attack = {
  name: "bodies of Datadog and OpenTSDB's of much that is nothing",
  subject: 'bodies',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const all = bodies(random).map((body) => ({ ...body, bytes: gzipSync(body.bytes) }));
    await keepDoing(new Span(seconds), random.pick([4, 12]), async () => {
      const { path, type, bytes } = random.pick(all);
      const headers = { 'content-type': type, 'content-encoding': 'gzip' };
      answers.note((await ask(coordinator, path, { body: bytes, headers })).status);
    });
    return answers;
  },
};

export const agentAttacks: readonly Attack[] = [senders];

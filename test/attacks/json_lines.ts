/** Exported lines of JSON that cost more than they are. */
import { gzipSync } from 'node:zlib';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask } from './http.ts';

const path = '/api/v1/import';
const headers = { 'content-encoding': 'gzip' };
const mebibyte = 2 ** 20;

function repeated(line: string, bytes: number): string {
  return `${line}\n`.repeat(Math.ceil(bytes / (line.length + 1)));
}

/** Lines that are none, those of many rows, of numbers that are slow to read, and of series that are all new. */
function bodies(random: SeededRandom): readonly Buffer[] {
  const millis = Date.now();
  const long = (value: string, count: number): string =>
    `{"metric":{"__name__":"attacked"},"values":[${Array(count).fill(value).join()}],"timestamps":[${Array(count).fill(millis).join()}]}`;
  const tag = random.below(1e9);
  const news = Array.from(
    { length: 40_000 },
    (_, i) => `{"metric":{"__name__":"attacked","a":"${tag}-${i}"},"values":[1],"timestamps":[1]}`,
  );
  const labels = Array.from({ length: 1000 }, (_, i) => `"l${i}":"x"`).join();
  return [
    repeated('x', 8 * mebibyte),
    repeated('', 32 * mebibyte),
    repeated('{"metric":{"a b":""},"values":[1],"timestamps":[1]}', 8 * mebibyte),
    repeated(`{"metric":{${labels},"__name__":"1"},"values":[1],"timestamps":[1]}`, 8 * mebibyte),
    repeated(long('1', 60_000), 16 * mebibyte),
    repeated(long('0.12345678901234567890e-300', 20_000), 16 * mebibyte),
    '1'.repeat(64 * mebibyte),
    news.join('\n'),
  ].map((body) => gzipSync(body, { level: 1 }));
}

const lines: Attack = {
  name: 'lines of JSON of much that is nothing',
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

export const jsonLinesAttacks: readonly Attack[] = [lines];

/** Queries that compute for long, each with a deadline of a second that they are held to. */
import assert from 'node:assert/strict';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span, type Subject, type Target } from './attack.ts';
import { ask, askQuery, askRange, attackTimeoutMillis, jsonWritePath, type Reply } from './http.ts';
import { bytesField, numberField, snappyLiterals, snappyRepeated } from './protobuf.ts';

export type Question = (target: Target) => Promise<Reply>;

/** Of a second, a query may not go on for so much more, on a machine that is as busy as it likes. */
const overtimeMillisMax = 10_000;

export function noteTimed(answers: Answers, what: string, { status, text, millis }: Reply): void {
  answers.note(status);
  assert.ok(
    millis < attackTimeoutMillis + overtimeMillisMax,
    `${what} was answered ${status} after ${Math.round(millis)} ms`,
  );
  assert.notEqual(status, 500, `${what}: ${text}`);
}

export const timed = (
  name: string,
  subject: Subject,
  atOnce: number,
  questions: readonly Question[],
): Attack => ({
  name,
  subject,
  async run(target, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), atOnce, async () => {
      const question = random.below(questions.length);
      noteTimed(answers, `${name}, ${question}`, await questions[question]!(target));
    });
    return answers;
  },
});

const instant =
  (query: string): Question =>
  ({ ports }) =>
    askQuery(ports, query);
const range =
  (query: string, steps = 11_000): Question =>
  ({ ports }) =>
    askRange(ports, query, steps);

const script =
  (query: string, steps = 11_000): Question =>
  ({ ports }) =>
    askRange(ports, query, steps, 'm3ql');

const around = (call: string, inner: string, end: string, times: number): string =>
  `${call}(`.repeat(times) + inner + end.repeat(times);

const windows = timed('long windows and subqueries', 'queries', 3, [
  instant('sum_over_time(sum_over_time(vector(1)[1d:1s])[1d:1s])'),
  instant(around('sum_over_time', 'vector(1)', '[1h:1s])', 3)),
  instant(around('sum_over_time', 'vector(1)', '[1h:1s])', 6)),
  instant('max_over_time(vector(1)[115d:1s])'),
  range('max_over_time(vector(1)[100d:1s])', 1000),
  range('quantile_over_time(0.5, vector(1)[100d:1s])', 200),
  range('quantile_over_time(0.5, vector(time())[3h:1s])'),
  range('predict_linear(vector(time())[3h:1s],1e300)', 1000),
  range('stddev_over_time(vector(time())[1d:1s])', 1000),
  range(around('max_over_time', 'vector(1)', '[1m:1s])', 50)),
]);

const quoted = '"xxxxxxxxxxxxxxxxxxxx"';
const labelled = `label_replace(vector(1),"a",${quoted},"","")`;

const labels = timed('labels that grow', 'queries', 3, [
  range(`count_values("${'l'.repeat(60_000)}", vector(time()))`),
  range(`count_values("${'l'.repeat(1000)}", vector(time()))`, 2000),
  range('count_values("l", vector(time())) + 0'),
  instant(`${'label_join('.repeat(26)}${labelled}${',"a","","a","a")'.repeat(26)}`),
  instant(`${'label_join('.repeat(11)}${labelled}${',"a","","a","a")'.repeat(11)}`),
  instant(`${'label_replace('.repeat(30)}${labelled}${',"a","$1$1","a","(.*)")'.repeat(30)}`),
  range(
    `absent_over_time(nope{${Array.from({ length: 500 }, (_, i) => `a${i}="${'b'.repeat(100)}"`).join(',')}}[3h])`,
    1000,
  ),
]);

const sortings = timed('orders and joins of many', 'queries', 3, [
  range('topk(1e18, vector(time()))'),
  range('sort_by_label(marker, "part")', 2000),
  range('marker * on () group_left marker'),
  range('marker unless on (part) (marker offset 1s) or marker'),
  range('quantile by (part) (0.5, marker)', 11_000),
  instant(Array.from({ length: 100 }, () => 'marker').join('+')),
]);

/** Each of `times` macros stands for that before it, twice. */
const doubled = (times: number, body: (before: string) => string): string =>
  Array.from({ length: times }, (_, k) => `m${k + 1}=${body(`m${k}`)};`).join('');

const scripts = timed('scripts of M3QL', 'queries', 3, [
  script(`constantLine 1${'|abs'.repeat(16_000)}`),
  script(`constantLine 1${'|abs'.repeat(1_900)}`),
  script(`constantLine 1|diff${' 1'.repeat(1_900)}`),
  script(`m0=constantLine 1;${doubled(60, (before) => `${before}|diff (${before})`)}m60`),
  script(`m0=abs;${doubled(90, (before) => `${before}|${before}`)}constantLine 1|m90`),
  script(`m0=constantLine 1;${doubled(600, (before) => `${before}|scale 2`)}m600`),
  script(`fetch name:marker${'|moving 100d'.repeat(900)}`, 100),
  script('fetch name:marker|moving 10000 median|moving 10000 stddev'),
  script(`fetch name:marker${'|timeshift 999999999999s'.repeat(100)}`),
  script(`fetch name:${'{a,b*,c?}'.repeat(800)}`, 10),
  script(
    `constantLine 1|diff${Array.from({ length: 450 }, (_, k) => ` (fetch name:nope a${k}:*)`).join('')}`,
    10,
  ),
  script(`fetch name:marker|${'x'.repeat(65_000)}`),
]);

const writtenSeries: Question = ({ ports: { coordinator } }) => {
  const timestamp = Date.now() / 1000;
  const rows = Array.from({ length: 50_000 }, (_, k) => ({
    tags: { __name__: 'rows', k: String(k % 500) },
    timestamp,
    value: k,
  }));
  return ask(coordinator, jsonWritePath, { body: JSON.stringify(rows) });
};

/** They have no deadline: who writes so much waits as long as others are served before. */
const writes: Attack = {
  name: 'large JSON writes',
  subject: 'queries',
  async run(target, _seed, seconds) {
    const answers = new Answers();
    await keepDoing(new Span(seconds), 3, async () => {
      const { status, text } = await writtenSeries(target);
      answers.note(status);
      assert.notEqual(status, 500, text);
    });
    return answers;
  },
};

const readHeaders = { 'content-encoding': 'snappy', 'content-type': 'application/x-protobuf' };

function remoteReadBody(queries: number): Buffer {
  const now = Date.now();
  const matcher = Buffer.concat([
    numberField(1, 3),
    bytesField(2, '__name__'),
    bytesField(3, 'nope'),
  ]);
  const query = Buffer.concat([
    numberField(1, now - 1_000_000),
    numberField(2, now),
    bytesField(3, matcher),
  ]);
  return snappyLiterals(Buffer.concat(Array.from({ length: queries }, () => bytesField(1, query))));
}

const remoteReads: Attack = {
  name: 'remote reads of many queries',
  subject: 'queries',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const empties = Uint8Array.of(10, 0, 10, 0, 10, 0, 10, 0);
    const bodies = [
      remoteReadBody(100),
      remoteReadBody(1000),
      snappyRepeated(empties, (15 << 20) / empties.length),
      snappyRepeated(empties, 12),
    ];
    await keepDoing(new Span(seconds), 3, async () => {
      const sent = { body: random.pick(bodies), headers: readHeaders };
      answers.note((await ask(coordinator, '/api/v1/compat/remote/read', sent)).status);
    });
    return answers;
  },
};

export const queryAttacks: readonly Attack[] = [
  windows,
  labels,
  sortings,
  scripts,
  writes,
  remoteReads,
];

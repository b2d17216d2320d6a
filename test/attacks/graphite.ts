/** Requests of Graphite that ask for much: rows, texts, patterns and lists, each with a deadline that it is held to. */
import { type Attack, type Target } from './attack.ts';
import { ask, askForm, attackTimeoutMillis, type Reply } from './http.ts';
import { type Question, timed } from './queries.ts';

const timeout = `${attackTimeoutMillis}ms`;

/** @param parameters of which some may come several times */
const formOf =
  (path: string, parameters: readonly (readonly [string, string])[]): Question =>
  ({ ports: { coordinator } }: Target): Promise<Reply> => {
    const body = new URLSearchParams(
      [...parameters, ['timeout', timeout]].map((pair) => [...pair]),
    );
    return askForm(coordinator, path, body.toString());
  };

const rendered = (target: string, format: string, ...more: [string, string][]): Question =>
  formOf('/render', [['target', target], ['format', format], ...more]);

const rows = (count: number): [string, string] => ['from', `-${count}s`];
const made = 'time("x",1)';

const numbered = (count: number, of: (k: number) => string): string[] =>
  Array.from({ length: count }, (_, k) => of(k));

const manyRows: readonly Question[] = [
  rendered(made, 'raw', rows(60_000_000)),
  rendered(made, 'raw', rows(1_000_000)),
  rendered(made, 'rickshaw', rows(500_000)),
  rendered(made, 'csv', rows(200_000), ['tz', 'Europe/Paris']),
  rendered(made, 'pickle', rows(4_000_000)),
  rendered(made, 'msgpack', rows(4_000_000)),
  rendered(made, 'protobuf', rows(4_000_000)),
  rendered(made, 'json', rows(4_000_000), ['maxDataPoints', '1']),
  rendered('legendValue(randomWalk("x",1),"median")', 'json', rows(4_000_000), [
    'maxDataPoints',
    '1',
  ]),
  rendered(`holtWintersForecast(${made},"30d","1d")`, 'json', rows(1_000_000), [
    'maxDataPoints',
    '10',
  ]),
  rendered(`movingMax(transformNull(removeAboveValue(${made},0),7),"9d")`, 'json', rows(2_000_000)),
];

const manyTexts: readonly Question[] = [
  rendered(
    `${'template('.repeat(20)}group(${'a,'.repeat(30_000)}a)${')'.repeat(20)}`,
    'json',
    ...numbered(90, (k) => `template[x${k}]`).map((name): [string, string] => [name, 'y']),
  ),
  rendered(
    `template(group(${'$x.a,'.repeat(10_000)}a),x="${'b'.repeat(5_000)}")`,
    'json',
    ...numbered(990, (k) => `template[x${k}]`).map((name): [string, string] => [name, 'y']),
  ),
  rendered(`**a${'?'.repeat(8_000)}`, 'json'),
  rendered(
    `aliasSub(alias(constantLine(1),"${'x'.repeat(15_000)}"),"(?s).*","${'\\0'.repeat(20_000)}")`,
    'json',
  ),
  rendered('a', 'json', ['from', `-${'1s'.repeat(1_000_000)}`]),
  rendered('a', 'json', ['until', '_'.repeat(2_000_000)]),
  formOf('/m3ql/api/v1/query', [
    [
      'query',
      `constantLine 1 | alias "${'ab'.repeat(27_000)}" | excludeByTag name "*a${'?'.repeat(8_000)}"`,
    ],
  ]),
];

const manyItems: readonly Question[] = [
  formOf(
    '/tags/findSeries',
    numbered(990, (k) => `t${k}=~x{0,1000}x{0,1000}x{0,900}`).map((text) => ['expr', text]),
  ),
  formOf('/tags/tagSeries', [['path', `m${numbered(400_000, (k) => `;t${k}=v`).join('')}`]]),
  formOf(
    '/tags/tagMultiSeries',
    numbered(500, (j) => `m${j}${numbered(1_000, (k) => `;t${k}=v`).join('')}`).map((path) => [
      'path',
      path,
    ]),
  ),
  formOf('/events/get_data', [
    ['set', 'union'],
    ['tags', 'a '.repeat(1_000_000)],
  ]),
  formOf(
    '/metrics/expand',
    numbered(990, () => '**').map((query) => ['query', query]),
  ),
  ({ ports: { coordinator } }) =>
    ask(coordinator, '/events', {
      body: JSON.stringify({ what: 'x', tags: 't '.repeat(2_000_000) }),
      headers: { 'content-type': 'application/json' },
    }),
];

export const graphiteAttacks: readonly Attack[] = [
  timed("Graphite's requests of much", 'queries', 3, [...manyRows, ...manyTexts, ...manyItems]),
];

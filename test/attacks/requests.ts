/** Requests that are read otherwise than they look: smuggled, injected, and changed at random. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { NodePorts } from '../integration/process.ts';
import { SeededRandom } from '../seeded_random.ts';
import { bytesOf, pickOf } from '../sim/mutate.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import {
  ask,
  askForm,
  headOf,
  queryPath,
  RawConnection,
  rangePath,
  remoteWritePath,
} from './http.ts';
import { seriesField, snappyLiterals } from './protobuf.ts';

/** What must never be answered: the second request of those below. */
const hidden = headOf('GET /api/v1/status/buildinfo');
const hiddenAnswer = /"version"/;

const post = (fields: string, body: string): string =>
  `POST /api/v1/json/write HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n${body}`;

const smuggled: readonly string[] = [
  post('Content-Length: 4\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding: chunked\r\nContent-Length: 4\r\n', `0\r\n\r\n${hidden}`),
  post('Content-Length: 0\r\nContent-Length: 500\r\n', hidden),
  post('Content-Length: 0, 0\r\n', hidden),
  post('Content-Length: +0\r\n', hidden),
  post('Content-Length: -1\r\n', hidden),
  post('Content-Length: 0x0\r\n', hidden),
  post('Content-Length: 9007199254740993\r\n', hidden),
  post('Transfer-Encoding: xchunked\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding: chunked, identity\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding : chunked\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding:\r\n chunked\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding: \vchunked\r\n', `0\r\n\r\n${hidden}`),
  post('Transfer-Encoding: chunked\r\n', `2;\nxx\r\n{}\r\n0\r\n\r\n${hidden}`),
  post('Transfer-Encoding: chunked\r\n', `fffffffffffffffff\r\n{}\r\n0\r\n\r\n${hidden}`),
  post(`Transfer-Encoding: chunked\r\n`, `2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n${hidden}`),
  `GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
  `GET /health HTTP/1.1\r\nHost: localhost\r\nA: b\0c\r\n\r\n${hidden}`,
  `GET /health HTTP/1.1\r\nHost: localhost\r\nA: ${'b'.repeat(100_000)}\r\n\r\n${hidden}`,
  `GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`,
  `GET /health HTTP/1.1\nHost: localhost\n\n${hidden}`,
  `GET /health HTTP/3.7\r\nHost: localhost\r\n\r\n${hidden}`,
  `CONNECT evil:80 HTTP/1.1\r\nHost: localhost\r\n\r\n${hidden}`,
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
];

const httpDoors = (ports: NodePorts): readonly number[] => [
  ports.coordinator,
  ports.httpNode,
  ports.httpCluster,
  ports.debug,
  ports.metrics,
];

const smuggling: Attack = {
  name: 'two requests that look like one',
  subject: 'requests',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 10, async (round) => {
      const text = smuggled[round % smuggled.length]!;
      const connection = await RawConnection.open(random.pick(httpDoors(ports)));
      connection.write(Buffer.from(text, 'latin1'));
      for (let waits = 0; waits < 20 && !connection.isClosed; waits += 1) await delay(10);
      const told = `${JSON.stringify(text.slice(0, 120))}: ${connection.text}`;
      assert.doesNotMatch(connection.text, hiddenAnswer, told);
      answers.note(connection.outcome);
      connection.leave();
    });
    return answers;
  },
};

const line = '{"level":"fatal","msg":"never said"}';

/** What tries to be a line of the log, a header of an answer, or a command of a terminal. */
const injected: readonly string[] = [
  `/api/v1/label/${encodeURIComponent(`a\r\n${line}\r\n`)}/values`,
  `/api/v1/query?query=${encodeURIComponent(`x\n${line}\n`)}`,
  `/api/v1/query?query=1&time=${encodeURIComponent('\u009b31m\u202e\r\nSet-Cookie: a=b')}`,
  `/api/v1/series?match[]=${encodeURIComponent('{a="\u001b]0;title\u0007"}{')}`,
  `/${encodeURIComponent(`\r\nLocation: http://evil.example\r\n\r\n${line}`)}`,
  '/../../../../etc/passwd',
  '/%2e%2e/%2e%2e/%2e%2e/etc/passwd',
  '/api/v1/label/..%2f..%2f..%2fetc%2fpasswd/values',
  '/api/v1/label/%00/values',
  '/api/v1/label/%ff/values',
  '/api/v1/label/__proto__/values',
  '/api/v1/placement/__proto__',
  '//evil.example/%2f..',
  '/api/v1/query?query=1&time=99999999999999999999&timeout=1e400&limit=-1',
  '/api/v1/query_range?query=1&start=0&end=1e10&step=1e300',
  '/api/v1/query_range?query=1&start=0&end=1e3&step=1e-10',
  `/api/v1/query?query=${encodeURIComponent('marker @ 9e15 offset 292y')}`,
];

const injection: Attack = {
  name: 'paths and parameters that would be something else',
  subject: 'requests',
  async run({ ports }, _seed, seconds) {
    const answers = new Answers();
    await keepDoing(new Span(seconds), 4, async (round) => {
      const path = injected[round % injected.length]!;
      const { status, text } = await ask(ports.coordinator, path);
      assert.ok(status !== 500 && !/root:/.test(text), `${path}: ${status} ${text}`);
      answers.note(status);
    });
    return answers;
  },
};

const oddValues: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 1e308, 1e18, 2 ** 53 + 1, '', 'x', '-1', '1e9', '0s', '-1h'],
  ...['9223372036854775808', '18446744073709551616', [], {}, [[]], [null], { a: 1 }, 'NaN'],
  ...['x'.repeat(5000), '\0', '\ud800', '\u{1f984}', '../../x', '__proto__', '1h'],
];

type Json = Record<string, unknown>;

/** Changes one or two places of it. */
function mutated(random: SeededRandom, original: unknown): unknown {
  const root: Json = { body: structuredClone(original) };
  for (let times = 1 + random.below(2); times > 0; times -= 1) {
    const places: [Json, string][] = [];
    const collect = (value: unknown): void => {
      if (value === null || typeof value !== 'object') return;
      for (const [key, inner] of Object.entries(value)) {
        places.push([value as Json, key]);
        collect(inner);
      }
    };
    collect(root);
    if (places.length === 0) break;
    const [holder, key] = random.pick(places);
    switch (random.below(6)) {
      case 0:
        if (holder !== root) delete holder[key];
        break;
      case 1:
        holder[random.pick(['foo', 'Name', 'constructor', 'namespace'])] = structuredClone(
          random.pick(oddValues),
        );
        break;
      default:
        holder[key] = structuredClone(random.pick(oddValues));
    }
  }
  return root['body'];
}

const instance = {
  id: 'i1',
  isolation_group: 'g',
  zone: 'embedded',
  weight: 1,
  endpoint: '127.0.0.1:9',
  hostname: 'h',
  port: 9,
};

const options = {
  bootstrapEnabled: true,
  flushEnabled: true,
  writesToCommitLog: true,
  snapshotEnabled: true,
  retentionOptions: {
    retentionPeriodDuration: '48h',
    blockSizeDuration: '2h',
    bufferFutureDuration: '10m',
    bufferPastDuration: '10m',
  },
  indexOptions: { enabled: true, blockSizeDuration: '2h' },
};

/** Bodies that are right; of the coordinator's, those that store something are sent as dry runs. */
function rightBodies(): readonly (readonly [door: 'api' | 'node', path: string, body: unknown])[] {
  const now = Math.floor(Date.now() / 1000);
  const database = { type: 'local', namespaceName: 'zz', retentionTime: '12h' };
  const row = { tags: { __name__: 'fuzzed', a: 'b' }, timestamp: now, value: 1 };
  const datapoint = { timestamp: now, value: 42.5 };
  const range = { rangeStart: now - 100, rangeEnd: now };
  const query = {
    conjunction: {
      queries: [
        { regexp: { field: 'a', regexp: '.*' } },
        { negation: { query: { term: { field: 'a', term: 'b' } } } },
      ],
    },
  };
  return [
    ['api', '/api/v1/json/write', row],
    ['api', '/api/v1/json/write', [row, { ...row, timestamp: String(now) }]],
    ['api', '/api/v1/database/create', { ...database, blockSize: { time: '1h' }, numShards: 64 }],
    ['api', '/api/v1/namespace', { name: 'fuzzed', options }],
    ['api', '/api/v1/placement', { instances: [instance], force: true }],
    ['api', '/api/v1/placement/remove', { instance_ids: ['tsdb_local'], force: true }],
    [
      'api',
      '/api/v1/placement/replace',
      { leavingInstanceIDs: ['tsdb_local'], candidates: [instance] },
    ],
    ['api', '/api/v1/kvstore', { key: 'tsdb.query.limits', value: { a: { limit: 1 } } }],
    ['api', '/api/v1/namespace/ready', { name: 'default', force: true }],
    [
      'node',
      '/writetagged',
      { namespace: 'default', id: 'f1', tags: [{ name: 'a', value: 'b' }], datapoint },
    ],
    ['node', '/write', { namespace: 'default', id: 'f2', datapoint }],
    ['node', '/fetch', { namespace: 'default', id: 'f1', ...range }],
    ['node', '/query', { namespace: 'default', query, ...range, limit: 10 }],
    [
      'node',
      '/fetchtagged',
      { namespace: 'default', query, ...range, seriesLimit: 10, fetchData: true },
    ],
    [
      'node',
      '/aggregate',
      { namespace: 'default', query, ...range, tagNameFilter: ['a'], seriesLimit: 5 },
    ],
    ['node', '/truncate', { namespace: 'none such' }],
  ];
}

const changedBodies: Attack = {
  name: 'JSON bodies changed at random',
  subject: 'requests',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const bodies = rightBodies();
    const dryRun = { 'dry-run': 'true' };
    await keepDoing(new Span(seconds), 4, async () => {
      const [door, path, right] = random.pick(bodies);
      const body = JSON.stringify(mutated(random, right)) ?? '';
      // What is changed into this would do what it says.
      if (path === '/truncate' && body.includes('default')) return;
      const node = random.pick([ports.httpNode, ports.httpCluster]);
      const port = door === 'api' ? ports.coordinator : node;
      const { status, text } = await ask(port, path, { body, headers: dryRun });
      assert.ok(status !== 500, `${path} ${body.slice(0, 300)}: ${status} ${text}`);
      answers.note(status);
    });
    return answers;
  },
};

const changedWrites: Attack = {
  name: 'remote writes changed at random',
  subject: 'requests',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const pick = pickOf(seed);
    const answers = new Answers();
    const now = Date.now();
    const right = Buffer.concat(
      Array.from({ length: 20 }, (_, i) =>
        seriesField({
          labels: { __name__: 'fuzzed', k: String(i), long: 'x'.repeat(i * 20) },
          samples: [
            [now, 1],
            [now - 1, 2],
          ],
        }),
      ),
    );
    const versionTwo = 'application/x-protobuf;proto=io.prometheus.write.v2.Request';
    await keepDoing(new Span(seconds), 4, async () => {
      const raw = Buffer.from(right);
      const isInside = random.below(2) === 0;
      if (isInside) raw.set(bytesOf(pick, 1 + random.below(4)), random.below(raw.length - 4));
      const body = snappyLiterals(raw);
      if (!isInside) body.set(bytesOf(pick, 1 + random.below(4)), random.below(body.length - 4));
      const type = random.below(3) === 0 ? versionTwo : 'application/x-protobuf';
      const headers = { 'content-encoding': 'snappy', 'content-type': type };
      const { status, text } = await ask(coordinator, remoteWritePath, { body, headers });
      assert.ok(status !== 500, `${body.toString('base64')}: ${status} ${text}`);
      answers.note(status);
    });
    return answers;
  },
};

const words: readonly string[] = [
  ...['marker', 'honest', '1', 'NaN', '"a"', '5m', 'vector(1)', 'time()', '{part="3"}', '[5m]'],
  ...['[1h:1m]', '(', ')', '{', '}', ',', '+', '-', '*', '/', '%', '^', '==', '!=', '>bool', '<'],
  ...['and', 'or', 'unless', 'on(part)', 'ignoring(part)', 'group_left', 'offset 5m', '@ 1e9'],
  ...[
    '@ end()',
    'sum(',
    'topk(2,',
    'rate(',
    'histogram_quantile(0.5,',
    'label_replace(',
    'by (part)',
  ],
  ...[
    'quantile_over_time(0.5,',
    'absent(',
    'count_values("l",',
    '0x',
    '1e400',
    "'",
    '`',
    '#',
    '\\',
  ],
];

const randomQueries: Attack = {
  name: 'queries of random words',
  subject: 'requests',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 4, async () => {
      const query = Array.from({ length: 1 + random.below(12) }, () => random.pick(words)).join(
        ' ',
      );
      const path = random.pick([queryPath, rangePath, '/api/v1/format_query']);
      const end = String(Math.floor(Date.now() / 1000));
      const form = { query, timeout: '1s', start: String(Number(end) - 100), end, step: '5' };
      const { status, text } = await askForm(coordinator, path, form);
      assert.ok(status !== 500, `${path} ${query}: ${status} ${text}`);
      answers.note(status);
    });
    return answers;
  },
};

export const requestAttacks: readonly Attack[] = [
  smuggling,
  injection,
  changedBodies,
  changedWrites,
  randomQueries,
];

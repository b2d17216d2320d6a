/** Answers that are large, and that nobody takes. */
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { remoteWriteBody } from '../integration/remote_write_body.ts';
import {
  ask,
  askForm,
  askQuery,
  headOf,
  jsonWritePath,
  queryByHand,
  RawConnection,
  remoteWritePath,
} from './http.ts';

/** A row each so many: an answer of 200 MB. */
const largeMatrix = 'vector(1)[9000000s:1s]';
const tenLargeMatrices = `(${Array.from(
  { length: 10 },
  (_, i) => `label_replace(vector(1),"a","${i}","","")`,
).join(' or ')})[900000s:1s]`;

const notRead: Attack = {
  name: 'answers that nobody reads',
  subject: 'answers',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const query = random.pick([largeMatrix, tenLargeMatrices]);
    const count = random.pick([1, 3, 6]);
    const span = new Span(seconds);
    const connections = await RawConnection.openMany(coordinator, count, false);
    for (const connection of connections) connection.write(queryByHand(query));
    await delay(span.leftMillis);
    for (const connection of connections) {
      answers.note(connection.outcome);
      connection.leave();
    }
    return answers;
  },
};

const leftBehind: Attack = {
  name: 'large answers that are left',
  subject: 'answers',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 4, async () => {
      const connection = await RawConnection.open(coordinator);
      connection.write(queryByHand(random.pick([largeMatrix, tenLargeMatrices])));
      await delay(random.below(400));
      answers.note(connection.outcome);
      connection.leave();
    });
    return answers;
  },
};

const sentAhead: Attack = {
  name: 'requests sent ahead, answers not read',
  subject: 'answers',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const path = random.pick([
      '/api/v1/labels',
      '/api/v1/query?query=marker',
      '/api/v1/export?match[]=marker',
      '/routes',
    ]);
    const requests = headOf(`GET ${path}`).repeat(20_000);
    const span = new Span(seconds);
    const connections = await RawConnection.openMany(coordinator, 3, false);
    for (const connection of connections) connection.write(requests);
    await delay(span.leftMillis);
    for (const connection of connections) {
      answers.note(connection.outcome);
      connection.leave();
    }
    return answers;
  },
};

const seriesCount = 20_000;

/** Twenty thousand series, once a victim, for those who read them. */
async function loadSeries(port: number): Promise<void> {
  const timestamp = Date.now() / 1000;
  const rows = Array.from({ length: seriesCount }, (_, k) => ({
    tags: { __name__: 'load', k: String(k), g: String(k % 50) },
    timestamp,
    value: k,
  }));
  await ask(port, jsonWritePath, { body: JSON.stringify(rows) });
}

const crowds: Attack = {
  name: 'fifty readers of many series',
  subject: 'answers',
  async run({ ports }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    await loadSeries(ports.coordinator);
    await keepDoing(span, 50, async () => {
      const query = random.pick(['load', 'sum by (g) (load)', 'count(load)', 'sort(load)']);
      answers.note((await askQuery(ports, query)).status);
    });
    return answers;
  },
};

const dumps: Attack = {
  name: 'dumps of everything',
  subject: 'answers',
  async run({ ports }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    await loadSeries(ports.coordinator);
    const everything = { namespace: 'default', query: { all: {} }, rangeStart: 0, rangeEnd: 9e9 };
    await keepDoing(span, 5, async () => {
      const port = random.pick([ports.httpNode, ports.httpCluster]);
      const [path, body] = random.pick([
        ['/query', everything],
        ['/fetchtagged', { ...everything, fetchData: true }],
        ['/aggregate', { ...everything, aggregateQueryType: 'AGGREGATE_BY_TAG_NAME_VALUE' }],
      ] as const);
      answers.note((await ask(port, path, { body: JSON.stringify(body) })).status);
    });
    return answers;
  },
};

const catalogues: Attack = {
  name: 'labels, series and cardinality',
  subject: 'answers',
  async run({ ports }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    await loadSeries(ports.coordinator);
    await keepDoing(span, 10, async () => {
      const path = random.pick([
        '/api/v1/label/k/values',
        '/api/v1/labels',
        '/api/v1/series?match[]=load',
        '/api/v1/export?match[]=load',
        '/api/v1/status/tsdb?limit=1000',
        `/api/v1/series?${'match[]=load&'.repeat(100)}`,
      ]);
      answers.note((await ask(ports.coordinator, path)).status);
    });
    return answers;
  },
};

/** Tags whose names are made of IDs, as a client writes them by mistake, and lists of what there is. */
const names: Attack = {
  name: 'names of tags without number',
  subject: 'answers',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    const timestamp = Date.now() / 1000;
    const tagsOf = (k: number): Record<string, string> => ({
      ...{ __name__: 'named', k: String(k) },
      ...Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`id_${seed}_${k}_${i}`, 'v'])),
    });
    const rows = Array.from({ length: 200 }, (_, k) => ({ tags: tagsOf(k), timestamp, value: k }));
    await ask(coordinator, jsonWritePath, { body: JSON.stringify(rows) });
    const deleted = Array.from({ length: 100 }, (_, i) => `path=nope%3Bk%3D${i}`).join('&');
    await keepDoing(span, 8, async () => {
      const path = random.pick([
        '/api/v1/labels?limit=1',
        '/api/v1/labels?match[]=marker',
        '/tags',
        '/tags/autoComplete/tags?tagPrefix=id',
        '/api/v1/status/tsdb',
        '/api/v1/search?query=__name__:.*',
      ]);
      answers.note((await ask(coordinator, path)).status);
      answers.note((await askForm(coordinator, '/tags/delSeries', deleted)).status);
    });
    return answers;
  },
};

/** Much of memory behind few series, and many selectors of many series. */
const heavySelectors: Attack = {
  name: 'selectors of many rows and series',
  subject: 'answers',
  async run({ ports }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    await loadSeries(ports.coordinator);
    const now = Date.now();
    const series = Array.from({ length: 50 }, (_, k) => ({
      labels: { __name__: 'rows', k: String(k) },
      samples: Array.from({ length: 5_000 }, (_, i) => ({
        ...{ timestampMillis: now - 100 * i, value: random.below(2 ** 30) / 7 },
      })),
    }));
    const headers = { 'content-encoding': 'snappy' };
    const body = remoteWriteBody(series);
    answers.note((await ask(ports.coordinator, remoteWritePath, { body, headers })).status);
    const chained = (selector: string): string =>
      Array.from({ length: 60 }, (_, i) => `(${selector} offset ${i}s)`).join(' or ');
    await keepDoing(span, 20, async () => {
      const query = random.pick([
        chained('load'),
        chained('count(rows)'),
        'count(count_over_time(rows[1h]))',
      ]);
      answers.note((await askQuery(ports, query)).status);
    });
    return answers;
  },
};

export const answerAttacks: readonly Attack[] = [
  notRead,
  leftBehind,
  sentAhead,
  crowds,
  dumps,
  catalogues,
  names,
  heavySelectors,
];

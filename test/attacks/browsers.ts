/** Web pages that use a server through the browser of somebody who reaches it. */
import assert from 'node:assert/strict';
import type { NodePorts } from '../integration/process.ts';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask } from './http.ts';

interface Door {
  readonly port: (ports: NodePorts) => number;
  readonly method: string;
  readonly path: string;
  readonly body?: object;
}

const api = (method: string, path: string, body?: object): Door => ({
  port: ({ coordinator }) => coordinator,
  method,
  path,
  ...(body === undefined ? {} : { body }),
});

const instance = {
  id: 'foreign',
  isolation_group: 'foreign',
  zone: 'embedded',
  weight: 1,
  endpoint: '127.0.0.1:9',
  hostname: 'foreign',
  port: 9,
};

/** What changes something, or costs much, at every listener. */
const doors: readonly Door[] = [
  api('POST', '/api/v1/database/create', { namespaceName: 'foreign', retentionTime: '12h' }),
  api('POST', '/api/v1/services/tsdb/namespace/ready', { name: 'default', force: true }),
  api('DELETE', '/api/v1/services/tsdb/namespace/default'),
  api('POST', '/api/v1/json/write', { tags: { __name__: 'marker' }, timestamp: 1, value: 1 }),
  api('POST', '/api/v1/kvstore', {
    key: 'tsdb.query.limits',
    value: { maxRecentlyQueriedSeriesBlocks: { forceExceeded: true } },
    commit: true,
  }),
  api('POST', '/api/v1/services/tsdb/placement', { instances: [instance], force: true }),
  api('POST', '/api/v1/services/tsdb/placement/set', {
    placement: { instances: { foreign: { ...instance, shards: [] } }, replicaFactor: 1 },
    version: 2,
    confirm: true,
    force: true,
  }),
  api('POST', '/api/v1/services/tsdb/placement/remove', {
    instance_ids: ['tsdb_local'],
    force: true,
  }),
  api('DELETE', '/api/v1/services/tsdb/placement'),
  api('POST', '/api/v1/admin/tsdb/delete_series?match[]=marker'),
  api('PUT', '/api/v1/admin/tsdb/delete_series?match[]=marker'),
  api('POST', '/api/v1/services/tsdb/upgrade/finish'),
  {
    port: ({ httpNode }) => httpNode,
    method: 'POST',
    path: '/truncate',
    body: { namespace: 'default' },
  },
  {
    port: ({ httpCluster }) => httpCluster,
    method: 'POST',
    path: '/truncate',
    body: { namespace: 'default' },
  },
  {
    port: ({ httpNode }) => httpNode,
    method: 'POST',
    path: '/flush',
    body: { namespace: 'default' },
  },
  { port: ({ debug }) => debug, method: 'GET', path: '/debug/pprof/profile?seconds=5' },
];

/** What browsers say of a page of another origin; older ones say the last three alone. */
const strangerHeaders: readonly Readonly<Record<string, string>>[] = [
  { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', origin: 'http://evil.example' },
  { 'sec-fetch-site': 'same-site', origin: 'http://other.localhost' },
  { 'sec-fetch-site': 'cross-site' },
  { origin: 'http://evil.example' },
  { origin: 'null' },
  { origin: 'http://127.0.0.1:1' },
];

const pages: Attack = {
  name: 'pages of other origins',
  subject: 'browsers',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    await keepDoing(span, 2, async (round) => {
      const { port, method, path, body } = doors[round % doors.length]!;
      // A browser sends no Origin with a GET, as of an image.
      const says =
        method === 'GET' ? { 'sec-fetch-site': 'cross-site' } : random.pick(strangerHeaders);
      const headers = { 'content-type': 'text/plain', ...says };
      const sent = {
        method,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      };
      const { status, text } = await ask(port(ports), path, sent);
      const told = `${method} ${path} with ${JSON.stringify(headers)}: ${status} ${text}`;
      assert.ok(status === 403 || status === 0, told);
      answers.note(status);
    });
    return answers;
  },
};

const hosts = ['evil.example', 'tsdb', 'localhost.evil.example', '127.0.0.1.evil.example', 'a:b:c'];

const rebinding: Attack = {
  name: 'names that point here',
  subject: 'browsers',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const reads: readonly Door[] = [
      api('GET', '/api/v1/labels'),
      api('GET', '/api/v1/query?query=marker'),
      { port: ({ httpNode }) => httpNode, method: 'GET', path: '/health' },
      { port: ({ debug }) => debug, method: 'GET', path: '/debug/dump' },
      { port: ({ metrics }) => metrics, method: 'GET', path: '/metrics' },
      ...doors,
    ];
    await keepDoing(new Span(seconds), 2, async (round) => {
      const { port, method, path } = reads[round % reads.length]!;
      const host = random.pick(hosts);
      const { status, text } = await ask(port(ports), path, { method, headers: { host } });
      const told = `${method} ${path} of ${host}: ${status} ${text}`;
      assert.ok(status === 421 || status === 400 || status === 0, told);
      answers.note(status);
    });
    return answers;
  },
};

export const browserAttacks: readonly Attack[] = [pages, rebinding];

/** docs/HTTP_API.md and docs/OPERATIONS.md against what a process serves. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { clusterMethods, nodeMethods } from '#node/listeners/json/methods.ts';
import { call, NodeServer } from './process.ts';

const root = join(import.meta.dirname, '../..');
const read = (name: string): string => readFileSync(join(root, 'docs', name), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'tsdb-documents-'));
const server = await NodeServer.create({ folder });
before(() => server.start());
after(async () => {
  await server.program.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** "GET /path" for each method and path of the tables in a part of a document. */
function endpointsOf(text: string): string[] {
  const rows = text.matchAll(/^\| ((?:GET|POST|PUT|DELETE)[A-Z, ]*) \| (.*?) \|/gm);
  return [...rows].flatMap(([, methods, cell]) => {
    const paths = [...cell!.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);
    return methods!.split(', ').flatMap((method) => paths.map((path) => `${method} ${path}`));
  });
}

/** Beside each path of a table of begins, "| `/begin/…` | `/other/…` |", the one of its other begin. */
function withAliases(text: string, endpoints: readonly string[]): string[] {
  const begins = [...text.matchAll(/^\| `(\/.*\/)…` \| `(\/.*\/)…` \|$/gm)];
  return endpoints.flatMap((endpoint) => [
    endpoint,
    ...begins.flatMap(([, begin, other]) => {
      const [method, path] = endpoint.split(' ') as [string, string];
      return path.startsWith(begin!) ? [`${method} ${other}${path.slice(begin!.length)}`] : [];
    }),
  ]);
}

const ofNodes = '## Storage node: JSON';

test('docs/HTTP_API.md lists the methods and paths that the coordinator serves', async () => {
  const { json } = await call('GET', `${server.url}/routes`);
  const served: string[] = [];
  for (const path of json.routes as string[]) {
    const response = await fetch(`${server.url}${path.replace(/\{\w+\}/, 'x')}`, {
      method: 'PATCH',
    });
    assert.equal(response.status, 405, path);
    await response.arrayBuffer();
    for (const method of response.headers.get('allow')!.split(', ')) {
      served.push(`${method} ${path}`);
    }
  }
  const text = read('HTTP_API.md').split(ofNodes)[0]!;
  const documented = withAliases(text, endpointsOf(text));
  assert.equal(new Set(documented).size, documented.length, 'an endpoint stands twice');
  assert.deepEqual(new Set(documented), new Set(served));
});

test('docs/HTTP_API.md lists the methods of the JSON listeners', () => {
  const text = read('HTTP_API.md').split(ofNodes)[1]!;
  const served = [...nodeMethods].map(([path, { verb }]) => `${verb} ${path}`);
  assert.deepEqual(new Set(endpointsOf(text)), new Set(served));
  for (const [path] of nodeMethods) {
    const both = new RegExp(`\`${path}\` \\| 9002, 9003 \\|`).test(text);
    assert.equal(both, clusterMethods.has(path), path);
  }
});

test('docs/OPERATIONS.md lists the metrics that a single node exposes', async () => {
  const { text } = await call('GET', `http://127.0.0.1:${server.ports.metrics}/metrics`);
  const exposed = [...text.matchAll(/^# TYPE (tsdb_\w+) /gm)].map((match) => match[1]!);
  const rows = [...read('OPERATIONS.md').matchAll(/^\| `(tsdb_\w+)` \|/gm)];
  assert.ok(exposed.length > 30);
  assert.deepEqual(new Set(rows.map((match) => match[1]!)), new Set(exposed));
});

test('docs/OPERATIONS.md says how /ready answers before there is a namespace', async () => {
  const { status, json } = await call('GET', `${server.url}/ready`);
  assert.equal(status, 200);
  assert.deepEqual(json, {
    readyReads: [],
    notReadyReads: [],
    readyWrites: [],
    notReadyWrites: [],
  });
});

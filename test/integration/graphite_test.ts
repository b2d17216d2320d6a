/** Graphite's tree of paths and its tags on a real process: what Carbon wrote is found, and what is deleted is not. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { call, createLocalDatabase, NodeServer } from './process.ts';
import { freePorts } from '../ports.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-graphite-'));
const [carbonPort] = await freePorts(1);
const server = await NodeServer.create({
  folder,
  coordinatorSettings: [
    `carbon: {ingester: {listenAddress: "127.0.0.1:${carbonPort}"}}`,
    'limits: {perQuery: {maxFetchedSeries: 50}}',
  ],
});
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
const now = Math.floor(Date.now() / 1000);

async function send(lines: readonly string[]): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port: carbonPort! });
  socket.end(lines.map((line) => `${line} 1 ${now}\n`).join(''));
  socket.resume();
  await once(socket, 'close');
}

async function found(query: string): Promise<readonly string[]> {
  const url = `${server.url}/metrics/find?format=json&query=${encodeURIComponent(query)}`;
  const answer = await call('GET', url);
  assert.equal(answer.status, 200, answer.text);
  const nodes = answer.json as { readonly path: string; readonly is_leaf: boolean }[];
  return nodes.map(({ path, is_leaf: isLeaf }) => (isLeaf ? path : `${path}.`));
}

async function post(path: string, paths: readonly string[]): Promise<unknown> {
  const body = new URLSearchParams(paths.map((each) => ['path', each]));
  const answer = await fetch(`${server.url}/tags/${path}`, { method: 'POST', body });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

test('paths are found by patterns, however many series are under them', async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  const hosts = Array.from({ length: 40 }, (_, host) => `h${host}`);
  await send(['dc1', 'dc-1', 'dc2'].flatMap((dc) => hosts.map((host) => `${dc}.rack.${host}.up`)));
  await send(['dc1.rack', 'dc1.rack.h1.up.total', 'other']);
  assert.deepEqual(await found('*'), ['dc-1.', 'dc1.', 'dc2.', 'other']);
  assert.deepEqual(await found('d*.rack'), ['dc-1.rack.', 'dc1.rack.', 'dc1.rack', 'dc2.rack.']);
  assert.deepEqual(await found('*.*.h1.*'), [
    'dc-1.rack.h1.up',
    'dc1.rack.h1.up.',
    'dc1.rack.h1.up',
    'dc2.rack.h1.up',
  ]);
  assert.equal((await found('dc1.rack.*')).length, 40);
  const many = await call('GET', `${server.url}/metrics/find?format=json&query=*.*.*`);
  assert.match(many.text, /query exceeded limit: series_limit=50, series_matched=more/);
  const names = await call('GET', `${server.url}/metrics/find?query=*.*.h1*`);
  assert.equal(names.json.length, 11);
  const past = `&from=${now - 90_000}&until=${now - 80_000}`;
  const before = await call('GET', `${server.url}/metrics/find?format=json&query=d*.rack${past}`);
  assert.deepEqual(before.json, []);
});

test('series are deleted by their whole tags, and no others', async () => {
  await send(['disk.used;rack=a1;dc=x', 'disk.used;rack=a1', 'disk.used;rack=a2']);
  const series = async (): Promise<unknown> =>
    (await call('GET', `${server.url}/tags/findSeries?expr=name=disk.used`)).json;
  const all = ['disk.used;dc=x;rack=a1', 'disk.used;rack=a1', 'disk.used;rack=a2'];
  assert.deepEqual(await series(), all);
  assert.equal(await post('tagSeries', ['disk.used;rack=a1;dc=x']), all[0]);
  assert.deepEqual(await post('tagMultiSeries', ['b;z=1;a=2;name=c', 'a.b']), ['b;a=2;z=1', 'a.b']);
  const form = new FormData();
  form.append('expr', 'name=disk.used');
  form.append('expr', 'dc=x');
  const multipart = await fetch(`${server.url}/tags/findSeries`, { method: 'POST', body: form });
  assert.deepEqual(await multipart.json(), [all[0]]);
  assert.equal(await post('delSeries', ['disk.used;rack=a1', 'dc1.rack.h1.up', 'no.such']), true);
  const cleaned = await fetch(`${server.url}/api/v1/admin/tsdb/clean_tombstones`, {
    method: 'POST',
  });
  assert.equal(cleaned.status, 204, await cleaned.text());
  assert.deepEqual(await series(), [all[0], all[2]]);
  assert.deepEqual(await found('dc1.rack.h1.*'), ['dc1.rack.h1.up.']);
  // The metric of this name, which is none of a path.
  assert.equal(await post('delSeries', ['other;name=x']), true);
  assert.deepEqual(await found('oth*'), ['other']);
  for (const [path, reason] of [
    ['', /path: no path specified/],
    ['other..', /path: a node is empty: other\.\./],
    ['.', /path: a node is empty: \./],
    ['a;b', /path: a tag is not in the form tag=value: a;b/],
    ['a;b=1;b=2', /path: two tags are b/],
    ['a{b="c"}', /path: not in the form name;tag=value/],
  ] as const) {
    const body = new URLSearchParams({ path });
    const answer = await fetch(`${server.url}/tags/delSeries`, { method: 'POST', body });
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), reason);
  }
});

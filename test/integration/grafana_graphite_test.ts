/** What Grafana's data source of Graphite asks a single node, in the form in which it asks it, and what it reads of the answers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { freePorts } from '../ports.ts';
import { createLocalDatabase, eventually, NodeServer } from './process.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-grafana-'));
const [carbonPort] = await freePorts(1);
const server = await NodeServer.create({
  folder,
  coordinatorSettings: [
    `carbon: {ingester: {listenAddress: "127.0.0.1:${carbonPort}"}}`,
    'graphite: {step: 10s}',
  ],
});
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

const end = Math.floor(Date.now() / 10_000) * 10;
const [from, until] = [`${end - 600}`, `${end}`];

async function answered(response: Response): Promise<any> {
  const text = await response.text();
  assert.ok(response.ok, `${response.status}: ${text}`);
  return JSON.parse(text);
}

async function get(path: string, parameters: Record<string, string> = {}): Promise<any> {
  const query = new URLSearchParams(parameters);
  return answered(await fetch(`${server.url}${path}?${query}`));
}

async function post(path: string, form: Record<string, string>): Promise<any> {
  // A form with its charset not said, parameters sorted by name, as Go's client has it.
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const body = `${new URLSearchParams(Object.entries(form).sort(([a], [b]) => (a < b ? -1 : 1)))}`;
  return answered(await fetch(`${server.url}${path}`, { method: 'POST', headers, body }));
}

const render = (target: string): Promise<any> =>
  post('/render', { from, until, format: 'json', maxDataPoints: '100', target });

test('a data source that is saved is tried', async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  const socket = connect({ host: '127.0.0.1', port: carbonPort! });
  const lines = Array.from({ length: 30 }, (_, i) => {
    const time = end - 300 + 10 * i;
    return `web.h1.load ${i} ${time}\nweb.h2.load 5 ${time}\ndisk.used;host=h1;dc=eu ${i} ${time}\n`;
  });
  socket.end(lines.join(''));
  socket.resume();
  await once(socket, 'close');
  const [line] = await render('constantLine(100)');
  assert.equal(Number(line.target), 100);
  assert.ok(line.datapoints.every(([value]: [number]) => value === 100));
  assert.match(await get('/version/_'), /^1\.1\.\d+$/);
});

test('panels: points with nulls, numbers of seconds, and tags that are texts', async () => {
  const series = await eventually('both hosts are there', async () => {
    const found = await render("aliasByNode(summarize(web.*.load, '1min', 'sum'), 1)");
    return found.length === 2 && found;
  });
  assert.deepEqual(
    series.map(({ target }: { target: string }) => target),
    ['h1', 'h2'],
  );
  for (const { datapoints, tags } of series) {
    assert.ok(Object.values(tags).every((value) => typeof value === 'string'));
    assert.ok(datapoints.length <= 100);
    for (const [value, seconds] of datapoints) {
      assert.ok(value === null || typeof value === 'number');
      assert.ok(Number.isInteger(seconds));
    }
  }
  const [tagged] = await render("seriesByTag('name=disk.used', 'dc=eu')");
  assert.deepEqual(tagged.tags, { name: 'disk.used', host: 'h1', dc: 'eu' });
  assert.deepEqual(await render('no.such.path'), []);
});

test('the editor: nodes of paths, functions, and tags with their values', async () => {
  const found = await answered(
    await fetch(`${server.url}/metrics/find?from=${from}&until=${until}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: `query=${encodeURIComponent('web.*')}`,
    }),
  );
  assert.deepEqual(
    found.map(({ text, expandable }: any) => [text, Boolean(expandable)]),
    [
      ['h1', true],
      ['h2', true],
    ],
  );
  const expanded = await get('/metrics/expand', { query: 'web.*.load', from, until });
  assert.deepEqual(expanded.results, ['web.h1.load', 'web.h2.load']);
  const functions = await get('/functions');
  const { group, params } = functions.movingAverage;
  assert.ok(typeof group === 'string' && params.length >= 2);
  const expr = 'name=disk.used';
  const tags = await get('/tags/autoComplete/tags', { expr, tagPrefix: 'd', from, until });
  assert.deepEqual(tags, ['dc']);
  const more = { expr, tag: 'host', valuePrefix: '', limit: '100', from, until };
  assert.deepEqual(await get('/tags/autoComplete/values', more), ['h1']);
  const all = await get('/tags', { from, until });
  assert.ok(all.some(({ tag }: { tag: string }) => tag === 'host'));
  const { values } = await get('/tags/host', { from, until });
  assert.deepEqual(
    values.map(({ value }: { value: string }) => value),
    ['h1'],
  );
});

test('annotations: events by their tags', async () => {
  const event = { what: 'deployed', tags: ['deploy', 'web'], when: end - 60, data: 'v2' };
  const written = await fetch(`${server.url}/events/`, {
    method: 'POST',
    body: JSON.stringify(event),
  });
  assert.ok(written.ok, await written.text());
  const events = await get('/events/get_data', { from, until, tags: 'deploy' });
  const [{ when, what, tags, data }] = events;
  assert.deepEqual({ when, what, tags, data }, { ...event, when: end - 60 });
  assert.deepEqual(await get('/events/get_data', { from, until, tags: 'other' }), []);
});

/** Calls of a coordinator as they come to it, and options that a command has not. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { checkOptions } from './command.ts';
import { callCoordinator, sendJson, urlBelow } from './coordinator.ts';

test('an address may have a path of a proxy, below which the endpoints are', () => {
  const path = '/api/v1/labels?x=1';
  for (const [address, url] of [
    ['http://a:7201', 'http://a:7201/api/v1/labels?x=1'],
    ['http://a:7201/', 'http://a:7201/api/v1/labels?x=1'],
    ['https://proxy/tsdb', 'https://proxy/tsdb/api/v1/labels?x=1'],
    ['https://proxy//tsdb//', 'https://proxy//tsdb/api/v1/labels?x=1'],
  ] as const) {
    assert.equal(urlBelow(address, path).href, url);
  }
  for (const address of ['a:7201', '', 'ftp://a', 'http://a/?tenant=b', 'http://a/#b']) {
    assert.throws(() => urlBelow(address, path), /^TsdbError: not the URL of a coordinator/);
  }
});

test('a change that is sent elsewhere is no change, and a question is asked there', async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (request.url === '/there') response.end('{}');
    else response.writeHead(301, { location: '/there' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const call = { coordinator: `http://127.0.0.1:${port}`, path: '/x', what: 'try' } as const;
  for (const method of ['POST', 'PUT', 'DELETE'] as const) {
    await assert.rejects(
      callCoordinator(sendJson, { ...call, method, body: {} }),
      /cannot try: 127\.0\.0\.1:\d+ answers 301: it is at \/there: name that address/,
    );
  }
  assert.deepEqual(await callCoordinator(sendJson, { ...call, method: 'GET' }), {});
  assert.deepEqual(asked, ['POST /x', 'PUT /x', 'DELETE /x', 'GET /x', 'GET /there']);
  server.close();
});

test('an option that a command has not is refused, whatever other commands have', () => {
  const usage = `tsdbctl namespace ready NAME [--force] [-o json]
  --coordinator URL  where it is`;
  checkOptions(usage, ['force', 'coordinator', 'output', 'help']);
  assert.throws(() => checkOptions(usage, ['force', 'dry-run']), {
    message: `it has no option --dry-run\n\n${usage}`,
  });
  assert.throws(() => checkOptions('tsdbctl data flush', ['output']), /no option --output/);
});

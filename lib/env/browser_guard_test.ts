import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { type HttpServer, type HttpServerOptions, httpLimitsDefault, listenHttp } from './http.ts';

/** Counts what its handler gets to see. */
async function open(options: Partial<HttpServerOptions> = {}) {
  const seen: string[] = [];
  const server = await listenHttp({
    host: '127.0.0.1',
    port: 0,
    limits: httpLimitsDefault,
    onError: (error) => assert.fail(String(error)),
    handler: (request, response) => {
      seen.push(`${request.method} ${request.url}`);
      response.end('served');
    },
    ...options,
  });
  return { server, seen, [Symbol.asyncDispose]: () => server.close(0) };
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One request as a text, so that every header is as it stands here. */
async function ask(
  server: HttpServer,
  line: string,
  headers: Readonly<Record<string, string>>,
  host = '127.0.0.1',
): Promise<Answer> {
  const socket = connect(server.port, host);
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const version = line.includes(' HTTP/') ? '' : ' HTTP/1.1';
  socket.write(`${line}${version}\r\nConnection: close\r\n${fields.join('')}\r\n`);
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]);
  return { status, text: text.slice(text.indexOf('\r\n\r\n') + 4) };
}

const statusOf = async (...given: Parameters<typeof ask>) => (await ask(...given)).status;

test('a page of another site changes nothing through the browser that shows it', async () => {
  await using test = await open();
  const { server, seen } = test;
  const own = `localhost:${server.port}`;
  const evil = { Host: own, 'Content-Type': 'text/plain', Origin: 'http://evil.example' };
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
    const line = `${method} /api/v1/database/create`;
    for (const headers of [
      evil,
      { ...evil, 'Sec-Fetch-Site': 'cross-site' },
      { Host: own, 'Sec-Fetch-Site': 'cross-site' },
      // Another port of this machine is another program.
      { Host: own, 'Sec-Fetch-Site': 'same-site' },
      { Host: own, Origin: 'http://localhost:3000' },
      { Host: own, Origin: 'http://localhost' },
      { Host: own, Origin: `http://${own}.evil.example` },
      // A sandboxed frame, or a file.
      { Host: own, Origin: 'null' },
      { Host: own, Origin: 'nonsense' },
    ]) {
      const { status, text } = await ask(server, line, headers);
      assert.equal(status, 403, `${method} ${JSON.stringify(headers)}`);
      assert.match(text, /web page of another origin/);
      assert.match(text, /curl/);
    }
  }
  assert.deepEqual(seen, []);
});

test('who is no browser, or a page of this very server, is served', async () => {
  await using test = await open();
  const { server } = test;
  const own = `localhost:${server.port}`;
  for (const headers of [
    { Host: own },
    { Host: own, 'Sec-Fetch-Site': 'same-origin', Origin: 'http://behind.a.proxy' },
    { Host: own, 'Sec-Fetch-Site': 'none' },
    { Host: own, Origin: `http://${own}` },
    { Host: own.toUpperCase(), Origin: `http://${own}` },
    // What Node's fetch sends.
    { Host: own, 'Sec-Fetch-Mode': 'cors' },
    { Host: 'localhost:80', Origin: 'http://localhost' },
    { Host: 'localhost', Origin: 'https://localhost' },
    { Host: '[::1]:7201', Origin: 'http://[::1]:7201' },
  ]) {
    assert.equal(await statusOf(server, 'POST /', headers), 200, JSON.stringify(headers));
  }
});

test('pages of other sites may read what costs little, and only that', async () => {
  await using test = await open({ isCostly: (path) => path === '/repair' });
  const { server, seen } = test;
  const fetched = { Host: 'localhost', 'Sec-Fetch-Site': 'cross-site' };
  assert.equal(await statusOf(server, 'GET /health', fetched), 200);
  assert.equal(await statusOf(server, 'HEAD /health', fetched), 200);
  assert.equal(await statusOf(server, 'OPTIONS /health', fetched), 200);
  seen.length = 0;
  for (const line of ['GET /repair', 'GET /repair?a=b', 'HEAD /repair', 'GET /repair/']) {
    assert.equal(await statusOf(server, line, fetched), 403, line);
    assert.equal(await statusOf(server, line, { Host: 'localhost', Origin: 'null' }), 403);
  }
  assert.deepEqual(seen, []);
  const slashes = `GET ${'/'.repeat(60_000)}a`;
  const started = process.threadCpuUsage();
  assert.equal(await statusOf(server, slashes, fetched), 200);
  assert.ok(process.threadCpuUsage(started).user < 1e6);
  assert.equal(await statusOf(server, 'GET /repair', { Host: 'localhost' }), 200);
  const typed = { Host: 'localhost', 'Sec-Fetch-Site': 'none' };
  assert.equal(await statusOf(server, 'GET /repair', typed), 200);
});

test('a name that somebody made point at this machine is refused on loopback', async () => {
  await using test = await open();
  const { server, seen } = test;
  for (const host of [
    'evil.example.com',
    `evil.example.com:${server.port}`,
    'localhost.evil.example.com',
    'notlocalhost',
    '127.0.0.1.evil.example.com',
    '127.0.0.1@evil.example.com',
    '[evil.example.com]',
    'localhost:80:80',
    'x',
  ]) {
    const { status, text } = await ask(server, 'GET /', { Host: host });
    assert.equal(status, 421, host);
    assert.ok(text.includes(JSON.stringify(host)), text);
    assert.match(text, /allowedHosts/);
  }
  assert.deepEqual(seen, []);
  for (const host of [
    'localhost',
    'LOCALHOST:7201',
    'localhost.',
    'localhost.:7201',
    'tsdb.localhost:7201',
    '127.0.0.1',
    '127.0.0.1:7201',
    '10.1.2.3:7201',
    '[::1]',
    '[::1]:7201',
    '[2001:DB8::1]:7201',
    '',
  ]) {
    assert.equal(await statusOf(server, 'GET /', { Host: host }), 200, host);
  }
  assert.equal(await statusOf(server, 'GET / HTTP/1.0', {}), 200);
});

test('allowedHosts names further hosts, also those below a name', async () => {
  await using test = await open({ allowedHosts: ['Tsdb', '*.Example.com.'] });
  const { server } = test;
  const statusFor = (host: string) => statusOf(server, 'GET /', { Host: host });
  for (const host of [
    'tsdb',
    'TSDB:7201',
    'tsdb.',
    'a.example.com',
    'a.b.example.com:1',
    '[::1]',
  ]) {
    assert.equal(await statusFor(host), 200, host);
  }
  for (const host of ['example.com', 'evilexample.com', 'tsdb.evil.com', 'a.example.com.evil']) {
    assert.equal(await statusFor(host), 421, host);
  }
  await using any = await open({ allowedHosts: ['*'] });
  assert.equal(await statusOf(any.server, 'GET /', { Host: 'evil.example.com' }), 200);
});

const outside = Object.values(networkInterfaces())
  .flat()
  .find((network) => network?.family === 'IPv4' && !network.internal)?.address;

test('on other addresses every name is served, unless allowedHosts says which', {
  skip: outside === undefined && 'this machine has no address but loopback',
}, async () => {
  const named = { Host: 'metrics-coordinator.tsdb.svc:7201' };
  await using everywhere = await open({ host: '0.0.0.0' });
  assert.equal(await statusOf(everywhere.server, 'GET /', named, outside), 200);
  assert.equal(await statusOf(everywhere.server, 'GET /', named), 421);
  await using mapped = await open({ host: '::' });
  assert.equal(await statusOf(mapped.server, 'GET /', named, outside), 200);
  assert.equal(await statusOf(mapped.server, 'GET /', named), 421);
  await using given = await open({ host: '0.0.0.0', allowedHosts: [] });
  assert.equal(await statusOf(given.server, 'GET /', named, outside), 421);
  const byAddress = { Host: `${outside}:${given.server.port}` };
  assert.equal(await statusOf(given.server, 'GET /', byAddress, outside), 200);
});

test('a refusal is in the words of its listener, and the connection goes on', async () => {
  await using test = await open({
    refuse: (response, { status, reason }) => {
      response.writeHead(status, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ error: reason }));
    },
  });
  const socket = connect(test.server.port, '127.0.0.1');
  socket.write(
    'POST /a HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nContent-Length: 5\r\n\r\nhello',
  );
  socket.write('GET /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  let text = '';
  for await (const part of socket) text += String(part);
  assert.match(text, /^HTTP\/1\.1 403 [^]*"error":"[^]*HTTP\/1\.1 200 [^]*served$/);
  assert.deepEqual(test.seen, ['GET /b']);
});

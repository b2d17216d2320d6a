import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { freePorts } from '#test/ports.ts';
import { TsdbError } from '../errors.ts';
import {
  type HttpRequest,
  type HttpResponse,
  type HttpServer,
  type HttpServerOptions,
  httpLimitsDefault,
  httpRequest,
  listenHttp,
  sendStream,
} from './http.ts';
import { readBody } from './http_body.ts';
import { ListenError } from './listen_error.ts';
import { createGzip, gunzipSync } from 'node:zlib';
import { freeWhenSent } from './in_flight/freed_bytes.ts';
import { BytesInFlight } from './in_flight/bytes_in_flight.ts';

const { signal } = new AbortController();

function open(
  handler: HttpServerOptions['handler'],
  limits: Partial<HttpServerOptions['limits']> = {},
  onError: (error: unknown) => void = () => {},
): Promise<HttpServer> {
  return listenHttp({
    host: '127.0.0.1',
    port: 0,
    limits: { ...httpLimitsDefault, ...limits },
    handler,
    onError,
  });
}

const textOf = (body: Uint8Array): string => new TextDecoder().decode(body);

test('readBody() gives the bytes sent, with and without a Content-Length', async () => {
  const inFlight = new BytesInFlight(1000);
  await using server = await open(async (request, response, requestSignal) => {
    const { body, taken } = await readBody(request, { bytesMax: 100, inFlight }, requestSignal);
    assert.equal(inFlight.bytes, taken);
    inFlight.give(taken);
    response.end(`${body.length}:${textOf(body)}`);
  });
  const url = `http://127.0.0.1:${server.port}/`;
  const request = { method: 'POST', body: 'hello', responseBytesMax: 1000 };
  assert.equal(textOf((await httpRequest(url, request, signal)).body), '5:hello');
  const chunked = { ...request, headers: { 'Transfer-Encoding': 'chunked' } };
  assert.equal(textOf((await httpRequest(url, chunked, signal)).body), '5:hello');
  assert.equal(inFlight.bytes, 0);
});

test('readBody() refuses long bodies and a full house, and holds no bytes afterwards', async () => {
  const inFlight = new BytesInFlight(50);
  const codes: string[] = [];
  await using server = await open(async (request, response, requestSignal) => {
    try {
      await readBody(request, { bytesMax: 100, inFlight }, requestSignal);
    } catch (error) {
      codes.push((error as TsdbError).code);
    }
    response.end('seen');
  });
  const url = `http://127.0.0.1:${server.port}/`;
  for (const headers of [{}, { 'Transfer-Encoding': 'chunked' }] as Record<string, string>[]) {
    for (const size of [101, 60]) {
      const body = new Uint8Array(size);
      const answer = await httpRequest(
        url,
        { method: 'POST', headers, body, responseBytesMax: 100 },
        signal,
      );
      assert.equal(textOf(answer.body), 'seen');
    }
  }
  const expected = ['BAD_REQUEST', 'RESOURCE_EXHAUSTED'];
  assert.deepEqual(codes, [...expected, ...expected]);
  assert.equal(inFlight.bytes, 0);
});

test('bodies that are announced and do not come leave room for others', async () => {
  const inFlight = new BytesInFlight(50);
  const begun = Promise.withResolvers<void>();
  await using server = await open(async (request, response, requestSignal) => {
    if (request.url === '/announced') begun.resolve();
    try {
      const { taken } = await readBody(request, { bytesMax: 100, inFlight }, requestSignal);
      inFlight.give(taken);
      response.end('read');
    } catch (error) {
      response.end((error as TsdbError).code);
    }
  });
  const stalled = connect(server.port, '127.0.0.1');
  stalled.write('POST /announced HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n');
  await begun.promise;
  const request = { method: 'POST', body: 'hello', responseBytesMax: 100 };
  const answer = await httpRequest(`http://127.0.0.1:${server.port}/`, request, signal);
  assert.equal(textOf(answer.body), 'read');
  stalled.destroy();
});

test('listenHttp() aborts the signal of a request when the client leaves', async () => {
  const aborted = Promise.withResolvers<unknown>();
  await using server = await open(async (_request, _response, requestSignal) => {
    requestSignal.addEventListener('abort', () => aborted.resolve(requestSignal.reason));
    await aborted.promise;
  });
  const socket = connect(server.port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await new Promise((resolve) => setTimeout(resolve, 30));
  socket.destroy();
  const reason = await aborted.promise;
  assert.ok(reason instanceof TsdbError);
  assert.equal(reason.code, 'CANCELLED');
});

test('listenHttp() does not abort the signal of a request that was answered', async () => {
  const signals: AbortSignal[] = [];
  await using server = await open((_request, response, requestSignal) => {
    signals.push(requestSignal);
    response.end('ok');
  });
  await httpRequest(
    `http://127.0.0.1:${server.port}/`,
    { method: 'GET', responseBytesMax: 10 },
    signal,
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(signals[0]!.aborted, false);
});

test('listenHttp() answers 500 when a handler fails, and tells the error', async () => {
  const errors: unknown[] = [];
  await using server = await open(
    () => Promise.reject(new Error('boom')),
    {},
    (error) => errors.push(error),
  );
  const answer = await httpRequest(
    `http://127.0.0.1:${server.port}/`,
    { method: 'GET', responseBytesMax: 100 },
    signal,
  );
  assert.equal(answer.status, 500);
  assert.doesNotMatch(textOf(answer.body), /boom/, 'the message of a defect is not for clients');
  assert.equal(String(errors[0]), 'Error: boom');
});

test('listenHttp() answers 431 to headers that are too large', async () => {
  await using server = await open((_request, response) => void response.end(), {
    headerBytesMax: 1024,
  });
  const answer = await httpRequest(
    `http://127.0.0.1:${server.port}/`,
    { method: 'GET', headers: { 'X-Long': 'x'.repeat(2000) }, responseBytesMax: 100 },
    signal,
  );
  assert.equal(answer.status, 431);
});

test('a client that leaves in the middle of a head gets no answer, one that sends no HTTP is told', async () => {
  await using server = await open((_request, response) => void response.end());
  for (const [head, expected] of [
    ['GET / HTTP/1.1\r\nHost: a', ''],
    ['no HTTP\r\n\r\n', 'HTTP/1.1 400 Bad Request'],
  ] as const) {
    const socket = connect(server.port, '127.0.0.1');
    let text = '';
    socket.on('data', (part: Buffer) => (text += part.toString()));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.end(head);
    await closed;
    assert.equal(text.split('\r\n')[0], expected);
  }
});

test('close() lets a running request end, and cuts off one that does not', async () => {
  const release = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const server = await open(async (_request, response) => {
    entered.resolve();
    await release.promise;
    response.end('done');
  });
  const url = `http://127.0.0.1:${server.port}/`;
  const pending = httpRequest(url, { method: 'GET', responseBytesMax: 100 }, signal);
  await entered.promise;
  const closed = server.close();
  release.resolve();
  assert.equal(textOf((await pending).body), 'done');
  await closed;

  const stuckSignal = Promise.withResolvers<AbortSignal>();
  const stuck = await open((_request, _response, requestSignal) => {
    stuckSignal.resolve(requestSignal);
  });
  const lost = httpRequest(
    `http://127.0.0.1:${stuck.port}/`,
    { method: 'GET', responseBytesMax: 100 },
    signal,
  );
  const lostRejects = assert.rejects(lost, { code: 'UNAVAILABLE' });
  const requestSignal = await stuckSignal.promise;
  await stuck.close(10);
  await lostRejects;
  assert.equal((requestSignal.reason as TsdbError).code, 'UNAVAILABLE');
});

test('sendStream() sends a long answer whole, at the pace of the client', async () => {
  const parts = 200;
  await using server = await open(async (_request, response, requestSignal) => {
    function* source(): Iterable<Uint8Array> {
      for (let i = 0; i < parts; i += 1) yield new Uint8Array(50_000).fill(i);
    }
    await sendStream(response, source(), requestSignal);
  });
  const answer = await httpRequest(
    `http://127.0.0.1:${server.port}/`,
    { method: 'GET', responseBytesMax: 20_000_000 },
    signal,
  );
  assert.equal(answer.body.length, parts * 50_000);
  assert.equal(answer.body.at(-1), parts - 1);
});

test("sendStream() frees parts that are nobody's when they were sent, and not before", async () => {
  for (const encoder of [undefined, createGzip()]) {
    const sent: Uint8Array[] = [];
    await using server = await open(async (_request, response, requestSignal) => {
      function* source(): Iterable<Uint8Array> {
        for (let i = 0; i < 40; i += 1) {
          const part = new Uint8Array(100_000).fill(i);
          // Part of the memory is enough to send; all of it is freed.
          sent.push(i % 2 === 0 ? freeWhenSent(part.subarray(0, 70_000)) : part);
          yield sent.at(-1)!;
        }
      }
      await sendStream(response, source(), requestSignal, undefined, encoder);
    });
    const url = `http://127.0.0.1:${server.port}/`;
    const answer = await httpRequest(url, { method: 'GET', responseBytesMax: 20_000_000 }, signal);
    const body = encoder === undefined ? answer.body : gunzipSync(answer.body);
    assert.equal(body.length, 20 * 170_000);
    for (let i = 0, at = 0; i < 40; at += i++ % 2 === 0 ? 70_000 : 100_000)
      assert.equal(body[at], i);
    for (const [i, part] of sent.entries()) {
      assert.equal(part.length, i % 2 === 0 ? 0 : 100_000);
    }
  }
});

test('listenHttp() cuts off a client that does not take its answer, streamed or whole', async () => {
  const stalledMillisMax = 200;
  const partBytes = 1 << 20;
  const parts = 64;
  let ends = Promise.withResolvers<AbortSignal>();
  await using server = await open(
    async (request, response, requestSignal) => {
      requestSignal.addEventListener('abort', () => ends.resolve(requestSignal));
      if (request.url === '/whole') {
        response.end(new Uint8Array(parts * partBytes));
      } else {
        const all = Array.from({ length: parts }, () => new Uint8Array(partBytes));
        await sendStream(response, all, requestSignal);
      }
    },
    { stalledMillisMax },
  );
  for (const path of ['/whole', '/streamed']) {
    ends = Promise.withResolvers();
    const socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.once('data', () => socket.pause());
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    assert.equal(((await ends.promise).reason as TsdbError).code, 'CANCELLED', path);
    socket.destroy();
  }
});

test('listenHttp() leaves clients alone that wait for their answer, or take it slowly', async () => {
  const stalledMillisMax = 500;
  const bytes = 8 << 20;
  await using server = await open(
    async (_request, response) => {
      response.write('begun');
      await new Promise((resolve) => setTimeout(resolve, stalledMillisMax * 2));
      response.end(new Uint8Array(bytes));
    },
    { stalledMillisMax },
  );
  const socket = connect(server.port, '127.0.0.1');
  socket.write('GET / HTTP/1.0\r\nHost: localhost\r\n\r\n');
  let taken = 0;
  for await (const part of socket as AsyncIterable<Uint8Array>) {
    taken += part.length;
    await new Promise((resolve) => setTimeout(resolve, 6));
  }
  assert.ok(taken > bytes, `${taken}`);
});

test('requests that are sent ahead on one connection run one after the other, in their order', async () => {
  let running = 0;
  let runningMax = 0;
  const paths: string[] = [];
  await using server = await open(async (request, response) => {
    runningMax = Math.max(runningMax, ++running);
    paths.push(request.url!);
    await new Promise((resolve) => setTimeout(resolve, 1));
    running--;
    response.end(request.url);
  });
  const count = 500;
  const socket = connect(server.port, '127.0.0.1');
  const requests = Array.from(
    { length: count },
    (_, i) =>
      `GET /${i} HTTP/1.1\r\nHost: localhost\r\n${i === count - 1 ? 'Connection: close\r\n' : ''}\r\n`,
  );
  socket.write(requests.join(''));
  let text = '';
  for await (const part of socket) text += String(part);
  const expected = Array.from({ length: count }, (_, i) => `/${i}`);
  assert.deepEqual(paths, expected);
  assert.deepEqual(text.match(/^\/\d+(?=HTTP|$)/gm)?.length ?? 0, count);
  assert.equal(runningMax, 1);
});

test('a connection on which thousands of requests are sent ahead is closed', async () => {
  const release = Promise.withResolvers<void>();
  await using server = await open(async (_request, response) => {
    await release.promise;
    response.end();
  });
  const socket = connect(server.port, '127.0.0.1');
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(20_000));
  socket.resume();
  await closed;
  release.resolve();
  const get = { method: 'GET', responseBytesMax: 100 };
  assert.equal((await httpRequest(`http://127.0.0.1:${server.port}/`, get, signal)).status, 200);
});

test('a client that leaves takes the requests that it had sent ahead with it', async () => {
  let begun = 0;
  const release = Promise.withResolvers<void>();
  await using server = await open(async (_request, response) => {
    begun++;
    await release.promise;
    response.end();
  });
  const socket = connect(server.port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(50));
  while (begun === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  socket.destroy();
  await new Promise((resolve) => setTimeout(resolve, 50));
  release.resolve();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(begun, 1);
});

test('connections without a request leave their place to those that come', async () => {
  const release = Promise.withResolvers<void>();
  await using server = await open(
    async (request, response) => {
      if (request.url === '/long') await release.promise;
      response.end('served');
    },
    { connectionsMax: 4 },
  );
  const idle = Array.from({ length: 3 }, () => connect(server.port, '127.0.0.1'));
  const closed = idle.map((socket) => new Promise((resolve) => socket.once('close', resolve)));
  for (const socket of idle) {
    await new Promise((resolve) => socket.write('GET / HTTP/1.1\r\nHost', resolve));
  }
  const url = `http://127.0.0.1:${server.port}`;
  const get = { method: 'GET', responseBytesMax: 100 };
  const long = httpRequest(`${url}/long`, get, signal);
  while (!idle.some(({ destroyed }) => destroyed)) {
    assert.equal(textOf((await httpRequest(`${url}/`, get, signal)).body), 'served');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await closed[0];
  release.resolve();
  assert.equal(textOf((await long).body), 'served', 'who has a request keeps its place');
  for (const socket of idle) socket.destroy();
});

test("several sockets listen at one port, which is nobody else's, and end together", async () => {
  const [port] = (await freePorts(1)) as [number];
  const peers = new Set<string>();
  const options = {
    host: '127.0.0.1',
    port,
    listeners: 4,
    limits: httpLimitsDefault,
    handler: (request: HttpRequest, response: HttpResponse) => {
      peers.add(`${request.socket.remotePort}`);
      response.end('here');
    },
    onError: () => {},
  };
  const server = await listenHttp(options);
  assert.equal(server.port, port);
  await assert.rejects(listenHttp(options), ListenError);
  await assert.rejects(listenHttp({ ...options, listeners: 1 }), ListenError);
  // Which of them a connection comes to is chosen by its port.
  const ask = async (): Promise<void> => {
    const request = { method: 'GET', responseBytesMax: 100, headers: { Connection: 'close' } };
    const { body } = await httpRequest(`http://127.0.0.1:${port}/`, request, signal);
    assert.equal(textOf(body), 'here');
  };
  await Promise.all(Array.from({ length: 100 }, ask));
  assert.equal(peers.size, 100);
  const idle = Array.from({ length: 20 }, () => connect({ host: '127.0.0.1', port }));
  await Promise.all(idle.map((socket) => once(socket, 'connect')));
  // Those that nobody has taken yet are reset.
  const ended = idle.map(
    (socket) =>
      new Promise<void>((resolve) => {
        socket.on('error', () => {});
        socket.resume().on('close', () => resolve());
      }),
  );
  await server.close(100);
  await Promise.all(ended);
  await assert.rejects(ask(), { code: 'UNAVAILABLE' });
  // The port is free again.
  await (await listenHttp(options)).close(0);
});

test('httpRequest() rejects when aborted, when nobody listens and when the answer is too long', async () => {
  await using server = await open((_request, response) => void response.end('x'.repeat(100)));
  const url = `http://127.0.0.1:${server.port}/`;
  await assert.rejects(httpRequest(url, { method: 'GET', responseBytesMax: 10 }, signal), {
    code: 'UNAVAILABLE',
  });
  const { port } = server;
  await server.close();
  await assert.rejects(
    httpRequest(`http://127.0.0.1:${port}/`, { method: 'GET', responseBytesMax: 10 }, signal),
    { code: 'UNAVAILABLE' },
  );
  const reason = new TsdbError('CANCELLED', 'enough');
  await assert.rejects(
    httpRequest(url, { method: 'GET', responseBytesMax: 10 }, AbortSignal.abort(reason)),
    { code: 'CANCELLED' },
  );
});

test('a broken invariant in a handler ends the process', () => {
  const script = `
    import { assert } from ${JSON.stringify(new URL('../assert.ts', import.meta.url).href)};
    import { listenHttp, httpLimitsDefault, httpRequest } from ${JSON.stringify(new URL('./http.ts', import.meta.url).href)};
    const server = await listenHttp({
      host: '127.0.0.1', port: 0, limits: httpLimitsDefault, onError() {},
      handler: async () => assert(false, 'the sky is above'),
    });
    const url = 'http://127.0.0.1:' + server.port + '/';
    await httpRequest(url, { method: 'GET', responseBytesMax: 10 }, new AbortController().signal).catch(() => {});
    await server.close();
    console.log('survived');
  `;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module-typescript', '--eval', script],
    { encoding: 'utf8', timeout: 20_000 },
  );
  assert.equal(status, 1, stderr);
  assert.doesNotMatch(stdout, /survived/);
  assert.match(stderr, /invariant broken: the sky is above/);
});

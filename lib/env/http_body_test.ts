import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { TsdbError } from '../errors.ts';
import { type HttpServer, httpLimitsDefault, httpRequest, listenHttp } from './http.ts';
import { readBody } from './http_body.ts';
import { BytesInFlight, slowBytesPerSecond, smallBodyBytes } from './in_flight/bytes_in_flight.ts';

const { signal } = new AbortController();
const mebibyte = 1 << 20;

/** Answers with the length of the body, or with the code and the text of what was wrong with it. */
function open(inFlight: BytesInFlight, bytesMax: number): Promise<HttpServer> {
  return listenHttp({
    host: '127.0.0.1',
    port: 0,
    limits: httpLimitsDefault,
    onError: (error) => assert.fail(String(error)),
    handler: async (request, response, requestSignal) => {
      try {
        const { body, taken } = await readBody(request, { bytesMax, inFlight }, requestSignal);
        const isText = Buffer.from(body).every((byte) => byte === 120);
        inFlight.give(taken);
        response.end(`${isText} ${body.length}`);
      } catch (error) {
        assert.ok(error instanceof TsdbError, String(error));
        response.statusCode = error.httpStatus;
        response.end(`${error.code}: ${error.message}`);
      }
    },
  });
}

/** A request of which only the beginning is sent; what is answered comes out at the end. */
async function begun(
  port: number,
  headers: string,
  body: string | Uint8Array,
): Promise<{ socket: Socket; answer: Promise<string> }> {
  const socket = connect(port, '127.0.0.1');
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.on('error', () => {});
  socket.on('data', (bytes) => resolve(String(bytes).split('\r\n\r\n')[1]!));
  socket.write(`POST / HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n`);
  await new Promise((sent) => socket.write(body, sent));
  return { socket, answer: promise };
}

async function post(port: number, body: Uint8Array): Promise<string> {
  const request = { method: 'POST', body, responseBytesMax: 1000 };
  const answer = await httpRequest(`http://127.0.0.1:${port}/`, request, signal);
  return Buffer.from(answer.body).toString();
}

const xs = (count: number): Uint8Array => new Uint8Array(count).fill(120);
const chunk = (size: number): string => `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`;

test('a body of unknown length is whole, in however many pieces it comes', async () => {
  const inFlight = new BytesInFlight(4 * mebibyte);
  await using server = await open(inFlight, mebibyte);
  for (const sizes of [[1], [70_000], [1, 1, 1], [40_000, 1, 90_000], Array(3000).fill(7)]) {
    const body = `${sizes.map((size) => chunk(size)).join('')}0\r\n\r\n`;
    const { socket, answer } = await begun(server.port, 'Transfer-Encoding: chunked', body);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    assert.equal((await answer).split('\r\n').join(''), `true ${total}`);
    socket.destroy();
  }
  const refused = await begun(server.port, 'Transfer-Encoding: chunked', chunk(mebibyte + 1));
  assert.match(await refused.answer, /BAD_REQUEST: the request body is larger than 1048576 bytes/);
  refused.socket.destroy();
  assert.equal(inFlight.bytes, 0);
});

test('a body of known length is whole, in long parts and short ones', async () => {
  const inFlight = new BytesInFlight(4 * mebibyte);
  await using server = await open(inFlight, mebibyte);
  for (const sizes of [[70_000], [40_000, 1], [1, 40_000], [30_000, 30_000, 7, 30_000], [5, 5]]) {
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const [first, ...others] = sizes;
    const head = `Content-Length: ${total}`;
    const { socket, answer } = await begun(server.port, head, xs(first!));
    for (const size of others) {
      await delay(20);
      socket.write(xs(size));
    }
    assert.equal((await answer).split('\r\n').join(''), `true ${total}`);
    socket.destroy();
  }
  assert.equal(inFlight.bytes, 0);
});

test('a body in the smallest of pieces takes the memory that is counted for it, and is refused', async () => {
  const inFlight = new BytesInFlight(64 * mebibyte);
  await using server = await open(inFlight, 16 * mebibyte);
  const bytesBefore = process.memoryUsage.rss();
  const { socket, answer } = await begun(server.port, 'Transfer-Encoding: chunked', '');
  const piece = '1\r\nx\r\n'.repeat(10_000);
  for (let i = 0; i < 20 && !socket.destroyed; i++) {
    await new Promise((sent) => socket.write(piece, sent));
  }
  assert.match(await answer, /BAD_REQUEST: the request body comes in too many pieces: 4/);
  assert.equal(inFlight.bytes, 0);
  assert.ok(process.memoryUsage.rss() - bytesBefore < 100 * mebibyte);
  socket.destroy();
});

test('bodies that announce much and bring little are counted by V8 for what they brought', async () => {
  const inFlight = new BytesInFlight(64 * mebibyte);
  await using server = await open(inFlight, 16 * mebibyte);
  const before = process.memoryUsage().arrayBuffers;
  const head = `Content-Length: ${15 * mebibyte}`;
  const all = await Promise.all(Array.from({ length: 50 }, () => begun(server.port, head, xs(2))));
  while (inFlight.bytes < 100) await delay(5);
  assert.ok(process.memoryUsage().arrayBuffers - before < 16 * mebibyte);
  for (const { socket } of all) socket.destroy();
});

test('bodies that stand still give their room to those that come', async () => {
  const inFlight = new BytesInFlight(16 * mebibyte);
  await using server = await open(inFlight, 8 * mebibyte);
  const length = `Content-Length: ${8 * mebibyte}`;
  const slow = [
    await begun(server.port, length, xs(7 * mebibyte)),
    await begun(server.port, length, xs(6 * mebibyte)),
  ];
  while (inFlight.bytes < 13 * mebibyte) await delay(5);
  const large = xs(4 * mebibyte);
  assert.match(await post(server.port, large), /RESOURCE_EXHAUSTED: too many bytes/);
  const small = xs(smallBodyBytes);
  assert.equal(await post(server.port, small), `true ${small.length}`, 'small ones have room');
  await delay(2100);
  assert.equal(await post(server.port, large), `true ${large.length}`);
  const said = await Promise.race(slow.map(({ answer }) => answer));
  assert.match(
    said,
    new RegExp(`RESOURCE_EXHAUSTED: the body came too slowly .* fewer than ${slowBytesPerSecond}`),
  );
  for (const { socket } of slow) socket.destroy();
});

test('one body may take all the room when the limits are equal', async () => {
  const inFlight = new BytesInFlight(2 * mebibyte);
  await using server = await open(inFlight, 2 * mebibyte);
  assert.equal(await post(server.port, xs(2 * mebibyte)), `true ${2 * mebibyte}`);
  assert.equal(inFlight.bytes, 0);
});

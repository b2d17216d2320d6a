import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { TsdbError } from '../../errors.ts';
import { connectGrpc, type GrpcMethod, type GrpcServer, serveGrpc } from '../grpc.ts';
import {
  announced,
  framed,
  frame,
  frameTypes,
  headersOf,
  RawClient,
  RawConnection,
} from './raw_testing.ts';
import type { GrpcLimits } from './server.ts';

const mebibyte = 1 << 20;
const never = new AbortController().signal;
const nothing = Buffer.alloc(0);

/** Answers with the length of the request. */
const measure: GrpcMethod = {
  kind: 'unary',
  path: '/t.T/Measure',
  handle: async (request) => Buffer.from(String(request.length)),
};

const echo: GrpcMethod = {
  kind: 'stream',
  path: '/t.T/Echo',
  handle: async (requests, send) => {
    for await (const request of requests) await send(request);
  },
};

/** Answers with as many bytes as the request says. */
const give: GrpcMethod = {
  kind: 'unary',
  path: '/t.T/Give',
  handle: async (request) => Buffer.alloc(Number(Buffer.from(request).toString()), 120),
};

function serve(
  limits: Partial<GrpcLimits> = {},
  methods: readonly GrpcMethod[] = [measure, echo, give],
  requestBytesMax: number = 4 * mebibyte,
): Promise<GrpcServer> {
  const address = { host: '127.0.0.1', port: 0 };
  return serveGrpc({ ...address, methods, requestBytesMax, stopGraceMillis: 1_000, limits });
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** What buffers hold that somebody still has: their memory goes some turns after they do. */
async function bytesOfBuffers(): Promise<number> {
  for (let times = 0; times < 5; times++) {
    collect();
    await delay(10);
  }
  return process.memoryUsage().arrayBuffers;
}

/** @throws when it does not come true within ten seconds */
async function until(isTrue: () => boolean, what: () => string): Promise<void> {
  for (let waited = 0; !isTrue(); waited += 5) {
    assert.ok(waited < 10_000, what());
    await delay(5);
  }
}

async function isServed(port: number): Promise<void> {
  using client = new RawClient(port);
  const { status, bytes } = await client.call(measure.path, framed('abc'));
  assert.deepEqual([status, bytes], ['0', 6]);
}

test('a compressed message is refused before it is expanded, and the client is told', async () => {
  await using server = await serve({}, [measure], 129 * mebibyte);
  using client = new RawClient(server.port);
  const bomb = framed(gzipSync(Buffer.alloc(120 * mebibyte)), 1);
  const rssBefore = process.memoryUsage.rss();
  const calls = Array.from({ length: 10 }, () =>
    client.call(measure.path, bomb, { 'grpc-encoding': 'gzip' }),
  );
  for (const { status, message, headers } of await Promise.all(calls)) {
    assert.equal(status, '12');
    assert.match(message, /compressed messages are not taken here: .* identity instead of gzip/);
    assert.equal(headers['grpc-accept-encoding'], 'identity');
  }
  const grown = process.memoryUsage.rss() - rssBefore;
  assert.ok(grown < 100 * mebibyte, `${grown} bytes more`);
  // A client that may compress and does not is served.
  const plain = await client.call(measure.path, framed('abc'), { 'grpc-encoding': 'gzip' });
  assert.equal(plain.status, '0');
  const unsaid = await client.call(measure.path, framed('abc', 1));
  assert.deepEqual([unsaid.status, /does not say how/.test(unsaid.message)], ['13', true]);
});

test('unfinished messages hold what the server has room for, and give way when they stand', async () => {
  const limits = { bytesInFlightMax: 8 * mebibyte };
  await using server = await serve(limits);
  using client = new RawClient(server.port);
  using other = new RawClient(server.port);
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, server.load.requestBytes);
  }, 1);
  const unfinished = Array.from({ length: 20 }, () =>
    client.begin(measure.path, announced(3 * mebibyte, 2 * mebibyte)),
  );
  const ended: string[] = [];
  for (const { ended: end } of unfinished) {
    void end.then(({ status, message }) => ended.push(`${status} ${message}`));
  }
  await until(
    () => ended.length >= 16,
    () => `${ended.length} were refused`,
  );
  for (const text of ended) assert.match(text, /^8 too many bytes of requests in flight/);
  // Small ones have room left.
  assert.equal((await other.call(measure.path, framed('abc'))).status, '0');
  await delay(1_100);
  const large = framed(Buffer.alloc(3 * mebibyte));
  const answers = await Promise.all([
    other.call(measure.path, large),
    other.call(measure.path, large),
  ]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['0', '0'],
  );
  assert.ok(ended.some((text) => text.startsWith('8 the body came too slowly')));
  clearInterval(watch);
  assert.ok(most <= limits.bytesInFlightMax, `${most} bytes were held`);
  client.session.destroy();
  await until(
    () => server.load.requestBytes === 0,
    () => `${server.load.requestBytes} bytes are still held`,
  );
});

test('what is only announced takes no memory', async () => {
  await using server = await serve({}, [measure], 129 * mebibyte);
  using client = new RawClient(server.port);
  for (let index = 0; index < 500; index++) client.begin(measure.path, announced(128 * mebibyte));
  await until(
    () => server.load.calls === 500,
    () => `${server.load.calls} calls`,
  );
  assert.ok(server.load.requestBytes < 500 * 40 * 1024, `${server.load.requestBytes} bytes`);
  await isServed(server.port);
});

test('an idle stream gives its room to others when there is none left, and is told to come again', async () => {
  await using server = await serve({ bytesInFlightMax: mebibyte }, [measure, echo], mebibyte / 2);
  using idle = new RawClient(server.port);
  const streams = Array.from({ length: 40 }, () => idle.begin(echo.path, framed('a')));
  await until(
    () => streams.every(({ bytes }) => bytes === 6),
    () => 'not every stream has its echo',
  );
  await delay(1_100);
  using other = new RawClient(server.port);
  const large = framed(Buffer.alloc(mebibyte / 2));
  assert.equal((await other.call(measure.path, large)).status, '0');
  const first = await streams[0]!.ended;
  assert.deepEqual(first.status, '14');
  assert.match(first.message, /the stream was idle, and others waited for its room/);
  // No more went than had to.
  assert.ok(server.load.calls > 20, `${server.load.calls} are left`);
});

test('calls under way on a connection are limited, those that the client has left among them', async () => {
  const release = Promise.withResolvers<void>();
  let begun = 0;
  const stubborn: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Stubborn',
    handle: async (request) => {
      begun++;
      await release.promise;
      return request;
    },
  };
  await using server = await serve({ callsOfConnectionMax: 5 }, [measure, stubborn]);
  using client = new RawClient(server.port);
  const left = Array.from({ length: 5 }, () => client.begin(stubborn.path));
  for (const { stream } of left) stream.end(framed('a'));
  await until(
    () => begun === 5,
    () => `${begun} have begun`,
  );
  for (const { stream } of left) stream.close(8);
  const refused = await client.call(measure.path, framed('a'));
  assert.deepEqual(
    [refused.status, refused.message],
    ['8', 'too many calls under way on this connection: 5'],
  );
  await isServed(server.port);
  release.resolve();
  await until(
    () => server.load.calls === 0,
    () => `${server.load.calls} are under way`,
  );
  assert.equal((await client.call(measure.path, framed('a'))).status, '0');
});

test('a connection too many takes the place of the one without a call for longest', async () => {
  await using server = await serve({ connectionsMax: 3 });
  const opened = async (): Promise<RawClient> => {
    const client = new RawClient(server.port);
    assert.equal((await client.call(measure.path, framed('a'))).status, '0');
    return client;
  };
  using first = await opened();
  const watching = first.begin(echo.path, framed('a'));
  using second = await opened();
  using third = await opened();
  await second.call(measure.path, framed('a'));
  using fourth = await opened();
  await until(
    () => third.isClosed,
    () => 'the third one is open',
  );
  // One that has a call stays while others have none.
  using fifth = await opened();
  await until(
    () => second.isClosed,
    () => 'the second one is open',
  );
  assert.equal(first.isClosed, false);
  // When all have one, it is the one on which nothing has moved for longest.
  for (const client of [fourth, fifth]) {
    const call = client.begin(echo.path, framed('a'));
    await until(
      () => call.bytes === 6,
      () => 'a call has no echo',
    );
  }
  watching.stream.write(framed('b'));
  await until(
    () => watching.bytes === 12,
    () => 'the second echo is missing',
  );
  using sixth = await opened();
  await until(
    () => fourth.isClosed,
    () => 'the fourth one is open',
  );
  assert.deepEqual([first.isClosed, fifth.isClosed, sixth.isClosed], [false, false, false]);
  assert.equal(server.load.connections, 3);
});

test('a request that does not come ends after a time, a stream that waits does not', async () => {
  await using server = await serve({ receiveMillisMax: 300 });
  using client = new RawClient(server.port);
  const waiting = client.begin(echo.path, framed('a'));
  const ends = [
    client.begin(measure.path),
    client.begin(measure.path, announced(100, 50)),
    // Whole, but the client does not say that this was all.
    client.begin(measure.path, framed('abc')),
    client.begin(echo.path),
    client.begin(echo.path, Buffer.concat([framed('a'), announced(100, 50)])),
  ];
  for (const { ended } of ends) {
    const { status, message } = await ended;
    assert.deepEqual([status, message], ['4', 'the request did not come within 0.3 s']);
  }
  await delay(400);
  waiting.stream.end(framed('b'));
  const { status, bytes } = await waiting.ended;
  assert.deepEqual([status, bytes], ['0', 12]);
});

test('a handler that does not read makes its client wait, and nothing pile up', async () => {
  const release = Promise.withResolvers<void>();
  let seen = 0;
  const slow: GrpcMethod = {
    kind: 'stream',
    path: '/t.T/Slow',
    handle: async (requests) => {
      await release.promise;
      for await (const request of requests) {
        assert.equal(Buffer.from(request).readUInt32BE(0), seen++);
        assert.equal(request.length, 10_000);
      }
    },
  };
  await using server = await serve({}, [slow]);
  using client = connectGrpc({ target: `127.0.0.1:${server.port}`, answerBytesMax: 100 });
  const stream = client.stream(slow.path, never);
  let sent = 0;
  const sending = (async () => {
    for (let index = 0; index < 1_000; index++) {
      const message = Buffer.alloc(10_000);
      message.writeUInt32BE(index);
      await stream.send(message);
      sent++;
    }
    stream.end();
  })();
  for (let before = -1; before !== sent; ) {
    before = sent;
    await delay(100);
  }
  assert.ok(sent < 400, `${sent} were sent`);
  assert.ok(server.load.requestBytes < 300_000, `${server.load.requestBytes} bytes are held`);
  release.resolve();
  await sending;
  for await (const _ of stream.messages) assert.fail();
  assert.equal(seen, 1_000);
});

test('what waits for a handler in the smallest of pieces is held compactly', async () => {
  const deaf: GrpcMethod = {
    kind: 'stream',
    path: '/t.T/Deaf',
    handle: async (_requests, _send, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
  };
  await using server = await serve({}, [deaf]);
  using connection = new RawConnection(server.port);
  await connection.send(frame(frameTypes.headers, 4, 1, headersOf(deaf.path)));
  await connection.send(frame(frameTypes.data, 0, 1, framed('a')));
  await until(
    () => server.load.calls === 1,
    () => 'the call has not begun',
  );
  const heldBefore = server.load.requestBytes;
  const before = await bytesOfBuffers();
  const filler = frame(frameTypes.unknown, 0, 0, Buffer.alloc(16_000));
  const round = Buffer.concat([
    ...Array.from({ length: 4 }, () => filler),
    frame(frameTypes.data, 0, 1, Buffer.alloc(1)),
  ]);
  for (let index = 0; index < 500 && !connection.isClosed; index++) await connection.send(round);
  await until(
    () => server.load.requestBytes >= heldBefore + 500,
    () => `${server.load.requestBytes} bytes have come`,
  );
  assert.ok(server.load.requestBytes < heldBefore + 4_096, `${server.load.requestBytes} are held`);
  const grown = (await bytesOfBuffers()) - before;
  assert.ok(grown < 8 * mebibyte, `${grown} bytes more`);
});

test('a client that sends its messages in too many small frames is sent away', async () => {
  await using server = await serve();
  using connection = new RawConnection(server.port);
  await connection.send(frame(frameTypes.headers, 4, 1, headersOf(measure.path)));
  await connection.send(frame(frameTypes.data, 0, 1, announced(mebibyte)));
  const one = frame(frameTypes.data, 0, 1, Buffer.alloc(1));
  const hundred = Buffer.concat(Array.from({ length: 100 }, () => one));
  for (let index = 0; index < 400 && !connection.isClosed; index++) await connection.send(hundred);
  await until(
    () => connection.isClosed,
    () => 'the connection is open',
  );
  assert.match(connection.received, /messages come in too many small frames/);
  // Many small messages are none of that.
  using honest = connectGrpc({ target: `127.0.0.1:${server.port}`, answerBytesMax: 100 });
  const stream = honest.stream(echo.path, never);
  const sending = (async () => {
    for (let index = 0; index < 17_000; index++) await stream.send(nothing);
    stream.end();
  })();
  let seen = 0;
  for await (const _ of stream.messages) seen++;
  await sending;
  assert.equal(seen, 17_000);
});

test('an answer that its client does not take is given up after a time', async () => {
  await using server = await serve({ stalledMillisMax: 500 });
  // A window of nothing: no byte of an answer may be sent.
  using client = new RawClient(server.port, { initialWindowSize: 0 });
  const untaken = client.begin(give.path);
  untaken.stream.end(framed('100000'));
  const stream = client.begin(echo.path, framed('a'));
  await until(
    () => server.load.answerBytes === 100_001,
    () => `${server.load.answerBytes} bytes wait`,
  );
  // ENHANCE_YOUR_CALM, which clients take for RESOURCE_EXHAUSTED.
  assert.equal((await untaken.ended).resetCode, 11);
  assert.equal((await stream.ended).resetCode, 11);
  await until(
    () => server.load.calls === 0,
    () => `${server.load.calls} are under way`,
  );
  assert.deepEqual([server.load.answerBytes, server.load.requestBytes], [0, 0]);
});

test('answers that nobody takes make room for further ones', async () => {
  await using server = await serve({ answerBytesMax: 8 * mebibyte });
  using deaf = new RawClient(server.port, { initialWindowSize: 0 });
  using client = new RawClient(server.port);
  const untaken = [2, 3, 2].map((size) => deaf.begin(give.path, framed(String(size * mebibyte))));
  for (const { stream } of untaken) stream.end();
  await until(
    () => server.load.answerBytes === 7 * mebibyte,
    () => `${server.load.answerBytes} bytes wait`,
  );
  await delay(1_100);
  const { status, bytes } = await client.call(give.path, framed(String(2 * mebibyte)));
  assert.deepEqual([status, bytes], ['0', 5 + 2 * mebibyte]);
  assert.equal((await untaken[1]!.ended).resetCode, 11, 'the largest one went');
  assert.equal(server.load.answerBytes, 4 * mebibyte);
});

test('what waits for its client on a connection keeps no further call from it', async () => {
  await using server = await serve();
  using client = new RawClient(server.port, { initialWindowSize: 0 });
  for (let index = 0; index < 30; index++) {
    client.begin(give.path, framed(String(4 * mebibyte))).stream.end();
  }
  await until(
    () => server.load.answerBytes === 120 * mebibyte,
    () => `${server.load.answerBytes} bytes wait`,
  );
  const { status } = await client.call('/t.T/None', nothing);
  assert.equal(status, '12');
});

test('hundreds of calls at once leave turns to others', async () => {
  let begun = 0;
  const busy: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Busy',
    handle: async (request) => {
      begun++;
      for (const end = performance.now() + 2; performance.now() < end; );
      return request;
    },
  };
  await using server = await serve({}, [measure, busy]);
  using other = new RawClient(server.port);
  await other.call(measure.path, framed('a'));
  using client = new RawClient(server.port);
  const calls = Array.from({ length: 400 }, () => client.call(busy.path, framed('a')));
  await until(
    () => begun > 0,
    () => 'none has begun',
  );
  assert.equal((await other.call(measure.path, framed('a'))).status, '0');
  assert.ok(begun < 200, `${begun} came before`);
  for (const { status } of await Promise.all(calls)) assert.equal(status, '0');
});

test('a call that its client gave up before its turn is not begun', async () => {
  let begun = 0;
  const count: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Count',
    handle: async (request) => {
      begun++;
      await delay(1);
      return request;
    },
  };
  await using server = await serve({}, [count]);
  using connection = new RawConnection(server.port);
  const calls: Buffer[] = [];
  for (let stream = 1; stream < 800; stream += 2) {
    calls.push(
      frame(frameTypes.headers, 4, stream, headersOf(count.path)),
      frame(frameTypes.data, 1, stream, framed('a')),
      frame(frameTypes.reset, 0, stream, Buffer.from([0, 0, 0, 8])),
    );
  }
  await connection.send(Buffer.concat(calls));
  await delay(200);
  await until(
    () => server.load.calls === 0,
    () => `${server.load.calls} are under way`,
  );
  assert.ok(begun < 100, `${begun} of 400 were begun`);
});

test('requests that are none are refused, each with what is wrong', async () => {
  await using server = await serve({}, [measure, echo], 100);
  using client = new RawClient(server.port);
  const two = Buffer.concat([framed('a'), framed('b')]);
  const cases: readonly [path: string, bytes: Uint8Array, status: string, message: RegExp][] = [
    [measure.path, nothing, '12', /Measure: no request came/],
    [measure.path, two, '12', /takes one request, a second one came/],
    [measure.path, Buffer.from('abc'), '3', /the last message of the request is cut off/],
    [measure.path, announced(50, 20), '3', /the last message of the request is cut off/],
    [measure.path, announced(101), '8', /the message is larger than 100 bytes: 101/],
    [measure.path, announced(2 ** 32 - 1), '8', /larger than 100 bytes: 4294967295/],
    [echo.path, Buffer.concat([framed('a'), announced(9, 3)]), '3', /is cut off/],
    [`/t.T/${'x'.repeat(1_000)}`, framed('a'), '12', /does not implement the method \/t.T\/x+…$/],
  ];
  for (const [path, bytes, status, message] of cases) {
    const ended = await client.call(path, bytes);
    assert.equal(ended.status, status, ended.message);
    assert.match(ended.message, message);
  }
  const timeout = await client.call(measure.path, framed('a'), { 'grpc-timeout': '1 week' });
  assert.deepEqual(
    [timeout.status, timeout.message],
    ['3', 'grpc-timeout: must be a number and a unit: 1 week'],
  );
  const page = await client.call(measure.path, framed('a'), { 'content-type': 'text/html' });
  assert.equal(page.headers[':status'], 415);
  for (const method of ['GET', 'HEAD']) {
    const got = await client.call(measure.path, nothing, { ':method': method });
    assert.equal(got.headers[':status'], 405);
  }
  await isServed(server.port);
});

test('a client that goes on sending after its answer is told that nobody listens', async () => {
  await using server = await serve();
  using client = new RawClient(server.port);
  const refused = client.begin(measure.path, announced(mebibyte * 5));
  const { status, resetCode } = await refused.ended;
  assert.deepEqual([status, resetCode], ['8', 0]);
});

test('messages of errors keep every character', async () => {
  const message = 'x: is bad: 100 % "ünïcödé" \n 😀 \ud800';
  const failing: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Fail',
    handle: () => Promise.reject(new TsdbError('BAD_REQUEST', message)),
  };
  await using server = await serve({}, [failing]);
  using client = connectGrpc({ target: `127.0.0.1:${server.port}`, answerBytesMax: 100 });
  await assert.rejects(client.unary(failing.path, nothing, never), (error: TsdbError) => {
    assert.ok(error.message.endsWith(message.toWellFormed()), error.message);
    return true;
  });
});

test('a deadline ends a call for its client and its handler', async () => {
  const left = Promise.withResolvers<unknown>();
  const wait: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Wait',
    handle: async (request, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      left.resolve(signal.reason);
      return request;
    },
  };
  await using server = await serve({}, [wait]);
  using client = new RawClient(server.port);
  const { status } = await client.call(wait.path, framed('a'), { 'grpc-timeout': '50m' });
  assert.equal(status, '4');
  assert.equal(((await left.promise) as TsdbError).code, 'CANCELLED');
});

test('a stop lets calls end that are under way, and those that do not are broken off', async () => {
  const entered = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const slow: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Slow',
    handle: async (request) => {
      entered.resolve();
      await release.promise;
      return request;
    },
  };
  const stuck: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Stuck',
    handle: () => new Promise<never>(() => {}),
  };
  const server = await serve({}, [slow, stuck]);
  using client = new RawClient(server.port);
  const ending = client.call(slow.path, framed('a'));
  const broken = client.begin(stuck.path);
  broken.stream.end(framed('a'));
  // One that never says a word.
  const silent = connect(server.port, '127.0.0.1');
  await entered.promise;
  const stopped = server[Symbol.asyncDispose]();
  release.resolve();
  assert.equal((await ending).status, '0');
  await stopped;
  assert.equal((await broken.ended).status, undefined);
  silent.destroy();
});

test('streams that are opened and never ended are refused beyond the limit, and then sent away', async () => {
  await using server = await serve({ callsOfConnectionMax: 100 });
  using connection = new RawConnection(server.port);
  let stream = -1;
  const hundred = (): Buffer[] =>
    Array.from({ length: 100 }, () => {
      stream += 2;
      return frame(frameTypes.headers, 4, stream, headersOf(echo.path));
    });
  for (let index = 0; index < 100 && !connection.isClosed; index++) {
    await connection.send(Buffer.concat(hundred()));
    assert.ok(server.load.calls <= 100, `${server.load.calls} are under way`);
  }
  assert.ok(stream < 2_000, `${stream / 2} were opened`);
  assert.match(connection.received, /too many calls are under way/);
  await isServed(server.port);
  await until(
    () => server.load.calls === 0,
    () => `${server.load.calls} are under way`,
  );
});

test('floods of frames end the connection that sends them, and nobody else is held up', async () => {
  await using server = await serve();
  using honest = new RawClient(server.port);
  await honest.call(measure.path, framed('a'));
  const many = (count: number, make: () => Buffer): Buffer =>
    Buffer.concat(Array.from({ length: count }, make));
  let stream = -1;
  const floods: Record<string, (index: number) => Buffer> = {
    continuation: (index) =>
      index === 0
        ? frame(frameTypes.headers, 0, 1, Buffer.alloc(10, 0x40))
        : many(100, () => frame(frameTypes.continuation, 0, 1, Buffer.alloc(255, 0x61))),
    settings: () => many(1_000, () => frame(frameTypes.settings, 0, 0, Buffer.alloc(0))),
    ping: () => many(1_000, () => frame(frameTypes.ping, 0, 0, Buffer.alloc(8))),
    reset: () =>
      many(200, () => {
        stream += 2;
        return Buffer.concat([
          frame(frameTypes.headers, 4, stream, headersOf(measure.path)),
          frame(frameTypes.reset, 0, stream, Buffer.from([0, 0, 0, 8])),
        ]);
      }),
    nothing: (index) =>
      index === 0
        ? frame(frameTypes.headers, 4, 1, headersOf(echo.path))
        : many(1_000, () => frame(frameTypes.data, 0, 1, nothing)),
  };
  for (const [name, make] of Object.entries(floods)) {
    stream = -1;
    using connection = new RawConnection(server.port);
    for (let index = 0; !connection.isClosed; index++) {
      assert.ok(index < 2_000, `${name}: the connection is open`);
      await connection.send(make(index));
    }
    assert.equal((await honest.call(measure.path, framed('a'))).status, '0', name);
  }
  for (const garbage of ['GET / HTTP/1.1\r\n\r\n', '\0'.repeat(10_000)]) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => {});
    socket.write(garbage);
    socket.resume();
    await new Promise((resolve) => socket.once('close', resolve));
  }
  await until(
    () => server.load.calls === 0 && server.load.requestBytes === 0,
    () => JSON.stringify(server.load),
  );
  await isServed(server.port);
});

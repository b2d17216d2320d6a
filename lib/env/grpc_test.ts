import assert from 'node:assert/strict';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { TsdbError } from '../errors.ts';
import {
  connectGrpc,
  type GrpcClient,
  type GrpcMethod,
  type GrpcServer,
  GrpcStatusError,
  grpcStatus,
  serveGrpc,
} from './grpc.ts';

const never = new AbortController().signal;
const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (message: Uint8Array) => new TextDecoder().decode(message);

async function served(
  methods: readonly GrpcMethod[],
  run: (client: GrpcClient, server: GrpcServer) => Promise<void>,
): Promise<void> {
  const options = { host: '127.0.0.1', port: 0, requestBytesMax: 100_000, stopGraceMillis: 100 };
  await using server = await serveGrpc({ ...options, methods });
  const target = `127.0.0.1:${server.port}`;
  using client = connectGrpc({ target, answerBytesMax: 100_000 });
  await run(client, server);
}

const echo: GrpcMethod = {
  kind: 'stream',
  path: '/t.T/Echo',
  handle: async (requests, send) => {
    for await (const request of requests) await send(request);
  },
};

function fails(error: Error): GrpcMethod {
  return { kind: 'unary', path: '/t.T/Fail', handle: () => Promise.reject(error) };
}

test('a unary call brings bytes there and back, with metadata', () =>
  served(
    [
      {
        kind: 'unary',
        path: '/t.T/Tell',
        handle: async (request, call) => bytes(`${textOf(request)} ${call.metadata('who')}`),
      },
    ],
    async (client) => {
      const answer = await client.unary('/t.T/Tell', bytes('hello'), never, {
        metadata: { who: 'me' },
        timeoutMillis: 60_000,
      });
      assert.equal(textOf(answer), 'hello me');
    },
  ));

test('an address that takes no connection is left for another attempt, and the call goes on', () =>
  served(
    [{ kind: 'unary', path: '/t.T/Tell', handle: async (request) => request }],
    async (_, { port }) => {
      // What a connection to an address that nobody has looks like: nothing ever comes back.
      let silent = 1;
      const sockets = new Set<Socket>();
      const front = createServer((socket) => {
        sockets.add(socket.on('error', () => {}));
        if (silent-- > 0) return;
        const back = connect(port, '127.0.0.1');
        sockets.add(back.on('error', () => {}));
        socket.pipe(back).pipe(socket);
      });
      await new Promise<void>((resolve) => {
        front.listen(0, '127.0.0.1', resolve);
      });
      const target = `127.0.0.1:${(front.address() as AddressInfo).port}`;
      try {
        const probe = async () => false;
        using client = connectGrpc({ target, answerBytesMax: 100_000, probe });
        const signal = AbortSignal.timeout(15_000);
        const answers = ['a', 'b'].map((text) => client.unary('/t.T/Tell', bytes(text), signal));
        assert.deepEqual((await Promise.all(answers)).map(textOf), ['a', 'b']);
        assert.equal(sockets.size, 3);
        // It is the same connection as long as it stands.
        assert.equal(textOf(await client.unary('/t.T/Tell', bytes('c'), signal)), 'c');
        assert.equal(sockets.size, 3);
      } finally {
        front.close();
        for (const socket of sockets) socket.destroy();
      }
    },
  ));

test('a server that takes connections and is silent for a while is waited for, on one of them', () =>
  served(
    [{ kind: 'unary', path: '/t.T/Tell', handle: async (request) => request }],
    async (_, { port }) => {
      const sockets = new Set<Socket>();
      const heard: Uint8Array[] = [];
      const backs: Socket[] = [];
      let isSilent = true;
      const goOn = (socket: Socket): void => {
        const back = connect(port, '127.0.0.1').on('error', () => {});
        backs.push(back);
        for (const data of heard) back.write(data);
        socket.pipe(back).pipe(socket);
      };
      const front = createServer((socket) => {
        sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
        // Read, so that it is seen when the other side ends.
        if (isSilent) socket.on('data', (data: Buffer) => heard.push(data));
        else goOn(socket);
      });
      await new Promise<void>((resolve) => {
        front.listen(0, '127.0.0.1', resolve);
      });
      const target = `127.0.0.1:${(front.address() as AddressInfo).port}`;
      try {
        using client = connectGrpc({ target, answerBytesMax: 100_000 });
        const answer = client.unary('/t.T/Tell', bytes('a'), AbortSignal.timeout(15_000));
        await assert.rejects(
          client.unary('/t.T/Tell', bytes('b'), never, { timeoutMillis: 2_500 }),
          { code: 'DEADLINE_EXCEEDED' },
        );
        assert.equal(sockets.size, 1, 'the one that was begun first');
        isSilent = false;
        for (const socket of sockets) goOn(socket);
        assert.equal(textOf(await answer), 'a');
        assert.equal(sockets.size, 1);
      } finally {
        front.close();
        for (const socket of [...sockets, ...backs]) socket.destroy();
      }
    },
  ));

test('errors keep their code and message from handler to caller', async () => {
  const cases: [Error, string, RegExp][] = [
    [new TsdbError('BAD_REQUEST', 'x: is bad: 1'), 'BAD_REQUEST', /\/t\.T\/Fail: x: is bad: 1$/],
    [new TsdbError('RESOURCE_EXHAUSTED', 'full'), 'RESOURCE_EXHAUSTED', /full$/],
    [new TsdbError('CONFLICT', 'lost'), 'CONFLICT', /lost$/],
    [new GrpcStatusError(grpcStatus.notFound, 'none'), 'NOT_FOUND', /none$/],
    [new Error('oops'), 'INTERNAL', /oops$/],
  ];
  for (const [error, code, pattern] of cases) {
    await served([fails(error)], async (client) => {
      await assert.rejects(client.unary('/t.T/Fail', bytes(''), never), (got: unknown) => {
        assert(got instanceof TsdbError);
        assert.equal(got.code, code);
        assert.match(got.message, pattern);
        return true;
      });
    });
  }
});

test('a caller that aborts gets its reason, and the handler its signal', async () => {
  const left = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const wait: GrpcMethod = {
    kind: 'unary',
    path: '/t.T/Wait',
    handle: async (_request, { signal }) => {
      entered.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      left.resolve();
      return bytes('');
    },
  };
  await served([wait], async (client) => {
    const stop = new AbortController();
    const reason = new Error('enough');
    const calling = client.unary('/t.T/Wait', bytes(''), stop.signal);
    await entered.promise;
    stop.abort(reason);
    await assert.rejects(calling, (error) => error === reason);
    await left.promise;
    const late = client.unary('/t.T/Wait', bytes(''), never, { timeoutMillis: 20 });
    await assert.rejects(late, (error: TsdbError) => error.code === 'DEADLINE_EXCEEDED');
  });
});

test('a stream carries many messages both ways and ends when the client does', () =>
  served([echo], async (client) => {
    const stream = client.stream('/t.T/Echo', never);
    const sending = (async () => {
      for (let index = 0; index < 500; index += 1) await stream.send(bytes(String(index)));
      stream.end();
    })();
    const seen: string[] = [];
    for await (const message of stream.messages) seen.push(textOf(message));
    await sending;
    assert.deepEqual(
      seen,
      Array.from({ length: 500 }, (_, index) => String(index)),
    );
  }));

test('send() waits for a reader that is slow', async () => {
  let sent = 0;
  const flood: GrpcMethod = {
    kind: 'stream',
    path: '/t.T/Flood',
    handle: async (_requests, send, { signal }) => {
      while (!signal.aborted) {
        await send(new Uint8Array(50_000));
        sent += 1;
      }
    },
  };
  await served([flood], async (client) => {
    const stop = new AbortController();
    const stream = client.stream('/t.T/Flood', stop.signal);
    const messages = stream.messages[Symbol.asyncIterator]();
    await messages.next();
    let before = -1;
    // The server comes to rest while the client does not read.
    while (sent !== before) {
      before = sent;
      for (let turn = 0; turn < 200; turn += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    const waiting = sent;
    assert(waiting < 1_000, `${waiting} messages of 50 kB are on their way`);
    for (let index = 0; index < waiting + 5; index += 1) {
      assert.equal((await messages.next()).value!.length, 50_000);
    }
    stop.abort(new Error('enough'));
    await assert.rejects(async () => {
      for (;;) if ((await messages.next()).done) return;
    }, /enough/);
  });
});

test('a stream that the handler ends with an error ends so for the caller', () =>
  served(
    [
      {
        kind: 'stream',
        path: '/t.T/Half',
        handle: async (_requests, send) => {
          await send(bytes('one'));
          throw new TsdbError('UNAVAILABLE', 'moved');
        },
      },
    ],
    async (client) => {
      const stream = client.stream('/t.T/Half', never);
      const seen: string[] = [];
      const reading = async () => {
        for await (const message of stream.messages) seen.push(textOf(message));
      };
      await assert.rejects(reading(), (error: TsdbError) => error.code === 'UNAVAILABLE');
      assert.deepEqual(seen, ['one']);
    },
  ));

test('stopping the server ends open streams as UNAVAILABLE and refuses new calls', () =>
  served([echo], async (client, server) => {
    const stream = client.stream('/t.T/Echo', never);
    const messages = stream.messages[Symbol.asyncIterator]();
    await stream.send(bytes('x'));
    assert.equal(textOf((await messages.next()).value!), 'x');
    const isUnavailable = (error: TsdbError) => error.code === 'UNAVAILABLE';
    const rest = assert.rejects(messages.next(), isUnavailable);
    await server[Symbol.asyncDispose]();
    await rest;
    await assert.rejects(client.unary('/t.T/Any', bytes(''), never), isUnavailable);
  }));

test('requests beyond the limit, and methods that are not there, are refused', () =>
  served([{ ...fails(new Error('x')), path: '/t.T/A' } as GrpcMethod], async (client) => {
    const large = client.unary('/t.T/A', new Uint8Array(100_001), never);
    await assert.rejects(large, (error: TsdbError) => error.code === 'RESOURCE_EXHAUSTED');
    await assert.rejects(client.unary('/t.T/None', bytes(''), never), /does not implement/);
  }));

test('serveGrpc() says which address it cannot have', () =>
  served([], async (_client, { port }) => {
    const options = {
      host: '127.0.0.1',
      port,
      requestBytesMax: 1,
      stopGraceMillis: 1,
      methods: [],
    };
    await assert.rejects(
      serveGrpc(options),
      new RegExp(`cannot listen on 127\\.0\\.0\\.1:${port}`),
    );
  }));

test('a target that names no address is one that cannot be reached', async () => {
  for (const target of ['', '\0', '\0:9000', 'a b:1', 'host:99999', 'host']) {
    using client = connectGrpc({ target, answerBytesMax: 1000 });
    const signal = new AbortController().signal;
    await assert.rejects(client.unary('/a/B', new Uint8Array(0), signal), { code: 'UNAVAILABLE' });
    const { messages } = client.stream('/a/B', signal);
    await assert.rejects(messages[Symbol.asyncIterator]().next(), { code: 'UNAVAILABLE' });
  }
});

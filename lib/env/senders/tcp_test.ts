import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ListenError } from '../listen_error.ts';
import { listenTcp, tcpLimitsDefault, type TcpServerOptions } from './tcp.ts';

const options: Omit<TcpServerOptions, 'handler'> = {
  host: '127.0.0.1',
  port: 0,
  limits: tcpLimitsDefault,
  onError: (error) => assert.fail(String(error)),
  monotonicMillis: () => performance.now(),
};

async function client(port: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** Until that holds, or for two seconds. */
async function until(holds: () => boolean): Promise<void> {
  for (let waits = 0; waits < 200 && !holds(); waits++) await sleep(10);
  assert.ok(holds());
}

test('what a client sends is handed over in its order, and the connection ends behind it', async () => {
  const texts: string[] = [];
  await using server = await listenTcp({
    ...options,
    handler: async (chunks) => {
      let text = '';
      for await (const chunk of chunks) text += Buffer.from(chunk).toString();
      texts.push(text);
    },
  });
  const all = Array.from({ length: 20 }, (_, i) => `${i}`.repeat(1000 * i));
  for (const text of all) {
    const socket = await client(server.port);
    socket.end(text);
    socket.resume();
    await once(socket, 'close');
  }
  assert.deepEqual(texts, all);
  await until(() => server.connectionCount === 0);
});

test('a client is answered, and one that does not read holds up nobody', async () => {
  const all = 'x'.repeat(1 << 20);
  let ended = 0;
  await using server = await listenTcp({
    ...options,
    handler: async (chunks, _signal, answer) => {
      for await (const chunk of chunks) {
        answer(Buffer.from(chunk).toString());
        for (let i = 0; i < 50; i++) answer(all);
      }
      ended += 1;
    },
  });
  const deaf = await client(server.port);
  deaf.pause();
  deaf.end('a');
  await until(() => ended === 1);
  await until(() => server.connectionCount === 0);
  const reader = await client(server.port);
  let text = '';
  reader.on('data', (chunk) => (text += chunk.toString()));
  reader.end('b');
  await once(reader, 'close');
  assert.ok(text.startsWith('bxxx'));
  deaf.destroy();
});

test('a client that ends its connection and leaves does not end what is done with its bytes', async () => {
  const taking = Promise.withResolvers<void>();
  let end: AbortSignal | null = null;
  let isDone = false;
  await using server = await listenTcp({
    ...options,
    handler: async (chunks, signal) => {
      end = signal;
      for await (const chunk of chunks) assert.ok(chunk.length > 0);
      await taking.promise;
      signal.throwIfAborted();
      isDone = true;
    },
  });
  const socket = await client(server.port);
  socket.end('all');
  await sleep(100);
  socket.destroy();
  await sleep(100);
  assert.equal(end!.aborted, false);
  taking.resolve();
  await until(() => server.connectionCount === 0);
  assert.ok(isDone);
});

test('a client waits while nothing is taken from it', async () => {
  const taking = Promise.withResolvers<void>();
  let taken = 0;
  await using server = await listenTcp({
    ...options,
    handler: async (chunks) => {
      for await (const chunk of chunks) {
        taken += chunk.length;
        await taking.promise;
      }
    },
  });
  const socket = await client(server.port);
  const block = Buffer.alloc(1 << 20);
  let sent = 0;
  // The system takes some megabytes for both sides.
  while (sent < 64 << 20 && socket.write(block, () => {})) sent += block.length;
  for (let i = 0; i < 64; i++) socket.write(block);
  await sleep(200);
  assert.ok(taken <= 1 << 18, `${taken}`);
  taking.resolve();
  socket.end();
  socket.resume();
  await once(socket, 'close');
  assert.ok(taken >= 64 << 20, `${taken}`);
});

test('one connection too many takes the place of the one that sent nothing for longest; idle ones are closed', async () => {
  const taken: string[] = [];
  await using server = await listenTcp({
    ...options,
    limits: { connectionsMax: 2, idleMillisMax: 400, stopMillisMax: 5_000 },
    handler: async (chunks) => {
      for await (const chunk of chunks) taken.push(Buffer.from(chunk).toString());
    },
  });
  const [quiet, busy] = [await client(server.port), await client(server.port)];
  const closed = once(quiet, 'close');
  busy.write('a');
  await until(() => taken.length === 1);
  const third = await client(server.port);
  await closed;
  third.write('b');
  await until(() => taken.length === 2);
  assert.equal(server.connectionCount, 2);
  await Promise.all([once(third, 'close'), once(busy, 'close')]);
  await until(() => server.connectionCount === 0);
});

test('who is made to wait is not idle: neither time nor others close it', async () => {
  const taking = Promise.withResolvers<void>();
  const texts: string[] = [];
  await using server = await listenTcp({
    ...options,
    limits: { connectionsMax: 2, idleMillisMax: 100, stopMillisMax: 5_000 },
    handler: async (chunks) => {
      let text = '';
      for await (const chunk of chunks) {
        text += Buffer.from(chunk).toString();
        await taking.promise;
      }
      texts.push(text);
    },
  });
  const held = [await client(server.port), await client(server.port)];
  const closed = held.map((socket) => once(socket, 'close'));
  for (const socket of held) socket.write('a');
  await sleep(400);
  const third = await client(server.port);
  await once(third, 'close');
  for (const socket of held) {
    assert.equal(socket.destroyed, false);
    socket.end('b');
    socket.resume();
  }
  taking.resolve();
  await Promise.all(closed);
  assert.deepEqual(texts, ['ab', 'ab']);
});

test('connections that were let go and are not done with have a limit, too', async () => {
  const taking = Promise.withResolvers<void>();
  await using server = await listenTcp({
    ...options,
    limits: { connectionsMax: 2, idleMillisMax: 5_000, stopMillisMax: 50 },
    handler: async (chunks) => {
      for await (const chunk of chunks) assert.ok(chunk.length > 0);
      await taking.promise;
    },
    onError: () => {},
  });
  // Each is read on, so each gives its place to the next one, and its handler goes on.
  for (let i = 0; i < 200; i++) {
    // Those that find no place are closed as they come.
    const socket = await client(server.port).catch(() => null);
    socket?.write('a');
  }
  assert.ok(server.connectionCount <= 2 + 64, `${server.connectionCount}`);
  taking.resolve();
});

test('what a client had sent is still taken when it is closed since nothing came', async () => {
  const taking = Promise.withResolvers<void>();
  let text: string | null = null;
  let isAborted = true;
  await using server = await listenTcp({
    ...options,
    limits: { connectionsMax: 2, idleMillisMax: 100, stopMillisMax: 5_000 },
    handler: async (chunks, signal) => {
      const all: string[] = [];
      await assert.rejects(async () => {
        for await (const chunk of chunks) all.push(Buffer.from(chunk).toString());
      }, /broke off/);
      await taking.promise;
      isAborted = signal.aborted;
      text = all.join('');
    },
  });
  const socket = await client(server.port);
  socket.write('a');
  await once(socket, 'close');
  assert.equal(server.connectionCount, 1, 'it is still served');
  taking.resolve();
  await until(() => server.connectionCount === 0);
  assert.deepEqual([text, isAborted], ['a', false]);
});

test('a handler that fails ends its connection alone; one that breaks off is nobody else, and no mistake', async () => {
  const errors: unknown[] = [];
  const ends: unknown[] = [];
  let served = 0;
  await using server = await listenTcp({
    ...options,
    onError: (error) => errors.push(error),
    handler: async (chunks, signal) => {
      served++;
      try {
        for await (const chunk of chunks) {
          if (Buffer.from(chunk).includes('bad')) throw new Error('it is bad');
        }
      } catch (error) {
        ends.push(`${String(error)}, ${signal.aborted}`);
        throw error;
      }
    },
  });
  const bad = await client(server.port);
  const cut = await client(server.port);
  const good = await client(server.port);
  bad.write('bad');
  await once(bad, 'close');
  cut.write('something');
  await until(() => served === 3);
  cut.resetAndDestroy();
  await until(() => ends.length === 2);
  assert.match(String(ends[1]), /the connection broke off, false/);
  assert.deepEqual(errors.map(String), ['Error: it is bad']);
  good.end('good');
  good.resume();
  await once(good, 'close');
});

test('a server that stops waits for what has come, some time, and then aborts its handlers', async () => {
  for (const stopMillisMax of [5_000, 50]) {
    const taking = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<unknown>();
    let text = '';
    let ended: unknown = null;
    const server = await listenTcp({
      ...options,
      limits: { ...tcpLimitsDefault, stopMillisMax },
      handler: async (chunks, signal) => {
        signal.addEventListener('abort', () => aborted.resolve(signal.reason));
        try {
          for await (const chunk of chunks) {
            text += Buffer.from(chunk).toString();
            if (stopMillisMax === 50) throw await aborted.promise;
            await taking.promise;
          }
        } catch (error) {
          ended = error;
        }
      },
    });
    const socket = await client(server.port);
    const idle = await client(server.port);
    socket.write('a');
    await until(() => text === 'a');
    socket.write('b');
    await sleep(50);
    const closed = [socket, idle].map((each) => once(each, 'close'));
    const stopping = server[Symbol.asyncDispose]();
    taking.resolve();
    await stopping;
    await Promise.all(closed);
    if (stopMillisMax === 50) assert.match(String(ended), /the server stops/);
    else assert.deepEqual([text, /broke off/.test(String(ended))], ['ab', true]);
  }
});

test('an address that is taken is told', async () => {
  const handler = async (): Promise<void> => {};
  await using server = await listenTcp({ ...options, handler });
  await assert.rejects(
    listenTcp({ ...options, port: server.port, handler }),
    (error) => error instanceof ListenError && /another program has this port/.test(error.message),
  );
});

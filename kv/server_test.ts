import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connectGrpc, type GrpcClient } from '#lib/env/grpc.ts';
import type { ProtoMessage } from '#lib/env/proto.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { schema } from './messages.ts';
import type { MvccOptions } from './core/mvcc.ts';
import { openEmbeddedKv } from './server.ts';

const never = new AbortController().signal;
const methods = new Map(schema.methods().map((method) => [method.path, method]));
const bytes = (text: string) => Buffer.from(text, 'latin1');
const textOf = (value: Uint8Array) => Buffer.from(value).toString('latin1');

interface Watching {
  readonly ask: (message: ProtoMessage) => Promise<void>;
  readonly next: () => Promise<ProtoMessage>;
}

test('every method of the API is served', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-'));
  const server = await openEmbeddedKv({ folder, port: 0, env: realEnv, log: silentLog });
  using client = connectGrpc({ target: server.endpoint, answerBytesMax: 1_000_000 });
  try {
    for (const { path, answerStreams } of methods.values()) {
      if (answerStreams) continue;
      const failure = await client.unary(path, new Uint8Array(0), never).then(String, String);
      assert.doesNotMatch(failure, /not implement|UNIMPLEMENTED/i, path);
    }
    assert.equal([...methods.values()].filter(({ answerStreams }) => answerStreams).length, 2);
  } finally {
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  }
});

/** A client that speaks plain etcd messages, so that every field can be set and seen. */
class Client implements Disposable {
  readonly #grpc: GrpcClient;

  constructor(target: string) {
    this.#grpc = connectGrpc({ target, answerBytesMax: 64_000_000 });
  }

  async call(name: string, message: ProtoMessage = {}): Promise<ProtoMessage> {
    const path = `/etcdserverpb.${name}`;
    const method = methods.get(path)!;
    return method.answer.decode(
      await this.#grpc.unary(path, method.request.encode(message), never),
    );
  }

  put(key: string, value: string, more: ProtoMessage = {}): Promise<ProtoMessage> {
    return this.call('KV/Put', { key: bytes(key), value: bytes(value), ...more });
  }

  async get(key: string, more: ProtoMessage = {}): Promise<[string, string][]> {
    const { pairs } = await this.call('KV/Range', { key: bytes(key), ...more });
    return (pairs as ProtoMessage[]).map((pair) => [textOf(pair['key']), textOf(pair['value'])]);
  }

  watch(): Watching {
    const { request, answer } = methods.get('/etcdserverpb.Watch/Watch')!;
    const stream = this.#grpc.stream('/etcdserverpb.Watch/Watch', never);
    const answers = stream.messages[Symbol.asyncIterator]();
    return {
      ask: (message) => stream.send(request.encode(message)),
      next: async () => {
        const { value, done } = await answers.next();
        assert(done !== true);
        return answer.decode(value);
      },
    };
  }

  [Symbol.dispose](): void {
    this.#grpc[Symbol.dispose]();
  }
}

async function served(
  run: (client: Client, endpoint: string) => Promise<void>,
  mvcc: Partial<MvccOptions> = {},
  metrics?: Metrics,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-'));
  try {
    const more = metrics === undefined ? {} : { metrics };
    const options = { folder, port: 0, env: realEnv, log: silentLog, mvcc, ...more };
    await using kv = await openEmbeddedKv(options);
    using client = new Client(kv.endpoint);
    await run(client, kv.endpoint);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const shortOf = (event: ProtoMessage): string => {
  const { kind, pair, previous } = event;
  const value = kind === 1 ? ' gone' : `=${textOf(pair.value)}`;
  return textOf(pair.key) + value + (previous === null ? '' : ` was ${textOf(previous.value)}`);
};

test('every refusal has the status and text by which etcd clients know it', () =>
  served(async (client) => {
    await client.put('a', '1');
    await client.put('a', '2');
    await client.put('a', '3');
    await client.call('KV/Compact', { revision: 3 });
    const key = bytes('a');
    const txn = (success: ProtoMessage[]) => ({ success });
    const putA = { put: { key, value: key } };
    const cases: [string, ProtoMessage, RegExp][] = [
      [
        'KV/Range',
        { key, revision: 2 },
        /^.*etcdserver: mvcc: required revision has been compacted$/,
      ],
      [
        'KV/Range',
        { key, revision: 9 },
        /etcdserver: mvcc: required revision is a future revision$/,
      ],
      ['KV/Compact', { revision: 3 }, /etcdserver: mvcc: required revision has been compacted$/],
      ['KV/Compact', { revision: 9 }, /etcdserver: mvcc: required revision is a future revision$/],
      ['KV/Range', {}, /etcdserver: key is not provided$/],
      ['KV/Put', {}, /etcdserver: key is not provided$/],
      ['KV/DeleteRange', {}, /etcdserver: key is not provided$/],
      ['KV/Range', { key, sortOrder: 7 }, /etcdserver: invalid sort option$/],
      ['KV/Put', { key, value: key, ignoreValue: true }, /etcdserver: value is provided$/],
      ['KV/Put', { key, lease: 5, ignoreLease: true }, /etcdserver: lease is provided$/],
      ['KV/Put', { key: bytes('no'), ignoreValue: true }, /etcdserver: key not found$/],
      ['KV/Put', { key, lease: 5 }, /etcdserver: requested lease not found$/],
      ['Lease/LeaseRevoke', { id: 5 }, /etcdserver: requested lease not found$/],
      ['Lease/LeaseGrant', { ttl: 9_000_000_001 }, /etcdserver: too large lease TTL$/],
      ['KV/Txn', txn([putA, putA]), /etcdserver: duplicate key given in txn request$/],
      ['KV/Txn', txn(Array<ProtoMessage>(129).fill(putA)), /too many operations in txn request$/],
      ['KV/Put', { key, value: Buffer.alloc(1_600_000) }, /etcdserver: request is too large$/],
      ['Auth/Authenticate', { name: 'a' }, /etcdserver: authentication is not enabled$/],
    ];
    for (const [name, message, pattern] of cases) {
      await assert.rejects(client.call(name, message), pattern);
    }
    assert.deepEqual(await client.get('a'), [['a', '3']]);
    await client.put('large', 'x'.repeat(1_500_000));
    assert.equal((await client.get('large'))[0]![1].length, 1_500_000);
  }));

test('ranges, sorting, limits and history', () =>
  served(async (client) => {
    for (const [key, value] of [
      ['a', '3'],
      ['b', '1'],
      ['c', '2'],
      ['a', '4'],
    ] as const) {
      await client.put(key, value);
    }
    const all = { rangeEnd: Buffer.of(0) };
    assert.deepEqual(await client.get('\0', { ...all, sortOrder: 2, limit: 2 }), [
      ['c', '2'],
      ['b', '1'],
    ]);
    assert.deepEqual(await client.get('\0', { ...all, sortTarget: 4 }), [
      ['b', '1'],
      ['c', '2'],
      ['a', '4'],
    ]);
    assert.deepEqual(await client.get('\0', { ...all, revision: 3 }), [
      ['a', '3'],
      ['b', '1'],
    ]);
    assert.deepEqual(await client.get('a', { rangeEnd: bytes('c'), keysOnly: true }), [
      ['a', ''],
      ['b', ''],
    ]);
    const cut = await client.call('KV/Range', { key: bytes('\0'), ...all, limit: 2 });
    assert.deepEqual([cut['more'], cut['count'], cut['pairs'].length], [true, 3n, 2]);
    const counted = await client.call('KV/Range', { key: bytes('\0'), ...all, countOnly: true });
    assert.deepEqual([counted['count'], counted['pairs'].length], [3n, 0]);
    const { deleted, previous } = await client.call('KV/DeleteRange', {
      key: bytes('a'),
      rangeEnd: bytes('c'),
      previous: true,
    });
    assert.equal(deleted, 2n);
    assert.deepEqual(
      previous.map((pair: ProtoMessage) => textOf(pair['value'])),
      ['4', '1'],
    );
  }));

test('a range of thousands of keys is whole and in order', () =>
  served(async (client) => {
    const names = Array.from({ length: 1_203 }, (_, i) => `many/${String(i).padStart(5, '0')}`);
    for (const name of names) await client.put(name, name.slice(5));
    const prefix = { key: bytes('many/'), rangeEnd: bytes('many0') };
    for (const limit of [0, 1_000, 1_001]) {
      const answer = await client.call('KV/Range', { ...prefix, limit });
      const wanted = limit === 0 ? names : names.slice(0, limit);
      assert.deepEqual([answer['more'], answer['count']], [limit > 0, 1_203n]);
      assert.deepEqual(
        answer['pairs'].map((pair: ProtoMessage) => textOf(pair['key'])),
        wanted,
      );
      assert.ok(answer['header'].revision >= 1_203n);
    }
  }));

test('a stream carries many watches, each with its own range, filters and start', () =>
  served(async (client) => {
    await client.put('a', '1');
    await client.put('b', '1');
    const { ask, next } = client.watch();
    await ask({ create: { key: bytes('a'), startRevision: 2, previous: true } });
    assert.deepEqual((await next())['created'], true);
    assert.deepEqual((await next())['events'].map(shortOf), ['a=1']);
    const everything = { key: bytes('\0'), rangeEnd: Buffer.of(0) };
    await ask({ create: { ...everything, filters: [0], watchId: 77 } });
    const second = await next();
    assert.deepEqual([second['created'], second['watchId']], [true, 77n]);
    await ask({ create: { ...everything, watchId: 77 } });
    const refused = await next();
    assert.deepEqual([refused['created'], refused['canceled']], [true, true]);
    await client.put('a', '2');
    assert.deepEqual((await next())['events'].map(shortOf), ['a=2 was 1']);
    await client.call('KV/DeleteRange', { key: bytes('b') });
    const gone = await next();
    assert.deepEqual([gone['watchId'], gone['events'].map(shortOf)], [77n, ['b gone']]);
    await ask({ progress: {} });
    const progress = await next();
    assert.deepEqual([progress['watchId'], progress['header'].revision], [-1n, 5n]);
    await ask({ cancel: { watchId: 0 } });
    assert.equal((await next())['canceled'], true);
    await client.call('KV/DeleteRange', { key: bytes('a') });
    assert.deepEqual((await next())['watchId'], 77n);
  }));

test('a watch from a compacted revision is cancelled with the revision of compaction', () =>
  served(async (client) => {
    for (const value of ['1', '2', '3', '4']) await client.put('a', value);
    await client.call('KV/Compact', { revision: 4 });
    const { ask, next } = client.watch();
    await ask({ create: { key: bytes('a'), startRevision: 3 } });
    assert.equal((await next())['created'], true);
    const cancelled = await next();
    assert.deepEqual([cancelled['canceled'], cancelled['compactRevision']], [true, 4n]);
    await ask({ create: { key: bytes('a'), startRevision: 4 } });
    assert.equal((await next())['created'], true);
    assert.deepEqual((await next())['events'].map(shortOf), ['a=3', 'a=4']);
    await ask({ create: { key: bytes('a'), startRevision: 7 } });
    await next();
    await client.put('a', '5');
    assert.deepEqual((await next())['events'].map(shortOf), ['a=5']);
    await client.put('a', '6');
    const both = [await next(), await next()].map((answer) => answer['events'].map(shortOf));
    assert.deepEqual(both, [['a=6'], ['a=6']]);
  }));

test('a watcher that does not read costs no memory, and gets all of it later', () =>
  served(async (client, endpoint) => {
    using slow = new Client(endpoint);
    const { ask, next } = slow.watch();
    await ask({ create: { key: bytes('a') } });
    await next();
    const value = 'x'.repeat(200_000);
    const count = 150;
    for (let index = 0; index < count; index += 1) await client.put('a', value + index);
    const seen: string[] = [];
    while (seen.length < count) {
      const { events } = await next();
      for (const event of events) seen.push(textOf(event.pair.value).slice(value.length));
    }
    assert.deepEqual(
      seen,
      Array.from({ length: count }, (_, index) => String(index)),
    );
  }));

test('history beyond its limit is compacted by itself, and the newest stays', () =>
  served(
    async (client) => {
      for (let index = 1; index <= 40; index += 1) await client.put('a', String(index));
      await assert.rejects(client.get('a', { revision: 5 }), /has been compacted/);
      assert.deepEqual(await client.get('a', { revision: 36 }), [['a', '35']]);
      assert.deepEqual(await client.get('a'), [['a', '40']]);
    },
    { historyRevisionsMax: 10, historyRevisionsSlack: 5 },
  ));

test('leases: grant, time to live, list, keep alive, expiry', () =>
  served(async (client) => {
    const { id, ttl } = await client.call('Lease/LeaseGrant', {
      ttl: 100,
      id: 1234567890123456789n,
    });
    assert.deepEqual([id, ttl], [1234567890123456789n, 100n]);
    await assert.rejects(client.call('Lease/LeaseGrant', { ttl: 1, id }), /lease already exists$/);
    await client.put('a', '1', { lease: id });
    const info = await client.call('Lease/LeaseTimeToLive', { id, keys: true });
    assert.deepEqual([info['grantedTtl'], info['keys'].map(textOf)], [100n, ['a']]);
    assert.equal((await client.call('Lease/LeaseTimeToLive', { id: 5 }))['ttl'], -1n);
    const { leases } = await client.call('Lease/LeaseLeases');
    assert.deepEqual(leases, [{ id }]);
    const short = await client.call('Lease/LeaseGrant', { ttl: 1 });
    assert(short['id'] > 0n);
    const { ask, next } = client.watch();
    await ask({ create: { key: bytes('b') } });
    await next();
    await client.put('b', '1', { lease: short['id'] });
    assert.deepEqual((await next())['events'].map(shortOf), ['b=1']);
    assert.deepEqual((await next())['events'].map(shortOf), ['b gone']);
  }));

test('metrics tell revision, keys, leases and watches', async () => {
  const metrics = new Metrics();
  await served(
    async (client) => {
      await client.put('a', '1');
      await client.call('Lease/LeaseGrant', { ttl: 100 });
      const { ask, next } = client.watch();
      await ask({ create: { key: bytes('b') } });
      await next();
      const text = await metrics.text();
      for (const line of [
        'revision 2',
        'keys 1',
        'leases 1',
        'watchers 1',
        'commit_seconds_count 2',
      ]) {
        assert.match(text, new RegExp(`^tsdb_kv_${line}$`, 'm'));
      }
    },
    {},
    metrics,
  );
});

test('openEmbeddedKv() says what is in its way', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-'));
  try {
    const options = { folder, port: 0, env: realEnv, log: silentLog };
    await using kv = await openEmbeddedKv(options);
    await assert.rejects(openEmbeddedKv(options), /kv\.sqlite: database is locked/);
    const elsewhere = { ...options, folder: join(folder, 'other'), port: kv.port };
    await assert.rejects(openEmbeddedKv(elsewhere), /cannot listen on 127\.0\.0\.1:\d+/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** gRPC and HTTP/2 below it: garbage, bombs, messages and streams that do not end, floods of frames. */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { nodePaths } from '#cluster/node/wire.ts';
import type { NodePorts } from '../integration/process.ts';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask, jsonWritePath, RawConnection } from './http.ts';
import { bytesField, frame, frameType, grpcMessage, numberField, varint } from './protobuf.ts';

const mebibyte = 2 ** 20;

/** A connection that is opened again when the victim has ended it. */
export class GrpcConnection {
  readonly #port: number;
  #session: ClientHttp2Session | null = null;

  constructor(port: number) {
    this.#port = port;
  }

  /** @returns the gRPC status, or that the stream ended without one */
  call(
    path: string,
    body: Uint8Array,
    headers: Readonly<Record<string, string>> = {},
    timeoutMillis: number = 10_000,
  ): Promise<string> {
    const stream = this.#begin(path, headers);
    return new Promise((resolve) => {
      let status: string | null = null;
      const take = (got: IncomingHttpHeaders): void => {
        const code = got['grpc-status'];
        if (typeof code === 'string') status = `status ${code}`;
      };
      stream.on('response', take);
      stream.on('trailers', take);
      stream.setTimeout(timeoutMillis, () => stream.close(constants.NGHTTP2_CANCEL));
      stream.on('close', () => resolve(status ?? 'stream ended'));
      stream.end(body);
    });
  }

  /** A stream with a beginning of a message, which stays open. */
  begin(path: string, bytes: Uint8Array, headers: Readonly<Record<string, string>> = {}): void {
    this.#begin(path, headers).write(bytes);
  }

  get isOpen(): boolean {
    return this.#session !== null && !this.#session.closed && !this.#session.destroyed;
  }

  leave(): void {
    this.#session?.destroy();
  }

  #begin(path: string, headers: Readonly<Record<string, string>>): ClientHttp2Stream {
    if (!this.isOpen) {
      this.#session = connect(`http://127.0.0.1:${this.#port}`);
      this.#session.on('error', () => {});
    }
    const stream = this.#session!.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    stream.on('data', () => {});
    stream.on('error', () => {});
    return stream;
  }
}

/** Not the one that does what the message says: all of `default` would be gone. */
const paths = Object.values(nodePaths).filter((path) => path !== nodePaths.truncate);
const inDefault = bytesField(1, 'default');
const everything = bytesField(3, bytesField(4, ''));

/** The node's query `not not not … everything`. */
function negations(depth: number): Buffer {
  const lengths: number[] = [];
  let length = 2;
  for (let i = 0; i < depth; i += 1) {
    lengths.push(length);
    length += 1 + varint(length).length;
  }
  return Buffer.concat([
    ...lengths.reverse().map((inner) => Buffer.concat([Buffer.from([0x3a]), varint(inner)])),
    Buffer.from([0x22, 0]),
  ]);
}

const garbage: Attack = {
  name: 'gRPC garbage',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const all = numberField(7, 1);
    const messages: readonly (() => Uint8Array)[] = [
      () => grpcMessage(new Uint8Array(0)),
      () => grpcMessage(random.bytes(2000)),
      () => grpcMessage(new Uint8Array(50).fill(255)),
      () => Buffer.from([0, 255, 255, 255, 255, 1, 2, 3]),
      () => Buffer.from('abc'),
      () => grpcMessage(new Uint8Array(10), true),
      () => Buffer.concat([grpcMessage(new Uint8Array(0)), grpcMessage(new Uint8Array(0))]),
      () => grpcMessage(Buffer.concat([inDefault, bytesField(3, negations(100)), all])),
      () => grpcMessage(Buffer.concat([inDefault, bytesField(3, negations(100_000)), all])),
      () => grpcMessage(Buffer.concat([inDefault, numberField(2, 2 ** 32 - 1), everything, all])),
      () =>
        grpcMessage(Buffer.concat([inDefault, bytesField(5, new Uint8Array(mebibyte).fill(1))])),
    ];
    const connection = new GrpcConnection(random.pick([ports.grpc, ports.grpcCluster]));
    await keepDoing(new Span(seconds), 4, async () => {
      answers.note(await connection.call(random.pick(paths), random.pick(messages)()));
    });
    connection.leave();
    return answers;
  },
};

const manyIds: Attack = {
  name: 'gRPC requests of many IDs',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const ids = Array.from({ length: 300_000 }, (_, i) => bytesField(3, `id${i}`));
    const bodies = [
      grpcMessage(Buffer.concat([inDefault, ...ids])),
      grpcMessage(Buffer.concat([inDefault, ...ids.slice(0, 10_000)])),
    ];
    const connection = new GrpcConnection(random.pick([ports.grpc, ports.grpcCluster]));
    await keepDoing(new Span(seconds), 2, async () => {
      answers.note(await connection.call(nodePaths.fetchById, random.pick(bodies)));
    });
    connection.leave();
    return answers;
  },
};

const gzip = { 'grpc-encoding': 'gzip' };
const zipped = new Map<number, Buffer>();

function zeros(bytes: number): Buffer {
  const known = zipped.get(bytes) ?? grpcMessage(gzipSync(Buffer.alloc(bytes)), true);
  zipped.set(bytes, known);
  return known;
}

const bombs: Attack = {
  name: 'gRPC messages that unpack to much',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const connection = new GrpcConnection(random.pick([ports.grpc, ports.grpcCluster]));
    await keepDoing(new Span(seconds), 10, async () => {
      const bomb = zeros(random.pick([16, 120, 400]) * mebibyte);
      answers.note(await connection.call(nodePaths.write, bomb, gzip));
    });
    connection.leave();
    return answers;
  },
};

const unfinished: Attack = {
  name: 'gRPC messages that stand still',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    const port = random.pick([ports.grpc, ports.grpcCluster, ports.kv]);
    const [connections, streams, sentBytes] = random.pick([
      [4, 5, 4 * mebibyte],
      [20, 100, 1000],
      [200, 5, 16],
    ] as const);
    const prefix = Buffer.from([0, 7, 0, 0, 0]);
    const part = Buffer.concat([prefix, Buffer.alloc(sentBytes)]);
    const opened = Array.from({ length: connections }, () => new GrpcConnection(port));
    for (const connection of opened) {
      for (let i = 0; i < streams; i += 1) connection.begin(nodePaths.write, part);
      await delay(5);
    }
    await delay(span.leftMillis);
    for (const connection of opened) {
      answers.note(connection.isOpen ? 'open' : 'ended');
      connection.leave();
    }
    return answers;
  },
};

const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame(frameType.settings, 0, 0, new Uint8Array(0)),
]);

/** `:method POST`, `:scheme http`, path, authority and content type, as HPACK without Huffman codes. */
const healthHeaders = Buffer.concat([
  Buffer.from([0x83, 0x86, 0x04, nodePaths.health.length]),
  Buffer.from(nodePaths.health),
  Buffer.from([0x41, 1, 0x78, 0x5f, 16]),
  Buffer.from('application/grpc'),
]);

const repeated = (count: number, bytes: Uint8Array): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => bytes));

/** Parts of a flood: the first, and those after it by their number. */
type Flood = (part: number) => Uint8Array;

const streamsOf =
  (count: number, of: (stream: number) => readonly Uint8Array[]): Flood =>
  (part) =>
    Buffer.concat(Array.from({ length: count }, (_, i) => of(2 * (part * count + i) + 1)).flat());

const floods: Readonly<Record<string, Flood>> = {
  continuations: (part) =>
    part === 0
      ? frame(frameType.headers, 0, 1, new Uint8Array(10).fill(0x40))
      : repeated(
          100,
          frame(
            frameType.continuation,
            0,
            1,
            Buffer.concat([Buffer.from([0, 1, 0x61, 0x7f, 0x81, 0x7e]), Buffer.alloc(255, 'a')]),
          ),
        ),
  settings: () =>
    repeated(1000, frame(frameType.settings, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100]))),
  pings: () => repeated(1000, frame(frameType.ping, 0, 0, new Uint8Array(8))),
  resets: streamsOf(200, (stream) => [
    frame(frameType.headers, 4, stream, healthHeaders),
    frame(frameType.resetStream, 0, stream, Buffer.from([0, 0, 0, 8])),
  ]),
  'open streams': streamsOf(100, (stream) => [frame(frameType.headers, 4, stream, healthHeaders)]),
  zeros: () => new Uint8Array(10_000),
};

const frames: Attack = {
  name: 'floods of HTTP/2 frames',
  subject: 'grpc',
  async run({ ports }: { readonly ports: NodePorts }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    const port = random.pick([ports.grpc, ports.grpcCluster, ports.kv]);
    const [name, flood] = random.pick(Object.entries(floods));
    while (!span.isOver) {
      const connection = await RawConnection.open(port);
      connection.write(preface);
      for (let part = 0; !span.isOver && !connection.isClosed; ) {
        if (connection.writeWhenTaken(flood(part))) {
          part += 1;
          await turn();
        } else await delay(2);
      }
      answers.note(`${name} ${connection.isClosed ? 'closed' : 'open'}`);
      connection.leave();
    }
    return answers;
  },
};

const shardStreams: Attack = {
  name: 'many streams of shards',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const connection = new GrpcConnection(ports.grpc);
    const rows = Array.from({ length: 20_000 }, (_, k) => ({
      tags: { __name__: 'streamed', k: String(k) },
      timestamp: Date.now() / 1000,
      value: k,
    }));
    await ask(ports.coordinator, jsonWritePath, { body: JSON.stringify(rows) });
    await keepDoing(new Span(seconds), 200, async () => {
      const shard = numberField(2, random.below(64));
      const body = grpcMessage(Buffer.concat([inDefault, shard, numberField(3, 2)]));
      const timeoutMillis = random.pick([30, 10_000]);
      answers.note(await connection.call(nodePaths.streamShard, body, {}, timeoutMillis));
    });
    connection.leave();
    return answers;
  },
};

export const grpcAttacks: readonly Attack[] = [
  shardStreams,
  garbage,
  manyIds,
  bombs,
  unfinished,
  frames,
];

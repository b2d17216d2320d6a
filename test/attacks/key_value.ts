/**
 * The embedded key-value store: transactions in transactions, ranges and watches over all keys, leases
 * that end together, and keys with a long past.
 */
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { GrpcConnection } from './grpc.ts';
import { bytesField, grpcMessage, numberField } from './protobuf.ts';
import { SeededRandom } from '../seeded_random.ts';

const methodPath = (name: string): string => `/etcdserverpb.${name}`;
const folder = 'stranger/';
const folderEnd = 'stranger0';

const rangeOf = (...fields: Buffer[]): Buffer => bytesField(1, Buffer.concat(fields));
const putOf = (key: string, value: Uint8Array, leaseId = 0): Buffer =>
  bytesField(2, Buffer.concat([bytesField(1, key), bytesField(2, value), numberField(3, leaseId)]));
const deletionOf = (key: string): Buffer => bytesField(3, bytesField(1, key));
const operations = (all: readonly Uint8Array[]): Buffer =>
  Buffer.concat(all.map((operation) => bytesField(2, operation)));
const nestedOf = (all: readonly Uint8Array[]): Buffer => bytesField(4, operations(all));

/** Puts so many small keys, by transactions of three thousand. */
async function loadKeys(connection: GrpcConnection, count: number): Promise<void> {
  const nothing = new Uint8Array(0);
  for (let first = 0; first < count; first += 3_000) {
    const inner = Array.from({ length: 60 }, (_, k) =>
      nestedOf(
        Array.from({ length: 50 }, (_, i) => putOf(`${folder}${first + 50 * k + i}`, nothing)),
      ),
    );
    await connection.call(methodPath('KV/Txn'), grpcMessage(operations(inner)));
  }
}

const transactions: Attack = {
  name: 'transactions in transactions',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const connection = new GrpcConnection(ports.kv);
    const big = grpcMessage(
      Buffer.concat([bytesField(1, `${folder}big`), bytesField(2, Buffer.alloc(1 << 20, 65))]),
    );
    await connection.call(methodPath('KV/Put'), big);
    const readBig = rangeOf(bytesField(1, `${folder}big`));
    const countAll = rangeOf(bytesField(1, folder), bytesField(2, folderEnd), numberField(9, 1));
    const nothing = new Uint8Array(0);
    await keepDoing(new Span(seconds), 2, async (round) => {
      const width = random.pick([10, 30, 60, 120]);
      const wide = (operation: Uint8Array): Buffer[] =>
        Array.from({ length: width }, () =>
          nestedOf(Array.from({ length: width }, () => operation)),
        );
      const before = Array.from({ length: 60 }, (_, k) =>
        nestedOf(
          Array.from({ length: 60 }, (_, i) => putOf(`${folder}!${round} ${k} ${i}`, nothing)),
        ),
      );
      const long = `${folder}${'x'.repeat(80)}${round} `;
      const puts = Array.from({ length: 31 }, (_, k) =>
        nestedOf(Array.from({ length: 65 }, (_each, i) => putOf(`${long}${k} ${i}`, nothing))),
      );
      const deletions = Array.from({ length: 32 }, (_, k) =>
        nestedOf(Array.from({ length: 65 }, (_each, i) => deletionOf(`${long}${k} ${i} gone`))),
      );
      const bodies = [
        operations(wide(readBig)),
        operations(wide(countAll)),
        operations(before),
        operations([...puts, ...deletions]),
      ];
      const path = methodPath('KV/Txn');
      answers.note(await connection.call(path, grpcMessage(random.pick(bodies))));
    });
    const all = Buffer.concat([bytesField(1, folder), bytesField(2, folderEnd)]);
    await connection.call(methodPath('KV/DeleteRange'), grpcMessage(all));
    connection.leave();
    return answers;
  },
};

const manyKeys: Attack = {
  name: 'ranges, hashes and watches of many keys',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    const connection = new GrpcConnection(ports.kv);
    await loadKeys(connection, 60_000);
    const all = Buffer.concat([bytesField(1, folder), bytesField(2, folderEnd)]);
    const calls: readonly (readonly [string, Uint8Array])[] = [
      ['KV/Range', Buffer.concat([all, numberField(3, 1), numberField(5, 2), numberField(6, 4)])],
      ['KV/Range', Buffer.concat([all, numberField(9, 1)])],
      ['KV/Range', all],
      ['Maintenance/Hash', new Uint8Array(0)],
      ['Maintenance/HashKV', new Uint8Array(0)],
    ];
    const watch = bytesField(1, Buffer.concat([bytesField(1, 'nobody'), numberField(3, 1)]));
    const watches = Buffer.concat(Array.from({ length: 200 }, () => grpcMessage(watch)));
    await keepDoing(span, 3, async () => {
      if (random.below(10) === 0) connection.begin(methodPath('Watch/Watch'), watches);
      const [name, body] = random.pick(calls);
      answers.note(await connection.call(methodPath(name), grpcMessage(body)));
    });
    // More than may be deleted at once.
    for (let digit = 0; digit < 10; digit += 1) {
      const [from, to] = [`${folder}${digit}`, `${folder}${String.fromCharCode(49 + digit)}`];
      const some = Buffer.concat([bytesField(1, from), bytesField(2, to)]);
      await connection.call(methodPath('KV/DeleteRange'), grpcMessage(some));
    }
    connection.leave();
    return answers;
  },
};

const watchesComeAndGo: Attack = {
  name: 'watches that come and go',
  subject: 'grpc',
  async run({ ports }, _seed, seconds) {
    const answers = new Answers();
    const everything = bytesField(1, Buffer.concat([bytesField(1, '\0'), bytesField(2, '\0')]));
    const watches = Buffer.concat(Array.from({ length: 50 }, () => grpcMessage(everything)));
    const put = Buffer.concat([bytesField(1, `${folder}changed`), bytesField(2, '1')]);
    await keepDoing(new Span(seconds), 10, async () => {
      const connection = new GrpcConnection(ports.kv);
      for (let i = 0; i < 50; i += 1) connection.begin(methodPath('Watch/Watch'), watches);
      answers.note(await connection.call(methodPath('KV/Put'), grpcMessage(put)));
      connection.leave();
    });
    return answers;
  },
};

const leasesEndTogether: Attack = {
  name: 'leases that end together',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const connection = new GrpcConnection(ports.kv);
    const nothing = new Uint8Array(0);
    const grant = async (): Promise<number> => {
      const id = 1 + random.below(2 ** 31 - 1);
      const body = Buffer.concat([numberField(1, 1), numberField(2, id)]);
      answers.note(await connection.call(methodPath('Lease/LeaseGrant'), grpcMessage(body)));
      return id;
    };
    await keepDoing(new Span(seconds), 3, async (round) => {
      const [id] = await Promise.all(Array.from({ length: 200 }, grant));
      const puts = Array.from({ length: 20 }, (_, k) =>
        nestedOf(
          Array.from({ length: 50 }, (_each, i) =>
            putOf(`${folder}lease ${round} ${k} ${i}`, nothing, id),
          ),
        ),
      );
      answers.note(await connection.call(methodPath('KV/Txn'), grpcMessage(operations(puts))));
      const keys = Buffer.concat([numberField(1, id!), numberField(2, 1)]);
      const calls: readonly (readonly [string, Uint8Array])[] = [
        ['Lease/LeaseLeases', nothing],
        ['Lease/LeaseTimeToLive', keys],
      ];
      const asked = Array.from({ length: 20 }, (_, i) => {
        const [name, body] = calls[i % calls.length]!;
        return connection.call(methodPath(name), grpcMessage(body));
      });
      for (const answer of await Promise.all(asked)) answers.note(answer);
    });
    connection.leave();
    return answers;
  },
};

const longPast: Attack = {
  name: 'the long past of a key',
  subject: 'grpc',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const connection = new GrpcConnection(ports.kv);
    const key = `${folder}past`;
    const put = Buffer.concat([bytesField(1, key), bytesField(2, '1')]);
    const change = (): Promise<string> => connection.call(methodPath('KV/Put'), grpcMessage(put));
    const watch = Buffer.concat([bytesField(1, key), numberField(3, 1), numberField(6, 1)]);
    const watches = Buffer.concat(
      Array.from({ length: 50 }, () => grpcMessage(bytesField(1, watch))),
    );
    const inner = (revision: number): Buffer[] => {
      const past = rangeOf(bytesField(1, key), numberField(4, revision));
      return Array.from({ length: 30 }, () => nestedOf(Array.from({ length: 30 }, () => past)));
    };
    await keepDoing(new Span(seconds), 4, async () => {
      for (const answer of await Promise.all(Array.from({ length: 100 }, change))) {
        answers.note(answer);
      }
      if (random.below(10) === 0) connection.begin(methodPath('Watch/Watch'), watches);
      const revision = 1 + random.below(2_000);
      const calls: readonly (readonly [string, Uint8Array])[] = [
        ['KV/Txn', operations(inner(revision))],
        ['KV/Txn', operations(inner(0))],
        ['KV/Compact', Buffer.concat([numberField(1, revision), numberField(2, 1)])],
      ];
      const [name, body] = calls[random.below(20) === 0 ? 2 : random.below(2)]!;
      answers.note(await connection.call(methodPath(name), grpcMessage(body)));
    });
    connection.leave();
    return answers;
  },
};

export const keyValueAttacks: readonly Attack[] = [
  transactions,
  manyKeys,
  watchesComeAndGo,
  leasesEndTogether,
  longPast,
];

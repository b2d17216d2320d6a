import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { SeededRandom } from '#test/seeded_random.ts';
import type { StreamDifferentRequest } from './service.ts';
import {
  fetchByIdRequestWire,
  streamDifferentRequestWire,
  streamShardRequestWire,
} from './wire.ts';

const shard = {
  namespace: 'default',
  namespaceNumber: 1,
  shard: 3,
  placementVersion: 2,
  deletionSequence: 0,
  deletionVersions: [],
};
const different: StreamDifferentRequest = {
  ...shard,
  retentionNanos: 1n,
  blockStartNanos: 0n,
  rangeBits: 2,
  ranges: Uint32Array.of(1),
  known: new Uint32Array(0),
  salt: 1n,
  namesOnly: false,
};

test('what the asker of rows has already is written as packed numbers', () => {
  const random = new SeededRandom(1);
  const lists = [
    [],
    [0],
    [0xffff_ffff],
    [0, 0, 127, 128, 16_511, 16_512, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff],
    Array.from({ length: 5_000 }, () => random.below(2 ** 32)).sort((a, b) => a - b),
  ];
  const { root } = protobuf.parse(
    'syntax = "proto3"; message Of { repeated uint32 known_steps = 5; }',
  );
  for (const list of lists) {
    const known = Uint32Array.from(list);
    const bytes = streamDifferentRequestWire.encode({ ...different, known });
    assert.deepEqual(streamDifferentRequestWire.decode(bytes).known, known);
    const { knownSteps } = root.lookupType('Of').decode(bytes) as unknown as {
      readonly knownSteps: readonly number[];
    };
    assert.deepEqual(
      knownSteps,
      list.map((number, at) => number - (list[at - 1] ?? 0)),
    );
  }
});

test('packed numbers that are none are refused', () => {
  const wire = streamDifferentRequestWire;
  const decoded = (known: Uint8Array) => {
    const bytes = [...wire.encode(different), 0x2a, known.length, ...known];
    return wire.decode(Uint8Array.from(bytes));
  };
  assert.deepEqual(decoded(Uint8Array.of(1, 1)).known, Uint32Array.of(1, 2));
  const refused = (known: readonly number[], message: RegExp) =>
    assert.throws(() => decoded(Uint8Array.from(known)), { code: 'BAD_REQUEST', message });
  refused([1, 0x81], /known_steps: the last has no end/);
  refused([0xff, 0xff, 0xff, 0xff, 0x0f, 1], /known_steps: their sum has more than 32 bits/);
  refused([...Array.from({ length: 100 }, () => 0xff), 1], /more than 32 bits/);
});

test('requests of more values than anybody needs are refused before they are decoded', () => {
  const many = {
    code: 'BAD_REQUEST',
    message: /^cannot decode tsdb\.node\.v1\.\w+: it has more than \d+ values$/,
  };
  const blocks = (count: number): Uint8Array =>
    streamShardRequestWire.encode({
      ...shard,
      blockStartsNanos: Array.from({ length: count }, (_, i) => BigInt(i) * 7_200_000_000_000n),
      damagedToo: false,
    });
  assert.equal(streamShardRequestWire.decode(blocks(65_536)).blockStartsNanos.length, 65_536);
  assert.throws(() => streamShardRequestWire.decode(blocks(100_000)), many);
  const ids = (count: number): Uint8Array =>
    fetchByIdRequestWire.encode({
      ...shard,
      ids: Array.from({ length: count }, () => new Uint8Array(4)),
      startNanos: 0n,
      endNanos: 1n,
    });
  assert.equal(fetchByIdRequestWire.decode(ids(50_000)).ids.length, 50_000);
  assert.throws(() => fetchByIdRequestWire.decode(ids(100_000)), many);
});

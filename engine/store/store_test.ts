import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { blockStartOf, rowNanosMax } from '#lib/block_time.ts';
import { versionAtNanos, versionGrain } from '#lib/hybrid_clock.ts';
import { chunkHeaders, encodeRawChunk } from '../codec/chunk.ts';
import { decodeChunk } from './chunk_merge.ts';
import { joinSlots, resultOf } from './rows.ts';
import { fuzz } from './store_fuzz.ts';
import { type Store, storeOutcome, type StoreRows } from './store.ts';
import {
  blockStart,
  decoded,
  hour,
  newStore,
  now,
  read,
  rowsOf,
  second,
  warm,
  write,
} from './store_testing.ts';

test('the outcomes of a store are those of the node contract', () => {
  for (const [name, code] of Object.entries(storeOutcome)) {
    assert.equal(rowOutcome[name as keyof typeof storeOutcome], code, name);
  }
});

test('rows are readable after append(), in time order, whatever order they came in', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  const times = [5n, 1n, 3n, 9n, 2n, 300n, 4n, 290n].map((s) => now - 400n * second + s * second);
  for (const time of times) assert.deepEqual(write(store, [[slot, time, Number(time % 7n)]]), [0]);
  const expected = times.toSorted((a, b) => Number(a - b)).map((time) => [time, Number(time % 7n)]);
  assert.deepEqual(read(store, slot), expected);
});

test('a thousand rows in order come back over sealed chunks and an open head', () => {
  const store = newStore({ bufferPastNanos: hour });
  const slots = [store.createSeries(0), store.createSeries(0)];
  const expected: [bigint, number][] = [];
  for (let i = 0; i < 1000; i++) {
    const time = blockStart + BigInt(i) * second;
    const value = Math.round(1000 * Math.sin(i / 40)) / 100;
    expected.push([time, value]);
    write(
      store,
      slots.map((slot) => [slot, time, value]),
    );
  }
  for (const slot of slots) assert.deepEqual(read(store, slot), expected);
  const part = decoded(store.read(Uint32Array.of(slots[0]!), expected[700]![0], expected[720]![0]));
  for (const row of expected.slice(700, 720)) {
    assert.ok(part.some(([time, value]) => time === row[0] && value === row[1]));
  }
});

test('check() refuses by time and keeps the other rows', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  const { bufferPastNanos, bufferFutureNanos } = warm;
  const outcomes = write(store, [
    [slot, now - bufferPastNanos - 1n, 1],
    [slot, now - bufferPastNanos, 2],
    [slot, now + bufferFutureNanos - 1n, 3],
    [slot, now + bufferFutureNanos, 4],
  ]);
  assert.deepEqual(outcomes, [storeOutcome.tooFarPast, 0, 0, storeOutcome.tooFarFuture]);
  assert.deepEqual(
    read(store, slot).map((row) => row[1]),
    [2, 3],
  );
});

test('check() takes old rows with cold writes, as far as the retention goes', () => {
  const store = newStore({ coldWrites: true });
  const slot = store.createSeries(0);
  const outcomes = write(store, [
    [slot, now - 48n * hour - 1n, 1],
    [slot, now - 48n * hour, 2],
    [slot, now - 5n * hour, 3],
  ]);
  assert.deepEqual(outcomes, [storeOutcome.tooFarPast, 0, 0]);
  assert.equal(store.blockStarts(slot).length, 2);
});

test('a changed namespace rules the next check()', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  assert.deepEqual(write(store, [[slot, now - hour, 1]]), [storeOutcome.tooFarPast]);
  store.setNamespace(0, { ...warm, bufferPastNanos: 90n * 60n * second });
  assert.deepEqual(write(store, [[slot, now - hour, 1]]), [0]);
});

test('check() refuses references that are unknown, old or of another namespace', () => {
  const store = newStore();
  store.setNamespace(1, warm);
  const slot = store.createSeries(0);
  const foreign = store.createSeries(1);
  const columns = rowsOf(store, [
    [slot, now, 1],
    [foreign, now, 1],
    [slot, now, 1],
  ]);
  columns.slots[2] = 99;
  const outcomes = new Uint8Array(3);
  assert.equal(store.check(columns, 0, now, outcomes), 2);
  assert.deepEqual([...outcomes], [0, 1, 1]);
  store.releaseSeries(slot);
  outcomes.fill(0);
  assert.equal(store.check(columns, 0, now, outcomes), 3);
  assert.equal(store.createSeries(0), slot);
  assert.equal(store.generation[slot], 2);
});

test('rows in milliseconds, and times that do not fit in nanoseconds, are handled', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  const columns: StoreRows = {
    ...rowsOf(store, [
      [slot, now / 1_000_000n, 1],
      [slot, 2n ** 62n, 2],
      [slot, -(2n ** 62n), 3],
    ]),
    timeUnitNanos: 1_000_000,
  };
  const outcomes = new Uint8Array(3);
  store.check(columns, 0, now, outcomes);
  assert.deepEqual([...outcomes], [0, storeOutcome.tooFarFuture, storeOutcome.tooFarPast]);
  store.append(columns, 1, outcomes);
  assert.deepEqual(read(store, slot), [[now, 1]]);
});

test('a rewrite with a higher version wins, with an equal one the larger bits, anywhere', () => {
  const store = newStore({ bufferPastNanos: hour });
  const slot = store.createSeries(0);
  const at = (i: number) => blockStart + BigInt(i) * second;
  for (let i = 0; i < 300; i++) write(store, [[slot, at(i), i]], { version: 1000 + i });
  const rewritten = [0, 5, 127, 128, 200, 298, 299];
  for (const i of rewritten) write(store, [[slot, at(i), -i - 0.5]], { version: 2000 + i });
  for (const i of rewritten) write(store, [[slot, at(i), 77]], { version: 900 });
  write(store, [[slot, at(299), -1000]], { version: 2299 });
  const values = read(store, slot).map((row) => row[1]);
  for (let i = 0; i < 299; i++) assert.equal(values[i], rewritten.includes(i) ? -i - 0.5 : i);
  assert.equal(values[299], -1000);
  const merged = decoded(store.readBlock(Uint32Array.of(slot), blockStart)).map((row) => row[1]);
  assert.deepEqual(merged, values);
});

test('readBlock() gives one block merged, and it can be inserted elsewhere', () => {
  const store = newStore({ bufferPastNanos: 4n * hour, bufferFutureNanos: 4n * hour });
  const slot = store.createSeries(0);
  const empty = store.createSeries(0);
  const expected: [bigint, number][] = [];
  for (let i = 0; i < 900; i++) {
    const row: [bigint, number] = [blockStart - 3000n * second + BigInt(i * 15) * second, i % 10];
    expected.push(row);
    write(store, [[slot, ...row]]);
  }
  assert.deepEqual(store.blockStarts(slot), [
    blockStart - 2n * hour,
    blockStart,
    blockStart + 2n * hour,
  ]);
  const block = store.readBlock(Uint32Array.of(empty, slot), blockStart);
  assert.equal(block.chunkOffset[1], 0);
  const inBlock = expected.filter(([time]) => time >= blockStart && time < blockStart + 2n * hour);
  assert.deepEqual(decoded(block, 1), inBlock);
  store.insertChunks(empty, block.chunkData.slice(block.chunkOffset[1]));
  assert.deepEqual(read(store, empty), inBlock);
});

test('insertChunks() takes the times that rows may have, and no others', () => {
  const store = newStore();
  const insert = (nanos: bigint) =>
    store.insertChunks(
      store.createSeries(0),
      encodeRawChunk({
        timestampNanos: BigInt64Array.of(nanos),
        values: Float64Array.of(1),
        version: 1,
      }),
    );
  for (const nanos of [1n - rowNanosMax, -1n, rowNanosMax - 1n]) insert(nanos);
  assert.deepEqual(
    store.blocks(0).map(({ blockStartNanos }) => blockStartNanos),
    [1n - rowNanosMax, -1n, rowNanosMax - 1n].map((at) => blockStartOf(at, warm.blockSizeNanos)),
  );
  for (const nanos of [-rowNanosMax, rowNanosMax])
    assert.throws(() => insert(nanos), /no store takes/);
});

test('insertChunks() refuses malformed chunks and those that span blocks, and adds nothing', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  write(store, [
    [slot, now, 1],
    [slot, now + second, 2],
  ]);
  const { chunkData } = store.read(Uint32Array.of(slot), 0n, 2n ** 62n);
  const other = store.createSeries(0);
  for (let length = 1; length < chunkData.length; length++) {
    assert.throws(() => store.insertChunks(other, chunkData.slice(0, length)), {
      code: 'BAD_REQUEST',
    });
  }
  assert.deepEqual(store.blockStarts(other), []);
  const shortBlocks = newStore({ blockSizeNanos: second });
  assert.throws(() => shortBlocks.insertChunks(shortBlocks.createSeries(0), chunkData), {
    code: 'BAD_REQUEST',
    message: /spans two blocks/,
  });
  assert.throws(() => store.setNamespace(0, { ...warm, blockSizeNanos: second }), /blockSize/);
});

test('dropBlock() and expire() let go of blocks and name series that hold nothing', () => {
  const store = newStore({ coldWrites: true });
  const [old, both] = [store.createSeries(0), store.createSeries(0)];
  write(store, [
    [old, now - 40n * hour, 1],
    [both, now - 40n * hour, 1],
    [both, now, 2],
  ]);
  assert.deepEqual([...store.expire(0, now)], []);
  assert.deepEqual([...store.expire(0, now + 20n * hour)], [old]);
  assert.deepEqual(read(store, both), [[now, 2]]);
  store.releaseSeries(old);
  store.dropBlock(Uint32Array.of(both), blockStart);
  assert.deepEqual(read(store, both), []);
  assert.equal(store.seriesCount, 1);
  assert.equal(store.sampleCount, 0);
});

test('expire() keeps a series for which a row was admitted but is not applied yet', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  assert.deepEqual([...store.expire(0, now)], []);
  const columns = rowsOf(store, [[slot, now, 1]]);
  const outcomes = new Uint8Array(1);
  store.check(columns, 0, now, outcomes);
  assert.deepEqual([...store.expire(0, now)], []);
  store.append(columns, 1, outcomes);
  assert.deepEqual(read(store, slot), [[now, 1]]);
});

test('an expiry in steps sees old blocks that came after it the next time', () => {
  const store = newStore({ coldWrites: true });
  const slots = Array.from({ length: 6 }, () => store.createSeries(0));
  const [first, second] = slots as [number, number];
  const old = now - 40n * hour;
  write(
    store,
    slots.slice(1).map((slot) => [slot, old, 1]),
  );
  store.expire(0, now);
  const later = now + 20n * hour;
  const steps = store.expireInSteps(0, later, 2);
  assert.deepEqual(steps.next(), { done: false, value: undefined });
  assert.deepEqual(store.blockStarts(second), []);
  write(store, [
    [first, old, 2],
    [second, now, 3],
  ]);
  assert.equal(steps.next().done, false);
  assert.deepEqual(steps.next(), { done: true, value: Uint32Array.of(...slots) });
  assert.deepEqual(read(store, first), [[old, 2]]);
  assert.deepEqual([...store.expire(0, later)], slots.slice(2));
  assert.deepEqual([...store.expire(0, later)], [first, ...slots.slice(2)]);
  assert.deepEqual(read(store, second), [[now, 3]]);
});

test('a flushed block is forgotten unless something came meanwhile', () => {
  const store = newStore({ bufferPastNanos: hour, coldWrites: true });
  const [quiet, busy, late, inserted] = [0, 0, 0, 0].map(() => store.createSeries(0));
  const slots = Uint32Array.of(quiet!, busy!, late!, inserted!);
  const times = Array.from({ length: 600 }, (_, i) => blockStart + BigInt(i) * second);
  for (const time of times) {
    write(
      store,
      [...slots].map((slot) => [slot, time, Number(time % 89n)]),
    );
  }
  const flushed = store.flushBlock(slots, blockStart);
  for (const [i] of slots.entries()) {
    const start = flushed.chunkOffset[i]!;
    assert.equal([...chunkHeaders(flushed.chunkData, start, flushed.chunkOffset[i + 1])].length, 1);
    assert.equal(decoded(flushed, i).length, 600);
  }
  write(store, [[busy!, times.at(-1)! + second, 1]]);
  write(store, [[late!, times[3]! + 1n, 1]]);
  const end = flushed.chunkOffset[1]!;
  store.insertChunks(inserted!, flushed.chunkData.slice(0, end));

  assert.equal(store.dropFlushed(slots, blockStart), 1);
  assert.equal(store.dropFlushed(slots, blockStart), 0);
  assert.deepEqual(
    [...slots].map((slot) => read(store, slot).length),
    [0, 601, 601, 600],
  );
  assert.deepEqual([...store.slotsOfBlock(0, blockStart)], [busy, late, inserted]);
  store.flushBlock(slots, blockStart);
  store.releaseSeries(busy!);
  assert.equal(store.createSeries(0), busy);
  write(store, [[busy!, times[0]!, 1]]);
  assert.equal(store.dropFlushed(slots, blockStart), 2);
  assert.deepEqual(read(store, busy!), [[times[0], 1]]);
  assert.equal(store.sampleCount, 1);
});

test('a row that is written before a read and after a flush is not dropped', () => {
  const store = newStore();
  const slot = store.createSeries(0);
  write(store, [[slot, now, 1]]);
  store.flushBlock(Uint32Array.of(slot), blockStart);
  write(store, [[slot, now, 1]], { version: 1 });
  read(store, slot);
  store.readBlock(Uint32Array.of(slot), blockStart);
  assert.equal(store.dropFlushed(Uint32Array.of(slot), blockStart), 0);
  store.flushBlock(Uint32Array.of(slot), blockStart);
  read(store, slot);
  assert.equal(store.dropFlushed(Uint32Array.of(slot), blockStart), 1);
});

test('blocks() and sumsInSteps() tell what memory holds by block, thousands of them too', () => {
  const store = newStore({ retentionNanos: 10_000n * hour, coldWrites: true });
  store.setNamespace(1, { ...warm, blockSizeNanos: hour });
  const slots = Array.from({ length: 40 }, () => store.createSeries(0));
  const other = store.createSeries(1);
  const start = (i: number) => blockStart - BigInt(i) * 2n * hour;
  for (let i = 0; i < 2000; i++) {
    write(
      store,
      slots.slice(i % 2, 2 + (i % 38)).flatMap((slot) => [
        [slot, start(i), 1],
        [slot, start(i) + 1n, 2],
      ]),
    );
  }
  const blocks = resultOf(store.sumsInSteps(0, 7));
  assert.equal(blocks.length, 2000);
  assert.deepEqual(
    store.blocks(0),
    blocks.map(({ blockStartNanos, seriesCount }) => ({ blockStartNanos, seriesCount })),
  );
  for (const i of [0, 37, 1999]) {
    const { blockStartNanos, seriesCount, rowCount, bytes } = blocks[1999 - i]!;
    assert.equal(blockStartNanos, start(i));
    assert.equal(seriesCount, 2 + (i % 38) - (i % 2));
    assert.equal(rowCount, 2 * seriesCount);
    assert.ok(bytes > 100 * seriesCount && bytes < 300 * seriesCount);
    assert.equal(store.slotsOfBlock(0, start(i)).length, seriesCount);
  }
  assert.deepEqual(store.blocks(1), []);
  assert.deepEqual(resultOf(store.sumsInSteps(1, 7)), []);
  assert.deepEqual([...store.slotsOfBlock(1, blockStart)], []);
  assert.deepEqual(
    joinSlots([...store.slotsInSteps(0, null, 7)]),
    Uint32Array.from(slots.slice(0, 39)),
  );
  assert.deepEqual(joinSlots([...store.slotsInSteps(1, null, 7)]), new Uint32Array(0));
  for (const slot of slots) store.releaseSeries(slot);
  assert.deepEqual(store.blocks(0), []);
  store.expire(1, now);
  assert.deepEqual([...store.expire(1, now)], [other]);
});

test('kernel and twin agree over random calls', () => {
  for (let seed = 0; seed < 4; seed++) fuzz(seed, 250);
});

/** Writes rows in a batch that derives their versions. */
function writeDerived(
  store: Store,
  rows: [slot: number, nanos: bigint, value: number][],
  batchVersion: number,
): number[] {
  const outcomes = new Uint8Array(rows.length);
  const superseded = store.append(rowsOf(store, rows), batchVersion, outcomes, true);
  assert.equal(superseded, outcomes.filter((code) => code === storeOutcome.superseded).length);
  return [...outcomes];
}

/** The version of each row of a block, as it is written to a file. */
function versionsOf(store: Store, slot: number): bigint[] {
  const { chunkData } = store.readBlock(Uint32Array.of(slot), blockStart);
  let from = 0;
  return [...chunkHeaders(chunkData)].flatMap(({ end }) => {
    const { rowVersions } = decodeChunk(chunkData.subarray(from, end));
    from = end;
    return Array.from(rowVersions, BigInt);
  });
}

const isWritten = storeOutcome.written;
const isSuperseded = storeOutcome.superseded;
/** A batch that comes so many seconds after `now`. */
const versionAfter = (seconds: number): number => Number(versionAtNanos(now)) + seconds * 64_000;

test('rows that are written soon have their times as versions, late ones steps of four seconds', () => {
  const store = newStore();
  store.keepRowVersions(true);
  const slot = store.createSeries(0);
  const times = [0n, 1n, 2n, 100n].map((s) => now - 100n * second + s * second);
  writeDerived(store, [[slot, times[3]!, 3]], versionAfter(16));
  writeDerived(store, [[slot, times[0]!, 1]], versionAfter(0.5));
  const grain = BigInt(versionGrain);
  const late = (BigInt(versionAfter(0.5)) / grain) * grain;
  assert.deepEqual(versionsOf(store, slot), [late, versionAtNanos(times[3]!)]);
});

for (const [where, rowsAfter] of [
  ['the head', 0],
  ['a sealed chunk', 300],
] as const) {
  test(`a derived row that does not replace what stands in ${where} is superseded`, () => {
    const store = newStore();
    store.keepRowVersions(true);
    const slot = store.createSeries(0);
    assert.deepEqual(writeDerived(store, [[slot, now, 5]], versionAfter(1)), [isWritten]);
    for (let i = 1; i <= rowsAfter; i++) {
      writeDerived(store, [[slot, now + BigInt(i) * 1_000_000n, i]], versionAfter(1));
    }
    assert.deepEqual(writeDerived(store, [[slot, now, 5]], versionAfter(2)), [isWritten], 'again');
    assert.deepEqual(writeDerived(store, [[slot, now, 4]], versionAfter(2)), [isSuperseded]);
    assert.equal(read(store, slot)[0]![1], 5);
    write(store, [[slot, now, 4]], { version: versionAfter(2) });
    assert.equal(read(store, slot)[0]![1], 4, 'with the version of its batch it replaces it');
    assert.deepEqual(writeDerived(store, [[slot, now, 9]], versionAfter(3)), [isSuperseded]);
    assert.deepEqual(writeDerived(store, [[slot, now, 9]], versionAfter(40)), [isWritten]);
    assert.equal(read(store, slot)[0]![1], 9);
    const [first] = versionsOf(store, slot);
    const grain = BigInt(versionGrain);
    assert.equal(first, (BigInt(versionAfter(40)) / grain) * grain);
  });
}

test('of two rows of one time in a batch the later one is superseded, whatever block the rows between them are of', () => {
  const store = newStore();
  store.keepRowVersions(true);
  const slot = store.createSeries(0);
  const before = now - 2n * hour;
  const rows: [number, bigint, number][] = [
    [slot, now, 1],
    [slot, now - second, 5],
    [slot, before, 1],
    [slot, now - second, 4],
  ];
  const expected = [isWritten, isWritten, isWritten, isSuperseded];
  assert.deepEqual(writeDerived(store, rows, versionAfter(8_000)), expected);
  assert.deepEqual(
    read(store, slot).map(([, value]) => value),
    [1, 5, 1],
  );
});

test('a row that may meet another one in a file is superseded until its version tells them apart', () => {
  const store = newStore();
  store.keepRowVersions(true);
  const slot = store.createSeries(0);
  writeDerived(store, [[slot, now, 5]], versionAfter(1));
  store.flushBlock(Uint32Array.of(slot), blockStart);
  store.dropFlushed(Uint32Array.of(slot), blockStart);
  const before = now - second;
  assert.deepEqual(writeDerived(store, [[slot, now, 4]], versionAfter(2)), [isSuperseded]);
  assert.deepEqual(writeDerived(store, [[slot, before, 4]], versionAfter(2)), [isSuperseded]);
  const later = now + 2n * second;
  assert.deepEqual(writeDerived(store, [[slot, later, 4]], versionAfter(2)), [isWritten]);
  assert.deepEqual(writeDerived(store, [[slot, now, 3]], versionAfter(21)), [isWritten]);

  const restarted = newStore();
  restarted.noteFiles(versionAfter(10), null);
  const same = restarted.createSeries(0);
  assert.deepEqual(writeDerived(restarted, [[same, now, 4]], versionAfter(11)), [isSuperseded]);
  const next = now + 11n * second;
  assert.deepEqual(writeDerived(restarted, [[same, next, 4]], versionAfter(11)), [isWritten]);
});

test('sealed chunks keep the version of each row, or have the highest one for all', () => {
  for (const keeps of [true, false]) {
    const store = newStore();
    store.keepRowVersions(keeps);
    const slot = store.createSeries(0);
    const times = Array.from({ length: 300 }, (_, i) => now + BigInt(i) * 1_000_000n);
    for (const [i, time] of times.entries()) {
      write(store, [[slot, time, i]], { version: versionAfter(i) });
    }
    write(store, [[store.createSeries(0), now, 0]], { version: versionAfter(300) });
    const expected = times.map((_, i) => BigInt(versionAfter(keeps ? i : 299)));
    assert.deepEqual(versionsOf(store, slot), expected);
  }
});

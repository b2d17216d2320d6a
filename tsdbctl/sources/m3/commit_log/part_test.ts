import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import type { ImportSource } from '../../source.ts';
import { sourceUpToDamage } from '../../up_to_damage_testing.ts';
import { MessageReader } from '../bytes/msgpack.ts';
import {
  diskOf,
  encodedTags,
  fileOf,
  fixtureFiles,
  fixtureLog,
  logName,
  madeChunk,
  madeLogEntry,
  madeLogInfo,
  type MadeRow,
  type ReadSeries,
  readSource,
} from '../folder_testing.ts';
import { type M3Options, m3Source } from '../source.ts';
import { emptyEntry, readLogEntry, readLogMetadata } from './entries.ts';
import { MessageFile } from './messages.ts';

const path = `m3/${logName}`;
const fixture = fixtureFiles().get(path)!;

const sourceOf = (bytes: Uint8Array, options: Partial<M3Options> = {}) =>
  m3Source('m3', { namespace: 'default', ...options }, diskOf(new Map([[path, bytes]])));
const read = (bytes: Uint8Array, options: Partial<M3Options> = {}) =>
  readSource(sourceOf(bytes, options));

const joined = (...parts: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(parts));
const log = (...rows: readonly MadeRow[]) =>
  joined(madeChunk(joined(madeLogInfo, ...rows.map(madeLogEntry))));

const first = (index: number, more: Partial<MadeRow> = {}): MadeRow => {
  return { index, id: `{a="${index}"}`, nanos: 10n, value: 1, ...more };
};
const next = (index: number, nanos: bigint, value: number): MadeRow => ({ index, nanos, value });
const rowsOf = (series: readonly ReadSeries[]) =>
  series.map(({ tags, times, bits }) => [
    tags.map((tag) => tag.join('=')).join(),
    times.map((nanos, row) => [Number(nanos), floatOf(bits[row]!)]),
  ]);
const floatOf = (bits: string) => Buffer.from(bits, 'hex').readDoubleBE();

/** What a source has before its damage, and what is said of that. */
async function readToDamage(source: ImportSource) {
  const damage: string[] = [];
  const series = await readSource(sourceUpToDamage(source, (line) => damage.push(line)));
  return {
    series,
    damage: damage.map((line) => line.replace(/^.* is left from its damage on: /, '')),
  };
}

test('rows that came interleaved, late and again are of their series', async () => {
  const rows = [first(1), first(2, { nanos: 5n }), next(1, 30n, 3), next(1, 20n, 2)];
  const bytes = log(...rows, next(2, 6n, 7), next(1, 30n, 4), next(2, 5n, 8));
  const source = sourceOf(bytes);
  assert.deepEqual(rowsOf(await readSource(source)), [
    [
      'a=1',
      [
        [10, 1],
        [20, 2],
        [30, 4],
      ],
    ],
    [
      'a=2',
      [
        [5, 8],
        [6, 7],
      ],
    ],
  ]);
  assert.deepEqual(source.notes, []);
});

test('many rows are handed on in between, and are the same', async () => {
  const pairs = async (rowsHeldMax?: number) => {
    const series = await read(fixture, rowsHeldMax === undefined ? {} : { rowsHeldMax });
    return series.map(({ tags, times, bits }) => {
      // What comes later replaces what came before.
      const last = new Map(times.map((nanos, row) => [nanos, bits[row]!]));
      return [tags, [...last].sort(([a], [b]) => (BigInt(a) < BigInt(b) ? -1 : 1))];
    });
  };
  const whole = await pairs();
  for (const rowsHeldMax of [1, 2, 7]) assert.deepEqual(await pairs(rowsHeldMax), whole);
  const [part] = await sourceOf(fixture, { rowsHeldMax: 1 }).parts();
  const all = await Array.fromAsync(part!.series(0));
  assert.ok(all.length > whole.length);
  assert.deepEqual(await Array.fromAsync(part!.series(3)), all.slice(3));
});

test('other namespaces are passed over, and series without tags are told', async () => {
  const bytes = log(
    first(1, { namespace: 'metrics' }),
    first(2, { id: 'plain' }),
    first(3, { id: 'x', tags: encodedTags({ b: 'c' }) }),
    next(1, 11n, 2),
    next(2, 11n, 2),
    next(9, 11n, 2),
  );
  const source = sourceOf(bytes);
  assert.deepEqual(rowsOf(await readSource(source)), [['b=c', [[10, 1]]]]);
  assert.deepEqual(source.notes, [
    `2 series have no tags that can be read and are left out, in 1 parts, the first in ${logName}: "plain"`,
  ]);
});

test('a log has at most so many series of the namespace, and rows of those before are handed on', async () => {
  const others = Array.from({ length: 20 }, (_, i) => first(100 + i, { namespace: 'metrics' }));
  const options = { logSeriesMax: 2 };
  const few = log(...others, first(1), first(2), next(1, 11n, 2));
  const one = ['a=1', [[10, 1]]];
  const two = ['a=2', [[10, 1]]];
  const longer = [
    'a=1',
    [
      [10, 1],
      [11, 2],
    ],
  ];
  assert.deepEqual(rowsOf(await read(few, options)), [longer, two]);
  const many = log(...others, first(1), first(2), first(3), next(1, 11n, 2));
  const { series, damage } = await readToDamage(sourceOf(many, options));
  assert.deepEqual(rowsOf(series), [one, two]);
  assert.deepEqual(damage, [
    `cannot read ${path}: it has more than 2 series of the namespace "default" at byte 0 of ${many.length}`,
  ]);
});

test('rows of other times than those of the range are left out', async () => {
  const bytes = log(first(1), next(1, 20n, 2), next(1, 30n, 3), first(2));
  const range = { startNanos: 20n, endNanos: 30n };
  assert.deepEqual(rowsOf(await read(bytes, { range })), [['a=1', [[20, 2]]]]);
  const [part] = await sourceOf(bytes, { range }).parts();
  assert.deepEqual([part!.startNanos, part!.endNanos, part!.bytes], [20n, 30n, bytes.length]);
});

test('an entry may be in more than one chunk', async () => {
  const entries = joined(
    madeLogInfo,
    madeLogEntry(first(1)),
    madeLogEntry({ ...next(1, 11n, 2), annotation: 'x'.repeat(300_000) }),
    madeLogEntry(next(1, 12n, 3)),
  );
  const chunks = [];
  for (let at = 0; at < entries.length; at += 7)
    chunks.push(madeChunk(entries.subarray(at, at + 7)));
  assert.deepEqual(rowsOf(await read(joined(...chunks))), [
    [
      'a=1',
      [
        [10, 1],
        [11, 2],
        [12, 3],
      ],
    ],
  ]);
});

test('logs are in the order of their numbers', async () => {
  const files = new Map(
    [10, 9, 100].map((number) => [`m3/commitlogs/commitlog-0-${number}.db`, log(first(1))]),
  );
  files.set('m3/commitlogs/other.db', new Uint8Array(4));
  const parts = await m3Source('m3', { namespace: 'default' }, diskOf(files)).parts();
  assert.deepEqual(
    parts.map(({ name }) => fileOf(name)),
    [9, 10, 100].map((number) => `commitlogs/commitlog-0-${number}.db`),
  );
});

test('a log that has other rows is another part, though it is as long', async () => {
  const nameOf = async (bytes: Uint8Array) => (await sourceOf(bytes).parts())[0]!.name;
  const one = log(first(1), next(1, 11n, 2));
  const other = log(first(1), next(1, 11n, 3));
  assert.equal(one.length, other.length);
  assert.notEqual(await nameOf(one), await nameOf(other));
  assert.equal(await nameOf(one), await nameOf(one.slice()));
  const long = new Uint8Array(300_000);
  assert.notEqual(await nameOf(long), await nameOf(long.with(299_999, 1)));
  assert.notEqual(await nameOf(long), await nameOf(long.with(0, 1)));
});

test('values that are protobuf messages are refused, numbers with annotations are not', async () => {
  const zero = (nanos: bigint, annotation: string): MadeRow => {
    return { index: 1, nanos, value: 0, annotation };
  };
  const begun = first(1, { value: 0, annotation: 'one' });
  await assert.rejects(read(log(begun, zero(11n, 'two'))), {
    code: 'BAD_REQUEST',
    message: `cannot read ${path}: namespace "default" has protobuf messages for values, which are no numbers`,
  });
  for (const rows of [
    [begun, zero(11n, 'one')],
    [begun, zero(11n, 'two'), next(1, 12n, 1)],
    [begun, zero(11n, 'two'), zero(12n, '')],
  ]) {
    assert.equal((await read(log(...rows)))[0]!.times.length, rows.length);
  }
});

test('a log ends with an error where it is damaged, with a note where the newest is cut, and has its rows before', async () => {
  const one = madeChunk(joined(madeLogInfo, madeLogEntry(first(1))));
  const two = madeChunk(madeLogEntry(next(1, 11n, 2)));
  const three = madeChunk(madeLogEntry(next(1, 12n, 3)));
  const rows = [
    [10, 1],
    [11, 2],
    [12, 3],
  ];
  const check = async (
    bytes: Uint8Array,
    count: number,
    said: { readonly note?: string; readonly damage?: string } = {},
  ) => {
    const source = sourceOf(bytes);
    const expected = count === 0 ? [] : [['a=1', rows.slice(0, count)]];
    const { series, damage } = await readToDamage(source);
    assert.deepEqual(rowsOf(series), expected);
    assert.deepEqual(source.notes, said.note === undefined ? [] : [`${path} ${said.note}`]);
    const wanted = said.damage === undefined ? [] : [`cannot read ${path}: it ${said.damage}`];
    assert.deepEqual(damage, wanted);
  };
  const at = (place: number, of: number) => `at byte ${place} of ${of}`;
  const cut = (text: string, place: number, of: number) => ({
    note: `${text} ${at(place, of)}: what is after that is left out`,
  });
  const whole = joined(one, two, three);
  const size = whole.length;
  const second = one.length;
  const third = one.length + two.length;
  await check(whole, 3);
  await check(whole.with(third - 1, 9), 1, {
    damage: `has another checksum of a chunk ${at(second, size)}`,
  });
  await check(whole.with(second, 9), 1, {
    damage: `has another checksum of the size of a chunk ${at(second, size)}`,
  });
  await check(
    whole.subarray(0, third + 5),
    2,
    cut('ends within the header of a chunk', third, third + 5),
  );
  await check(whole.subarray(0, size - 1), 2, cut('ends within a chunk', third, size - 1));
  const part = madeChunk(madeLogEntry(next(1, 12n, 3)).subarray(0, 9));
  const whereCut = second + part.length;
  await check(joined(one, part), 1, cut('ends within an entry', whereCut, whereCut));
  const bad = madeChunk(joined(madeLogEntry(next(1, 11n, 2)), Uint8Array.of(2, 1, 0x92), two));
  await check(joined(one, bad, two), 2, {
    damage: `has an entry that is damaged (message is cut off) ${at(second, second + bad.length + two.length)}`,
  });
  const long = madeChunk(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x0f));
  await check(joined(one, long), 1, {
    damage: `has an entry longer than 67108864 bytes ${at(second, second + long.length)}`,
  });
  await check(new Uint8Array(), 0, { note: 'is empty' });
  await check(two, 0, {
    damage: `has an entry that is damaged (type of object is not 7: 8) ${at(0, two.length)}`,
  });
});

test('a log that is cut is damaged when a later one has rows, and not when that was only opened', async () => {
  const whole = log(first(1), next(1, 11n, 2));
  const cut = whole.subarray(0, whole.length - 1);
  const later = 'm3/commitlogs/commitlog-0-1.db';
  const check = async (after: Uint8Array) => {
    const files = new Map([
      [path, cut],
      [later, after],
    ]);
    const source = m3Source('m3', { namespace: 'default' }, diskOf(files));
    const { damage } = await readToDamage(source);
    return { damage, notes: source.notes };
  };
  const damaged = await check(log(first(1)));
  assert.deepEqual(damaged, {
    damage: [
      `cannot read ${path}: it ends within a chunk at byte 0 of ${cut.length}, and later logs have rows`,
    ],
    notes: [],
  });
  for (const opened of [new Uint8Array(), log()]) {
    const { damage, notes } = await check(opened);
    assert.deepEqual(damage, []);
    assert.match(notes[0]!, /ends within a chunk/);
  }
});

/** All rows of the fixture, those that were replaced too. */
async function allRows(): Promise<ReadonlySet<string>> {
  const file = await diskOf(new Map([[path, fixture]])).open(path, 'read');
  const messages = new MessageFile(file);
  const ids = new Map<number, string>();
  const rows = new Set<string>();
  const entry = emptyEntry();
  let isInfo = true;
  for (let some = await messages.next(); some !== null; some = await messages.next()) {
    for (let at = 0; at < some.bounds.length; at += 2) {
      const reader = new MessageReader(some.bytes);
      reader.seek(some.bounds[at]!, some.bounds[at + 1]!);
      if (!isInfo) {
        readLogEntry(reader, entry);
        if (entry.metadata.length > 0) {
          const { id } = readLogMetadata(entry.metadata);
          ids.set(entry.index, Buffer.from(id).toString());
        }
        const word = (high: number, low: number) => (BigInt(high) << 32n) | BigInt(low >>> 0);
        const bits = BigInt.asUintN(64, word(entry.valueHigh, entry.valueLow));
        rows.add(`${ids.get(entry.index)} ${word(entry.timeHigh, entry.timeLow)} ${bits}`);
      }
      isInfo = false;
    }
  }
  return rows;
}

test('each byte of a commit log that is another, and each end of it, leaves rows that were written', async () => {
  const written = await allRows();
  assert.ok(written.size >= fixtureLog('default').flatMap(({ times }) => times).length);
  const check = async (bytes: Uint8Array) => {
    const source = sourceOf(bytes);
    const { series, damage } = await readToDamage(source);
    for (const { tags, times, bits } of series) {
      const id = `{${tags.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join()}}`;
      times.forEach((nanos, row) => {
        assert.ok(written.has(`${id} ${nanos} ${BigInt(`0x${bits[row]}`)}`), `${id} ${nanos}`);
      });
    }
    return { notes: source.notes.length, damage: damage.length };
  };
  for (let at = 0; at < fixture.length; at += 1) {
    const other = fixture.with(at, fixture[at]! ^ (1 << (at % 8)));
    assert.deepEqual(await check(other), { notes: 0, damage: 1 }, `byte ${at}`);
    assert.equal((await check(fixture.subarray(0, at))).damage, 0, `${at} bytes`);
  }
  assert.deepEqual(await check(fixture), { notes: 0, damage: 0 });
});

test('messages with other bytes and good checksums are rows or a note', async () => {
  const rows = [first(1), next(1, 11n, 2), first(2, { tags: encodedTags({ a: 'b' }) })];
  const entries = joined(madeLogInfo, ...rows.map(madeLogEntry));
  for (let at = 0; at < entries.length; at += 1) {
    for (const bit of [1, 8, 64, 128]) {
      const bytes = joined(madeChunk(entries.with(at, entries[at]! ^ bit)));
      await read(bytes).catch((error: unknown) => {
        assert.ok(error instanceof TsdbError, String(error));
      });
    }
  }
});

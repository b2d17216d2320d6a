import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { histogramOfValue, resetHint } from '#engine/typed/histogram.ts';
import { customHistogramValues, histogramValues } from '#engine/typed/samples_testing.ts';
import type { Disk } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Tag } from '#lib/tags.ts';
import {
  blockFiles,
  type BlockToWrite,
  type ChunkToWrite,
  diskOf,
  filesIn,
  floatChunk,
  type FloatRow,
  histogramChunksOf,
  seriesIn,
} from './block_testing.ts';
import { allTimes } from '../source.ts';
import { sourceUpToDamage } from '../up_to_damage_testing.ts';
import { readableDisk } from '../readable_disk.ts';
import { prometheusSource } from './prometheus_source.ts';

const ulids = ['0', '1', '2', '3'].map((digit) => `01HZZZZZZZZZZZZZZZZZZZZZZ${digit}`);
const start = 1_700_000_000_000;
const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;
const tagsOf = (name: string, more: Record<string, string> = {}): Tag[] =>
  Object.entries({ __name__: name, ...more }).map(([key, value]) => ({ name: key, value }));
const nanosOf = (millis: number): bigint => BigInt(millis) * 1_000_000n;

/** Rows every second. */
function rowsFrom(first: number, count: number, value = 0): FloatRow[] {
  return Array.from({ length: count }, (_, i) => ({
    millis: start + 1000 * (first + i),
    bits: bitsOf(value + i),
  }));
}

const floatsOf = (rows: readonly FloatRow[]) =>
  rows.map(({ millis, bits }) => [nanosOf(millis), bits] as const);

function sourceOf(block: BlockToWrite, range = allTimes): ReturnType<typeof prometheusSource> {
  return prometheusSource('block', diskOf(filesIn({ block: blockFiles(block) })), range);
}

/** Of all kinds, in two files of chunks. */
function mixedBlock(version: number): {
  readonly block: BlockToWrite;
  readonly wanted: Awaited<ReturnType<typeof seriesIn>>;
} {
  const numbers = new SeededNumbers(3);
  const timed = (values: readonly Uint8Array[], first: number) =>
    values.map((value, i) => ({
      millis: start + 1000 * (first + i),
      histogram: histogramOfValue(value),
    }));
  const gauges = histogramValues(numbers, 5, { perRow: 6, schema: 1, isGauge: true });
  const histograms = timed([...gauges, ...customHistogramValues(numbers, 3)], 20);
  const stale = [{ millis: start + 999, bits: 0x7ff0_0000_0000_0002n }];
  const block: BlockToWrite = {
    ulid: ulids[0]!,
    version,
    series: [
      { tags: tagsOf('a', { host: 'é\ufeff' }), chunks: [floatChunk(rowsFrom(0, 3))] },
      {
        tags: tagsOf('b'),
        chunks: [floatChunk(rowsFrom(0, 20)), ...histogramChunksOf(histograms)],
      },
      { tags: tagsOf('none'), chunks: [] },
      {
        tags: tagsOf('two', { host: 'a', zone: '' }),
        chunks: [floatChunk(stale), floatChunk(rowsFrom(1, 4, 0.1), 1)],
      },
    ],
  };
  const wanted = [
    { tags: tagsOf('a', { host: 'é\ufeff' }), floats: floatsOf(rowsFrom(0, 3)), histograms: [] },
    {
      tags: tagsOf('b'),
      floats: floatsOf(rowsFrom(0, 20)),
      // Other bounds are a reset to the encoder.
      histograms: histograms.map(({ millis, histogram }, row) => ({
        timestampNanos: nanosOf(millis),
        histogram: row === gauges.length ? { ...histogram, hint: resetHint.reset } : histogram,
      })),
    },
    {
      tags: tagsOf('two', { host: 'a', zone: '' }),
      floats: floatsOf([...stale, ...rowsFrom(1, 4, 0.1)]),
      histograms: [],
    },
  ];
  return { block, wanted };
}

for (const version of [1, 2]) {
  test(`series of a block are read from an index of version ${version}, from any on`, async () => {
    const { block, wanted } = mixedBlock(version);
    const source = sourceOf(block);
    assert.deepEqual(await seriesIn(source), wanted);
    const [part] = await source.parts();
    assert.deepEqual(source.notes, []);
    assert.equal(part!.name, ulids[0]);
    assert.equal(part!.startNanos, nanosOf(start));
    const files = blockFiles(block);
    const names = ['index', 'chunks/000001', 'chunks/000002'];
    assert.equal(
      part!.bytes,
      names.reduce((sum, name) => sum + files.get(name)!.length, 0),
    );
    for (let skip = 0; skip < 5; skip++) {
      const rest: string[] = [];
      for await (const { tags } of part!.series(skip)) rest.push(tags[0]!.value);
      assert.deepEqual(rest, ['a', 'b', 'two'].slice(skip));
    }
  });
}

test('a file that is gone when it is opened is told by its name', async () => {
  const block = {
    ulid: ulids[0]!,
    series: [{ tags: tagsOf('a'), chunks: [floatChunk(rowsFrom(0, 3))] }],
  };
  const files = filesIn({ block: blockFiles(block) });
  const disk = diskOf(files);
  for (const name of ['index', 'chunks/000001', 'tombstones']) {
    // It was there when its size was asked for.
    const racing: Disk = {
      ...disk,
      open: (path, mode) => disk.open(path === `block/${name}` ? 'none' : path, mode),
    };
    const reading = async () => seriesIn(prometheusSource('block', racing));
    await assert.rejects(reading, {
      code: 'NOT_FOUND',
      message: `cannot read block/${name}: file is missing`,
    });
  }
});

test('a block without series has none', async () => {
  const times = [start, start + 1] as const;
  assert.deepEqual(await seriesIn(sourceOf({ ulid: ulids[0]!, times, series: [] })), []);
});

test('chunks that overlap are joined: a time has the row of the later one', async () => {
  const [histogram] = histogramValues(new SeededNumbers(4), 1, { perRow: 6, schema: 1 });
  const chunks: ChunkToWrite[] = [
    floatChunk(rowsFrom(0, 10)),
    ...histogramChunksOf([
      { millis: start + 3000, histogram: histogramOfValue(histogram!) },
      { millis: start + 4500, histogram: histogramOfValue(histogram!) },
    ]),
    floatChunk(rowsFrom(4, 3, 100)),
    floatChunk(rowsFrom(20, 2)),
  ];
  const [series] = await seriesIn(
    sourceOf({ ulid: ulids[0]!, series: [{ tags: tagsOf('a'), chunks }] }),
  );
  assert.deepEqual(
    series!.floats,
    floatsOf([...rowsFrom(0, 3), ...rowsFrom(4, 3, 100), ...rowsFrom(7, 3, 7), ...rowsFrom(20, 2)]),
  );
  assert.deepEqual(
    series!.histograms.map(({ timestampNanos }) => timestampNanos),
    [nanosOf(start + 3000), nanosOf(start + 4500)],
  );
});

test('a series of very many chunks comes in parts that ascend', async () => {
  const chunks = Array.from({ length: 4100 }, (_, i) => floatChunk(rowsFrom(2 * i, 2)));
  const source = sourceOf({
    ulid: ulids[0]!,
    series: [
      { tags: tagsOf('long'), chunks },
      { tags: tagsOf('short'), chunks: [chunks[7]!] },
    ],
  });
  const all = await seriesIn(source);
  assert.deepEqual(
    all.map(({ floats }) => floats.length),
    [4096, 4096, 8, 2],
  );
  const times = all.slice(0, 3).flatMap(({ floats }) => floats.map(([nanos]) => nanos));
  assert.ok(times.every((time, i) => time === nanosOf(start + 1000 * i)));
  const [part] = await source.parts();
  const rest: string[] = [];
  for await (const { tags } of part!.series(2)) rest.push(tags[0]!.value);
  assert.deepEqual(rest, ['long', 'short']);
});

test('what tombstones cover is left out', async () => {
  for (const version of [1, 2]) {
    const chunks = [floatChunk(rowsFrom(0, 5)), floatChunk(rowsFrom(5, 5))];
    const all = await seriesIn(
      sourceOf({
        ulid: ulids[0]!,
        version,
        series: ['a', 'b', 'c'].map((name) => ({ tags: tagsOf(name), chunks })),
        tombstones: [
          [0, -(2n ** 63n), 2n ** 63n - 1n],
          [1, BigInt(start + 1000), BigInt(start + 2000)],
          [1, BigInt(start + 8001), BigInt(start + 99_000)],
        ],
      }),
    );
    assert.deepEqual(
      all.map(({ tags, floats }) => [tags[0]!.value, floats]),
      [
        ['b', floatsOf([...rowsFrom(0, 1), ...rowsFrom(3, 6, 3)].map(withOwnValue))],
        ['c', floatsOf(rowsFrom(0, 10).map(withOwnValue))],
      ],
    );
  }
});

/** Chunks of five rows count from 0. */
function withOwnValue({ millis }: FloatRow): FloatRow {
  return { millis, bits: bitsOf(((millis - start) / 1000) % 5) };
}

test('a range takes the rows in it, and the parts that have some', async () => {
  const block = {
    ulid: ulids[0]!,
    series: [
      { tags: tagsOf('early'), chunks: [floatChunk(rowsFrom(0, 5))] },
      { tags: tagsOf('late'), chunks: [floatChunk(rowsFrom(0, 5)), floatChunk(rowsFrom(5, 5))] },
    ],
  };
  const range = { startNanos: nanosOf(start + 4000) + 1n, endNanos: nanosOf(start + 6000) + 1n };
  const source = sourceOf(block, range);
  const [part] = await source.parts();
  assert.equal(part!.startNanos, nanosOf(start + 4001));
  assert.equal(part!.endNanos, nanosOf(start + 6001));
  const all = await seriesIn(source);
  assert.deepEqual(
    all.map(({ tags, floats }) => [tags[0]!.value, floats]),
    [['late', floatsOf(rowsFrom(5, 2))]],
  );
  for (const [startMillis, endMillis] of [
    [start + 9001, start + 10_000],
    [start - 5, start],
  ] as const) {
    const other = { startNanos: nanosOf(startMillis), endNanos: nanosOf(endMillis) };
    assert.deepEqual(await sourceOf(block, other).parts(), []);
  }
  const before = sourceOf(block, { ...allTimes, endNanos: nanosOf(start) + 1n });
  assert.deepEqual(
    (await seriesIn(before)).map(({ floats }) => floats.length),
    [1, 1],
  );
});

test('rows outside of the times that a block says to have are taken, as Prometheus shows them', async () => {
  const block: BlockToWrite = {
    ulid: ulids[0]!,
    times: [start, start + 5000],
    series: [{ tags: tagsOf('a'), chunks: [floatChunk(rowsFrom(-2, 9))] }],
  };
  const source = sourceOf(block);
  const [series] = await seriesIn(source);
  assert.deepEqual(series!.floats, floatsOf(rowsFrom(-2, 9)));
  assert.deepEqual(source.notes, []);
  const range = { startNanos: nanosOf(start - 1000), endNanos: nanosOf(start + 5001) };
  const [within] = await seriesIn(sourceOf(block, range));
  assert.deepEqual(within!.floats, floatsOf(rowsFrom(-1, 7, 1)));
});

test('a data folder has its blocks by their times; parents and what is no block are passed over', async () => {
  const blockOf = (
    place: number,
    first: number,
    parents: string[] = [],
    sources: string[] = [],
  ): [string, BlockToWrite] => [
    `data/${ulids[place]}`,
    {
      ulid: ulids[place]!,
      series: [{ tags: tagsOf(`from_${place}`), chunks: [floatChunk(rowsFrom(first, 3))] }],
      parents,
      sources,
    },
  ];
  const blocks = [
    blockOf(0, 100),
    blockOf(1, 50, ['01GGGGGGGGGGGGGGGGGGGGGGG0']),
    blockOf(2, 200, [ulids[0]!, ulids[2]!], [ulids[0]!, 'x']),
    blockOf(3, 0),
  ];
  const files = filesIn(
    Object.fromEntries(blocks.map(([folder, block]) => [folder, blockFiles(block)])),
  );
  const nothing = new Uint8Array(0);
  for (const name of ['lock', 'queries.active', 'chunks_head/000001', 'wbl/00000000']) {
    files.set(`data/${name}`, nothing);
  }
  files.set('data/wbl/00000001', Uint8Array.of(1));
  const source = prometheusSource('data', diskOf(files));
  const notes = [
    'passed over chunks_head, lock, queries.active, wbl: the newest rows are in the write-ahead log: take a snapshot by the admin API, or wait until a block is written',
    'rows that came out of order are in wbl, and in no snapshot: wait until they are in a block, about two hours, or take them by data import remote',
    `passed over block ${ulids[0]}: its rows are in block ${ulids[2]}, which was made of it`,
  ];
  for (let time = 0; time < 2; time++) {
    const parts = await source.parts();
    assert.deepEqual(
      parts.map(({ name }) => name),
      [ulids[3], ulids[1], ulids[2]],
    );
    assert.deepEqual(
      parts.map(({ contents }) => contents),
      [[ulids[3]], [ulids[1]], [ulids[0], 'x']],
    );
    assert.deepEqual(source.notes, notes);
  }
  assert.deepEqual(
    (await seriesIn(source)).map(({ tags }) => tags[0]!.value),
    ['from_3', 'from_1', 'from_2'],
  );
});

test('a block that is a link to what is not there is damaged, not deleted, and so is one with a file that cannot be read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-blocks-'));
  try {
    for (const ulid of ulids.slice(0, 2)) {
      const series = [{ tags: tagsOf(ulid), chunks: [floatChunk(rowsFrom(0, 3))] }];
      for (const [name, bytes] of blockFiles({ ulid, series })) {
        mkdirSync(dirname(join(folder, ulid, name)), { recursive: true });
        writeFileSync(join(folder, ulid, name), bytes);
      }
    }
    const link = join(folder, ulids[2]!);
    symlinkSync(join(folder, 'not mounted'), link);
    const lines: string[] = [];
    const source = prometheusSource(folder, readableDisk(realEnv.disk));
    const message = `cannot read ${link}: it is a link to what is not there`;
    await assert.rejects(seriesIn(source), { code: 'BAD_REQUEST', message });
    const found = await seriesIn(sourceUpToDamage(source, (line) => lines.push(line)));
    assert.deepEqual(
      found.map(({ tags }) => tags[0]!.value),
      ulids.slice(0, 2),
    );
    assert.deepEqual(lines, [`${ulids[2]} is left from its damage on: ${message}`]);
    // Files that cannot be read at all are passed over, too, each by itself: of a link to itself the disk says so to everybody.
    rmSync(link);
    for (const [i, name] of ['meta.json', 'index', 'chunks/000001', 'tombstones'].entries()) {
      const path = join(folder, ulids[i % 2]!, name);
      const bytes = name === 'tombstones' ? null : readFileSync(path);
      rmSync(path, { force: true });
      symlinkSync(path, path);
      lines.length = 0;
      const rest = await seriesIn(sourceUpToDamage(source, (line) => lines.push(line)));
      assert.deepEqual(
        rest.map(({ tags }) => tags[0]!.value),
        [ulids[1 - (i % 2)]],
      );
      const [line = '', ...others] = lines;
      assert.ok(line.includes(`cannot read ${path}: ELOOP`), line);
      assert.deepEqual(others, []);
      rmSync(path);
      if (bytes !== null) writeFileSync(path, bytes);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('folders without blocks, and blocks that do not say what they are, are refused', async () => {
  const refuse = async (files: Map<string, Uint8Array>, message: string, folder = 'data') => {
    await assert.rejects(seriesIn(prometheusSource(folder, diskOf(files))), {
      code: 'BAD_REQUEST',
      message,
    });
  };
  await refuse(new Map(), 'cannot read data: folder is missing');
  const nothing = new Uint8Array(0);
  await refuse(
    new Map([['data/notes.txt', nothing]]),
    'cannot read data: there are no blocks of Prometheus',
  );
  await refuse(
    new Map([['data/wbl/00000000', nothing]]),
    'cannot read data: there are no blocks of Prometheus',
  );
  await refuse(
    new Map([['data/wbl/00000000', Uint8Array.of(1)]]),
    'cannot read data: there are no blocks of Prometheus; rows that came out of order are in wbl, and in no snapshot: wait until they are in a block, about two hours, or take them by data import remote',
  );
  await refuse(
    new Map([['data/chunks_head/000001', nothing]]),
    'cannot read data: there are no blocks of Prometheus; the newest rows are in the write-ahead log: take a snapshot by the admin API, or wait until a block is written',
  );
  const folder = `data/${ulids[0]}`;
  const path = `${folder}/meta.json`;
  await refuse(new Map([[`${folder}/index`, nothing]]), `cannot read ${path}: file is missing`);
  const good = { ulid: ulids[0], minTime: 0, maxTime: 1, version: 1 };
  for (const [meta, reason] of [
    [{ ...good, version: 2 }, 'version is not 1: 2'],
    [{ ...good, ulid: 7 }, 'ulid is not a number of a block: 7'],
    [{ ...good, ulid: ulids[1] }, `ulid is not that of its folder: ${ulids[1]}`],
    [{ ...good, minTime: 0.5 }, 'minTime is no time in milliseconds: 0.5'],
    [{ ...good, maxTime: 1e16 }, 'maxTime is no time in milliseconds: 10000000000000000'],
    [{ ...good, maxTime: -1 }, 'maxTime is before minTime: -1'],
    [[], 'version is not 1: nothing'],
  ] as const) {
    const bytes = new TextEncoder().encode(JSON.stringify(meta));
    await refuse(new Map([[path, bytes]]), `cannot read ${path}: ${reason}`);
  }
  const cut = new TextEncoder().encode('{"ulid":');
  await assert.rejects(seriesIn(prometheusSource('data', diskOf(new Map([[path, cut]])))), {
    code: 'BAD_REQUEST',
    message: /meta\.json: file is not JSON: /,
  });
});

test('a block that does not say what it is leaves the others to be read', async () => {
  const series = [{ tags: tagsOf('m'), chunks: [floatChunk(rowsFrom(0, 3))] }];
  const files = filesIn({ [`data/${ulids[1]}`]: blockFiles({ ulid: ulids[1]!, series }) });
  // As an upload that was broken off leaves it.
  files.set(`data/${ulids[0]}/index`, new Uint8Array(0));
  const lines: string[] = [];
  const source = sourceUpToDamage(prometheusSource('data', diskOf(files)), (line) =>
    lines.push(line),
  );
  assert.equal((await seriesIn(source)).length, 1);
  assert.match(
    lines.join('\n'),
    /^01HZ\w*0 is left from its damage on: .*meta.json: file is missing$/,
  );
  // It has its name when it is whole, so that it is read then.
  const names = (await source.parts()).map(({ name }) => name);
  assert.deepEqual(names, [ulids[0], ulids[1]]);
});

test('encodings that are not read are refused by their names', async () => {
  for (const [encoding, name] of [
    [0, 'not known'],
    [4, 'XOR2'],
    [5, 'histograms with start times'],
    [255, "Thanos' downsampled aggregates"],
  ] as const) {
    const chunk = { ...floatChunk(rowsFrom(0, 3)), encoding };
    const source = sourceOf({
      ulid: ulids[0]!,
      series: [{ tags: tagsOf('a'), chunks: [chunk] }],
    });
    await assert.rejects(seriesIn(source), {
      code: 'BAD_REQUEST',
      message: `cannot read block/chunks/000001: encoding of a chunk is not one that is read, ${encoding} (${name}): at byte 9`,
    });
  }
});

test('times of a chunk that the index does not have are refused, and labels that appear twice', async () => {
  const refuse = async (series: BlockToWrite['series'][number], message: RegExp) => {
    await assert.rejects(seriesIn(sourceOf({ ulid: ulids[0]!, series: [series] })), {
      code: 'BAD_REQUEST',
      message,
    });
  };
  const chunk = floatChunk(rowsFrom(0, 3));
  await refuse(
    { tags: tagsOf('a'), chunks: [{ ...chunk, firstMillis: start + 1 }] },
    /chunks\/000001: rows of a chunk are outside of the times that the index has at byte 8/,
  );
  await refuse(
    { tags: [...tagsOf('a'), ...tagsOf('b')], chunks: [chunk] },
    /index: label appears twice: __name__ at byte/,
  );
});

/** Series up to the first error. */
async function readUntilDamage(
  files: ReadonlyMap<string, Uint8Array>,
): Promise<{ readonly series: string[]; readonly error: unknown }> {
  const series: string[] = [];
  try {
    const parts = await prometheusSource('block', diskOf(files)).parts();
    for (const part of parts) {
      for await (const each of part.series(0)) series.push(shown(each));
    }
  } catch (error) {
    return { series, error };
  }
  return { series, error: null };
}

function shown(series: object): string {
  return JSON.stringify(series, (_, value) => {
    if (typeof value === 'bigint') return `${value}`;
    if (value instanceof Float64Array)
      return Array.from(new BigUint64Array(value.slice().buffer), String);
    return value instanceof BigInt64Array ? Array.from(value, String) : value;
  });
}

for (const version of [1, 2]) {
  test(`damage of version ${version} is an error that names the file, or changes nothing`, async () => {
    const { block } = mixedBlock(version);
    const files = filesIn({
      block: blockFiles({ ...block, tombstones: [[0, BigInt(start), BigInt(start + 1000)]] }),
    });
    const { series: wanted } = await readUntilDamage(files);
    assert.equal(wanted.length, 3);
    let [tries, unnoticed] = [0, 0];
    const tryDamaged = async (path: string, bytes: Uint8Array, what: string) => {
      const { series, error } = await readUntilDamage(new Map([...files, [path, bytes]]));
      tries++;
      if (error === null) {
        unnoticed++;
        assert.deepEqual(series, wanted, what);
        return;
      }
      assert.ok(
        error instanceof TsdbError && error.code === 'BAD_REQUEST',
        `${what}: ${messageOf(error)}`,
      );
      assert.ok(error.message.startsWith(`cannot read ${path}: `), `${what}: ${error.message}`);
      assert.deepEqual(series, wanted.slice(0, series.length), what);
    };
    for (const name of ['index', 'chunks/000001', 'chunks/000002', 'tombstones']) {
      const path = `block/${name}`;
      const good = files.get(path)!;
      for (let at = 0; at < good.length; at++) {
        for (const mask of at < 8 ? [1, 2, 3, 4, 128, 255] : [1 << (at & 7), 255]) {
          const bad = good.slice();
          bad[at]! ^= mask;
          await tryDamaged(path, bad, `${name}: byte ${at} by ${mask}`);
        }
        await tryDamaged(path, good.slice(0, at), `${name}: cut at ${at}`);
      }
      const hole = good.slice().fill(0, good.length >> 2, good.length >> 1);
      await tryDamaged(path, hole, `${name}: a hole`);
    }
    assert.ok(unnoticed < tries / 10, `${unnoticed} of ${tries} are in what is not read`);
  });
}

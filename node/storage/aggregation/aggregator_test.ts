import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { windowsWaitNanosMax } from '#cluster/namespaces/samples.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { doubleOf } from '#engine/typed/typed_value.ts';
import { realEnv } from '#lib/env/real.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { silentLog } from '#lib/log.ts';
import { retentionHoldMillis } from '../../clock/retention_clock.ts';
import { filesetPath } from '../../persist/fileset/format.ts';
import { never, type TestRow } from '../database_testing.ts';
import { beforeAllTime } from '../namespace/namespace.ts';
import {
  aggregatorAt,
  day,
  hour,
  minute,
  rowsOf,
  type Seen,
  second,
  slowAggregator,
  sorted,
  World,
} from './aggregation_testing.ts';
import { Aggregator } from './aggregator.ts';
import { notesFile, SliceNotes } from './notes.ts';

test('windows of all series are made of the rows of filesets, and of rows that come late once more', async () => {
  const world = await World.open();
  await world.write([...rowsOf('a', day, 3_000), ...rowsOf('b', day + 5n * hour, 100)]);
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  const { slices } = world.aggregator.counts;
  assert.ok(slices > 0);
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices, 'nothing is due any more');

  // After a start the notes tell that all is made.
  await world.start();
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  await world.write([...rowsOf('a', day + 15n * second, 40), ...rowsOf('c', day + hour, 10)]);
  await world.flush();
  await world.run();
  assert.ok(world.aggregator.counts.slices > 0);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('windows of filesets that were brought together are not made once more', async () => {
  const world = await World.open();
  await world.write([...rowsOf('a', day, 1_500), ...rowsOf('b', day, 1_500)]);
  await world.flush();
  await world.run();
  const { slices } = world.aggregator.counts;
  const { counts } = world.database.flusher;
  await world.database.flusher.runDue(never);
  assert.ok(counts.compacted > 0);
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices);
  // The notes name the long filesets now.
  await world.start();
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('rows of before a promise count, for nobody has let them go', async () => {
  const promise = { completeSinceNanos: realEnv.clock.nowNanos() };
  const world = await World.open(5n * minute, { promise });
  await world.write(rowsOf('a', day, 2_000));
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  await world.write(rowsOf('b', day, 20));
  await world.start();
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('before it was looked for what is past retention, and without samples, nothing is made', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 1_000));
  await world.flush();
  const { namespaces } = world.database;
  const [metrics, coarse] = ['metrics', 'coarse'].map((name) => namespaces.get(name)!);
  const known = metrics!.expiredBeforeNanos;
  metrics!.expiredBeforeNanos = beforeAllTime;
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0);
  metrics!.expiredBeforeNanos = known;
  await world.run();
  assert.ok(world.aggregator.counts.slices > 0);
  const { env, log, dataFolder, store, shards, formats } = world.database;
  const parts = { env, log, dataFolder, store, shards, formats };
  const notes = await SliceNotes.open(env.disk, log, world.folder);
  const alone = new Aggregator(
    { ...parts, namespaces: new Map([['coarse', coarse!]]) },
    notes,
    world,
  );
  await alone.runDue(never);
  assert.deepEqual({ ...alone.counts }, { slices: 0, series: 0, windows: 0, failures: 0 });
});

test('an entry of windows that is damaged is made again', async () => {
  const world = await World.open();
  await world.write([...rowsOf('a', day, 2_000), ...rowsOf('b', day, 2_000)]);
  await world.flush();
  await world.run();
  const [file] = world.database.namespaces.get('coarse')!.files.all(null);
  const bytes = readFileSync(file!.dataPath);
  bytes[bytes.length >> 1]! ^= 255;
  writeFileSync(file!.dataPath, bytes);
  await world.start();
  // The log has the rows still.
  await world.flush();
  const found = sorted(await world.windows().catch(() => new Map<string, Seen[]>()));
  assert.notDeepEqual(found, sorted(world.expected()));
  await world.run();
  assert.equal(world.aggregator.counts.failures, 0);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('a slice waits for rows that memory has, however old they are', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 2_000));
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0, 'nothing is in filesets');
  await world.flush();
  await world.write(rowsOf('b', day + hour, 10));
  await world.run();
  // Of the first half of the day.
  const first = (await world.windows()).get('x,a') ?? [];
  assert.ok(first.every((one) => one.endNanos >= day + 12n * hour));
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('who deletes all the time holds no slice up for longer than windows wait', async () => {
  const world = await World.open();
  await world.write([...rowsOf('a', day, 100), ...rowsOf('b', day, 100)]);
  await world.flush();
  const monotonic = { millis: 1_000_000 };
  world.aggregator = await aggregatorAt(world, monotonic);
  await world.run();
  const { slices } = world.aggregator.counts;
  await world.write(rowsOf('a', day + 15n * second, 40));
  await world.flush();
  const waitMillis = Number(windowsWaitNanosMax / 1_000_000n);
  monotonic.millis += waitMillis;
  for (let part = 0n; part < 3n; part++) {
    // Filesets that have deleted rows are to be written anew.
    const startNanos = day + part * 5n * minute + 1n;
    await world.delete('b', { startNanos, endNanos: startNanos + 5n * minute });
    if (part < 2n) {
      await world.run();
      assert.equal(world.aggregator.counts.slices, slices, 'it waits for these');
    }
    monotonic.millis += waitMillis / 2;
  }
  await world.run();
  assert.ok(world.aggregator.counts.slices > slices);
  const isLeft = (row: TestRow): boolean =>
    (row.series as { host: string }).host !== 'b' || row.nanos > day + 15n * minute;
  world.written.splice(0, Infinity, ...world.written.filter(isLeft));
  const expected = sorted(world.expected());
  const found = sorted(await world.windows());
  // The row at the beginning of the day is in the window that ends there, and is not deleted.
  assert.deepEqual(
    found.map(([series, windows]) => [series, windows.filter(({ endNanos }) => endNanos > day)]),
    expected.map(([series, windows]) => [series, windows.filter(({ endNanos }) => endNanos > day)]),
  );
});

test('windows that are lost are made once more, as long as their rows are there', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 2_000));
  await world.flush();
  await world.run();
  const { files } = world.database.namespaces.get('coarse')!;
  for (const file of files.all(null)) files.setAside(file, 'it is damaged');
  await files.settled();
  assert.equal((await world.windows()).get('x,a')?.length ?? 0, 0);
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('of a fileset that is lost while slices of its block are made all are made again', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 5_000));
  await world.flush();
  await world.run();
  for (const hours of [1n, 13n]) await world.write(rowsOf('a', day + hours * hour + second, 20));
  await world.start();
  await world.flush();
  const { counts } = world.aggregator;
  const running = world.run();
  while (counts.slices === 0) await setImmediate();
  const { files } = world.database.namespaces.get('coarse')!;
  for (const file of files.all(null)) files.setAside(file, 'it is damaged');
  await running;
  assert.ok(counts.slices >= 2);
  // What the first one made is lost, and the second one has made a fileset again.
  assert.ok(files.all(null).some(({ blockStartNanos }) => blockStartNanos === day));
  await world.start();
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

for (const resolution of [minute, hour, 24n * hour]) {
  test(`windows of ${resolution / minute} minutes are those of whole blocks and across them`, async () => {
    const world = await World.open(resolution);
    await world.write(rowsOf('a', day - 7n * hour, 5_000));
    await world.flush();
    await world.run();
    // The last of a day may need the block that ends a day later.
    const until = day + 24n * hour + 1n;
    const made = sorted(await world.windows()).map(([key, windows]) => {
      return [key, windows.filter((one) => one.endNanos < until)];
    });
    assert.deepEqual(made, sorted(world.expected(resolution, until)));
  });
}

test('a block whose windows are no whole number of slices is made in as few as others', async () => {
  const resolution = 7n * minute;
  const blockSizeNanos = 103n * resolution;
  const world = await World.open(resolution, { blockSizeNanos });
  const block = (day / blockSizeNanos) * blockSizeNanos;
  await world.write(rowsOf('a', block + second, 2_800));
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected(resolution)));
  // Two of each block, and one on either side that the raw blocks reach into.
  assert.equal(world.aggregator.counts.slices, 6);
});

test('windows that a deletion touches are made of what is left, and of a series that is gone none stay', async () => {
  const world = await World.open();
  await world.write([
    ...rowsOf('a', day, 3_000),
    ...rowsOf('b', day, 300),
    ...rowsOf('c', day, 30),
  ]);
  await world.flush();
  await world.run();
  const { slices } = world.aggregator.counts;
  const startNanos = day + 3n * hour + 2n * minute;
  const endNanos = day + 14n * hour + minute;
  await world.delete('a', { startNanos, endNanos });
  await world.delete('b', {});
  const left = world.written.filter(({ series, nanos }) => {
    const { host } = series as { host: string };
    return host === 'c' || (host === 'a' && (nanos < startNanos || nanos >= endNanos));
  });
  world.written.splice(0, Infinity, ...left);
  // At once no window is there that has deleted rows alone.
  const before = await world.windows();
  assert.deepEqual(before.get('x,b') ?? [], []);
  assert.ok(
    before.get('x,a')!.every((one) => {
      const { endNanos: end } = one;
      return end < startNanos || end >= endNanos;
    }),
  );
  await world.start();
  await world.flush();
  await world.clean();
  await world.run();
  assert.ok(world.aggregator.counts.slices > 0 && world.aggregator.counts.slices <= slices);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('a deletion that begins inside of a window leaves it with the rows of before', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 400));
  await world.flush();
  await world.run();
  const startNanos = day + hour + 2n * minute;
  // The time of the window that it begins in is deleted, and that of the one that it ends in is not.
  const endNanos = day + 2n * hour + minute;
  await world.delete('a', { startNanos, endNanos });
  const left = world.written.filter(({ nanos }) => nanos < startNanos || nanos >= endNanos);
  world.written.splice(0, Infinity, ...left);
  await world.start();
  await world.flush();
  await world.clean();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('a deletion that covers the end of a window and none of its rows takes nothing away', async () => {
  const world = await World.open();
  await world.write([...rowsOf('a', day + hour + minute, 4), ...rowsOf('a', day + 3n * hour, 10)]);
  await world.flush();
  await world.run();
  await world.delete('a', {
    startNanos: day + hour + 4n * minute,
    endNanos: day + hour + 30n * minute,
  });
  await world.start();
  await world.flush();
  await world.clean();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('raw rows that cannot be read put no windows out of use', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 1_000));
  await world.flush();
  await world.run();
  const before = sorted(await world.windows());
  await world.start();
  await world.write(rowsOf('a', day + hour + second, 10));
  await world.flush();
  const { files } = world.database.namespaces.get('metrics')!;
  const late = files.all(null).find(({ blockStartNanos, endNanos }) => {
    return blockStartNanos <= day + hour && endNanos > day + hour;
  })!;
  const path = filesetPath(late.folder, late, 'index');
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 255;
  writeFileSync(path, bytes);
  await world.run();
  assert.ok(world.aggregator.counts.failures > 0);
  assert.equal(late.retired, 'set aside');
  const left = sorted(await world.windows()).filter(([key]) => key === 'x,a');
  assert.deepEqual(
    left,
    before.filter(([key]) => key === 'x,a'),
  );
});

test('no windows are written before every node reads them', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 1_000));
  await world.flush();
  const { database } = world;
  const { env, log, dataFolder, store, shards, namespaces } = database;
  const notes = await SliceNotes.open(env.disk, log, world.folder);
  const parts = { env, log, dataFolder, store, shards, namespaces, formats: { level: () => 3 } };
  await new Aggregator(parts, notes, world).runDue(never);
  assert.equal(namespaces.get('coarse')!.files.all(null).length, 0);
});

test('what was made before a stop is not made again', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 5_000));
  await world.flush();
  const stop = new AbortController();
  const { counts } = world.aggregator;
  const watch = setInterval(() => {
    if (counts.slices >= 1) stop.abort();
  }, 1);
  await world.aggregator.runDue(stop.signal).catch(() => {});
  clearInterval(watch);
  const made = counts.slices;
  assert.ok(made >= 1);
  await world.start();
  // The log has them still.
  await world.flush();
  await world.run();
  const again = await World.open();
  await again.write(world.written);
  await again.flush();
  await again.run();
  assert.equal(world.aggregator.counts.slices, again.aggregator.counts.slices - made);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('rows that are written anew after their windows were made are in these, whether higher or lower', async () => {
  const world = await World.open();
  const twice = [0.3, -0.3, 70, -70, 1e9, -1e9].map((more) => {
    const rows = rowsOf(`by ${more}`, day, 40);
    return { rows, again: rows.slice(17, 19).map((row) => ({ ...row, value: row.value + more })) };
  });
  for (const { rows } of twice) await world.write(rows);
  await world.flush();
  await world.run();
  const before = sorted(await world.windows());
  await world.start();
  for (const { again } of twice) await world.write(again, 'now');
  await world.flush();
  await world.run();
  assert.notDeepEqual(sorted(await world.windows()), before);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('a row that is written anew before its window ends is in that, where the window was made without it before', async () => {
  const world = await World.open(hour);
  const twice = [0.3, -0.3, 70, -70, 1e9, -1e9].map((more) => {
    const rows = rowsOf(`by ${more}`, day + minute, 40);
    return { rows, again: [{ ...rows[7]!, value: rows[7]!.value + more }] };
  });
  for (const { rows } of twice) await world.write(rows);
  await world.flush();
  await world.run();
  const before = sorted(await world.windows());
  // As a replica that missed it has it from another one.
  await world.start(hour);
  const version = Number(versionAtNanos(day + 30n * minute));
  for (const { again } of twice) await world.write(again, version);
  await world.flush();
  await world.run();
  assert.notDeepEqual(sorted(await world.windows()), before);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected(hour)));
});

test('a stale marker that comes late ends its window, also where it takes the place of a row', async () => {
  const world = await World.open();
  const rows = rowsOf('a', day, 40);
  await world.write(rows);
  await world.flush();
  await world.run();
  await world.start();
  const last = rows.at(-1)!;
  for (const nanos of [last.nanos, last.nanos + 1_000_000_000n]) {
    await world.write([{ ...last, nanos, value: doubleOf(staleBits) }], 'now');
    await world.flush();
    await world.run();
    assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
    await world.start();
  }
});

test('of a window whose rows are all deleted nothing stays, though its time is not', async () => {
  const world = await World.open(hour);
  await world.write([
    ...rowsOf('a', day + 3n * hour + minute, 10),
    // In another slice: of the first one no raw fileset stays.
    ...rowsOf('a', day + 19n * hour, 9),
  ]);
  await world.flush();
  await world.run();
  assert.notDeepEqual(sorted(await world.windows()), []);
  await world.delete('a', {
    startNanos: day + 3n * hour,
    endNanos: day + 3n * hour + 30n * minute,
  });
  const left = world.written.filter(({ nanos }) => nanos >= day + 19n * hour);
  world.written.splice(0, Infinity, ...left);
  await world.start(hour);
  await world.flush();
  await world.clean();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected(hour)));
});

test('rows that come late count after a deletion was forgotten, and for series that it did not concern', async () => {
  const world = await World.open();
  await world.write([...rowsOf('a', day, 100), ...rowsOf('b', day, 100)]);
  await world.flush();
  await world.run();
  const part = { startNanos: day + 10n * minute, endNanos: day + 20n * minute + 7n * second };
  await world.delete('b', part);
  const left = world.written.filter(({ series, nanos }) => {
    const { host } = series as { host: string };
    return host !== 'b' || nanos < part.startNanos || nanos >= part.endNanos;
  });
  world.written.splice(0, Infinity, ...left);
  await world.start();
  await world.flush();
  await world.run();
  for (const { tombstones } of world.database.namespaces.values()) tombstones.keepOnly(() => false);
  for (const host of ['a', 'b']) await world.write(rowsOf(host, day + 25n * minute + second, 20));
  await world.flush();
  const notes = await SliceNotes.open(realEnv.disk, silentLog, world.folder);
  await new Aggregator(world.database, notes, world).runDue(never);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('of rows that every owner but this one has let go, only windows are made that none of them has', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 1_000));
  await world.flush();
  await world.run();
  const ofOthers = sorted(world.expected());
  // Those windows come from others, which lacked a row; this node lacks others, and has made none itself.
  rmSync(`${world.folder}/${notesFile}`);
  await world.write(rowsOf('a', day + 15n * second, 1));
  await world.write(rowsOf('b', day, 20), 'now');
  await world.flush();
  world.keepSamples(48n * hour, day + 40n * hour);
  const monotonic = { millis: 0 };
  const aggregator = await aggregatorAt(world, monotonic);
  aggregator.hasTaken = () => false;
  await aggregator.runDue(never);
  assert.equal(aggregator.counts.slices, 0, 'windows of others may come');
  aggregator.hasTaken = () => true;
  monotonic.millis += 61_000;
  await aggregator.runDue(never);
  const ofB = sorted(world.expected()).filter(([series]) => series === 'x,b');
  assert.deepEqual(sorted(await world.windows()), [...ofOthers, ...ofB]);

  // What is noted stays so.
  const { slices } = aggregator.counts;
  world.keepSamples(240n * hour);
  await world.write(rowsOf('b', day + 15n * second, 1), 'now');
  await world.flush();
  world.keepSamples(48n * hour, day + 40n * hour);
  monotonic.millis += Number(windowsWaitNanosMax / 1_000_000n) + 61_000;
  await aggregator.runDue(never);
  assert.equal(aggregator.counts.slices, slices);
  assert.deepEqual(sorted(await world.windows()), [...ofOthers, ...ofB]);
});

test('who hears nothing of other owners makes windows before its rows go', async () => {
  const world = await World.open();
  await world.write(rowsOf('a', day, 1_000));
  await world.flush();
  world.keepSamples(48n * hour, day + 40n * hour);
  const monotonic = { millis: 0 };
  const aggregator = await aggregatorAt(world, monotonic);
  aggregator.hasTaken = () => false;
  await aggregator.runDue(never);
  assert.equal(aggregator.counts.slices, 0);
  monotonic.millis += retentionHoldMillis / 2;
  await aggregator.runDue(never);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('others get a turn after each few milliseconds, however few series these were', async () => {
  const world = await World.open();
  const hosts = Array.from({ length: 200 }, (_, i) => `host ${i}`);
  await world.write(hosts.flatMap((host) => rowsOf(host, day + second, 10)));
  await world.flush();
  const { aggregator, rests } = await slowAggregator(world);
  await aggregator.runDue(never);
  assert.equal(aggregator.counts.series, hosts.length);
  assert.ok(rests() >= hosts.length, `${rests()} rests`);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('others get a turn while the rows of one long window are folded', async () => {
  const resolution = 144n * hour;
  const rawRetention = { retentionPeriodNanos: 719n * hour };
  const start = ((day - 288n * hour) / resolution) * resolution + second;
  const restsOf = async (hours: number): Promise<number> => {
    const world = await World.open(resolution, { rawRetention });
    await world.write(rowsOf('a', start, hours * 120));
    await world.flush();
    const { aggregator, rests } = await slowAggregator(world);
    await aggregator.runDue(never);
    assert.deepEqual(sorted(await world.windows()), sorted(world.expected(resolution)));
    return rests();
  };
  // Twelve hours at a time.
  assert.ok((await restsOf(132)) - (await restsOf(12)) >= 10);
});

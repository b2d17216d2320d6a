/**
 * A database on a simulated disk, through crashes, failed syncs, a full disk and flipped bits:
 * nothing that was acknowledged is missing, nothing that was never written is served, and
 * truncations and deletions hold. What befell which files, and what was under way when the power
 * went off, is counted: `npm run sim -- --only node/storage/crash`.
 */
import assert from 'node:assert/strict';
import type { WriteResponse } from '#cluster/node/service.ts';
import { allTime, type Deletion } from '#cluster/metadata/deletions.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { count } from '#test/sim/counts.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { compactDue } from '../flush/compaction.ts';
import type { Database } from '../database.ts';
import {
  batchOf,
  closeDatabases,
  dueNow,
  namespaceOf,
  never,
  openDatabase,
  samplesOf,
  truncateByLog,
} from '../database_testing.ts';
import { Pace } from '../flush/pace.ts';
import { type DiskDice, type DiskEvent, SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { tick } from '../retention/tick.ts';

class Dice implements DiskDice {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  }

  below(end: number): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % end;
  }
}

/** What the writer knows of one sample. */
type Fate = 'acknowledged' | 'unknown';

const folder = 'data';
const seriesCount = 12;
const hourNanos = 3_600_000_000_000n;
const retentionNanos = 48n * hourNanos;
const blockNanos = 2n * hourNanos;
/** The first boot's time: a run is the same whenever it is made. */
const firstNanos = 1_700_000_000_000_000_000n;
const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
/** Of files with these names every bit may flip. */
const mayRot = /-(data|index|info|digest|checkpoint)\.db$|commitlog-\d+\.db$|snapshot-\d+\.db$/;

/** A deletion as the key-value store keeps it, of all values that were written before it. */
interface Ordered {
  readonly deletion: Deletion;
  readonly series: string;
  readonly firstValueAfter: number;
}

interface Row {
  readonly series: Readonly<Record<string, string>>;
  readonly nanos: bigint;
  readonly value: number;
  readonly isTyped: boolean;
  readonly startNanos: bigint;
}

/** What the files of a path are for, in words for the counts. */
function purposeOf(path: string): string {
  if (path.includes('/commitlogs')) return 'commit log';
  if (path.includes('/snapshots')) return 'snapshot';
  const volume = /fileset-\d+-(\d+)-/.exec(path);
  if (volume !== null) return volume[1] === '0' ? 'fileset' : 'merged fileset';
  return path.includes('/index') ? 'index' : 'others';
}

class CrashRun {
  readonly #dice: Dice;
  readonly #disk: SimulatedDisk;
  /** What the clock shows when a boot begins. */
  #startNanos: bigint;
  #version = 1;
  /** `series@time` → value → fate, of everything since the last truncation. */
  readonly #samples = new Map<string, Map<number, Fate>>();
  /** `series@time` → values that were ever written. */
  readonly #ever = new Map<string, Set<number>>();
  #next = 1;
  #millis = 0;
  /** Bits flip in this run: then what is missing must be reported. */
  readonly #rots: boolean;
  #hasRotted = false;
  /** What is acknowledged may be lost with the power, and nothing of that is damage. */
  readonly #isRisky: boolean;
  /** Nothing is truncated in this run, so that blocks grow old and are brought together. */
  readonly #isOld: boolean;
  /** Starts of blocks that are in doubt, or of damaged filesets. */
  #known = new Set<bigint>();
  /** A flipped bit lay where a torn write is usual, so that nobody can tell the two apart. */
  #isExcused = false;
  /** Background work that is under way, with its name. */
  readonly #background = new Map<Promise<void>, string>();
  /** Deletions in their order; a boot applies those that the node has not before it serves. */
  readonly #deletions: Ordered[] = [];
  /** A truncation was under way when the power went off: what it deletes is not known. */
  #isTruncating = false;

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#disk = new SimulatedDisk(this.#dice);
    this.#disk.onEvent = (event: DiskEvent, path: string) => {
      if (event !== 'write' && event !== 'rename') count(`${event}: ${purposeOf(path)}`);
    };
    this.#startNanos = firstNanos + BigInt(this.#dice.below(7200)) * 1_000_000_000n;
    this.#rots = seed % 4 === 0;
    this.#isOld = seed % 3 === 0;
    this.#isRisky = seed % 5 === 0;
  }

  /** What one boot sees: time goes on with each question, and a wait is a few turns of others. */
  #env(): Env {
    const clock: Env['clock'] = {
      ...realEnv.clock,
      nowNanos: () => this.#startNanos + BigInt(Math.floor(this.#millis)) * 1000n,
      monotonicMillis: () => {
        this.#millis += 7;
        return this.#millis;
      },
      sleep: async () => {
        for (let turn = this.#dice.below(6); turn >= 0; turn -= 1) await Promise.resolve();
      },
    };
    const random: Env['random'] = {
      u32: () => this.#dice.below(2 ** 32 - 1),
      bytes: (length) => Uint8Array.from({ length }, () => this.#dice.below(256)),
      fraction: () => this.#dice.below(1000) / 1000,
    };
    return { clock, random, disk: this.#disk.session() };
  }

  async run(boots: number): Promise<void> {
    for (let boot = 0; boot < boots; boot += 1) {
      if (boot > 0 && this.#dice.below(this.#isOld ? 2 : 3) === 0) this.#passHours();
      this.#disk.troubles.syncFailures = 0;
      this.#disk.troubles.writeFailures = 0;
      const { database, report } = await openDatabase(folder, {
        env: this.#env(),
        registry,
        memoryBytesMax: 16 * 1024 * 1024,
        pageBytesMax: this.#dice.below(2) * 200_000,
        segmentBytesMax: 2_000 + this.#dice.below(20_000),
        sync: this.#isRisky ? 'interval' : 'always',
        slotsOfStretch: 2,
      });
      const { replay, corrupt } = report;
      if (!this.#hasRotted) {
        assert.equal(replay.recordsMalformed, 0);
        assert.equal(corrupt.length, 0);
        assert.deepEqual(replay.lost, [], 'a power loss alone costs nothing that was acknowledged');
        assert.equal(database.doubts.size, 0);
      }
      if (replay.lost.length > 0) count('losses of the log');
      for (const { path } of replay.problems) {
        const isLoss = replay.lost.some((loss) => loss.path === path);
        if (this.#hasRotted && !isLoss) this.#isExcused = true;
      }
      for (const { blocks } of corrupt) for (const start of blocks) this.#known.add(start);
      for (const { id } of database.shards.all()) {
        for (const start of database.doubts.blocksOf('metrics', id)) this.#known.add(start);
      }
      database.onDamage = (namespace, file) => {
        assert.ok(this.#hasRotted, 'a fileset is damaged only when bits flipped');
        for (const start of namespace.files.blocksOf(file)) this.#known.add(start);
      };
      for (const ordered of this.#deletions) await this.#applyDeletion(database, ordered);
      await this.#check(database);
      this.#disk.troubles.syncFailures = this.#dice.below(3) * 40;
      this.#disk.troubles.writeFailures = this.#dice.below(3) * 40;
      await this.#work(database);
      count('power losses');
      for (const name of new Set(this.#background.values())) count(`power lost during ${name}`);
      this.#disk.crash();
      // What the boot had under way finds its disk gone.
      await Promise.all(this.#background.keys());
      if (this.#isTruncating) this.#forgetFates();
      this.#isTruncating = false;
      if (this.#rots && this.#dice.below(2) === 0) {
        const path = this.#disk.flip((name) => mayRot.test(name));
        if (path !== null) this.#hasRotted = true;
      }
    }
  }

  /** Blocks close between two boots, and after some of these they expire. */
  #passHours(): void {
    const hours = this.#dice.below(this.#isOld ? 16 : 4) === 0 ? 40 : 1 + this.#dice.below(16);
    this.#startNanos += BigInt(hours) * hourNanos;
  }

  get #oldestNanos(): bigint {
    return this.#startNanos - retentionNanos;
  }

  /**
   * Writes, flushes, snapshots and truncations at the same time, until the power goes off in the
   * middle.
   */
  async #work(database: Database): Promise<void> {
    // Blocks of the boots before may be closed by now.
    if (this.#dice.below(2) === 0) this.#begin('compaction', () => this.#compact(database));
    const rounds = 1 + this.#dice.below(12);
    for (let round = 0; round < rounds; round += 1) {
      const isLast = round === rounds - 1;
      // One that failed is tried again, now at once and now later.
      if (this.#next % 2 === 0) await this.#applyDeletions(database);
      if (isLast && this.#dice.below(5) === 0) {
        // Nothing else is written meanwhile, so that it is known what it deletes.
        this.#inBackground('deletion', this.#deleteSome(database));
        await this.#someTurns();
        return;
      }
      const firstUnderWay = this.#next;
      const writes = Array.from({ length: 1 + this.#dice.below(5) }, () => this.#write(database));
      this.#startSomething(database);
      // The last ones are under way when the power goes off.
      if (isLast) {
        for (const write of writes) this.#inBackground('write', write);
        if (!this.#isOld && this.#dice.below(6) === 0) {
          this.#isTruncating = true;
          this.#inBackground('truncation', this.#truncate(database, firstUnderWay));
        }
        await this.#someTurns();
        return;
      }
      await Promise.all(writes);
      if (this.#dice.below(8) === 0) await this.#deleteSome(database);
      if (!this.#isOld && this.#dice.below(12) === 0) await this.#truncate(database, this.#next);
      await this.#check(database);
    }
  }

  async #someTurns(): Promise<void> {
    // A write takes some ten turns, a flush some hundred.
    const turnsMax = [8, 40, 200, 600][this.#dice.below(4)]!;
    for (let turn = this.#dice.below(turnsMax); turn > 0; turn -= 1) await Promise.resolve();
  }

  /** Now and then a flush, a snapshot, or both with all that follows. */
  #startSomething(database: Database): void {
    const works: readonly (readonly [name: string, work: () => Promise<unknown>])[] = [
      ['flush', () => database.flusher.flushAll(null, never)],
      ['flush on demand with snapshot', () => database.flush(null, never)],
      ['snapshot', () => database.snapshot(0.2, never)],
      ['flush of what is due', () => this.#flushDue(database)],
      ['cleanup', () => tick(database)],
      ['compaction', () => this.#compact(database)],
      ['rewrite of what is deleted', () => this.#rewriteDeleted(database)],
    ];
    const chosen = works[this.#dice.below(14)];
    if (chosen === undefined || this.#background.size > 3) return;
    this.#begin(...chosen);
  }

  #begin(name: string, work: () => Promise<unknown>): void {
    count(`begun: ${name}`);
    this.#inBackground(
      name,
      work().then(
        () => {},
        (error: unknown) => assert.ok(isPassing(error), String((error as Error).stack)),
      ),
    );
  }

  async #compact(database: Database): Promise<void> {
    // Rows of memory keep their blocks from being brought together.
    if (this.#dice.below(4) > 0) await database.flusher.flushAll(null, never);
    const pace = new Pace(database.env.clock, () => 1);
    const { written } = await compactDue(database, { pace, mayGoOn: () => true }, never);
    count('long filesets written', written);
  }

  /** Closed blocks are due when no row came for some time. */
  async #flushDue(database: Database): Promise<void> {
    await dueNow(database);
    this.#millis += this.#dice.below(3) * 35_000;
    for (const { why } of await dueNow(database)) count(`due: ${why}`);
    await database.flusher.runDue(never);
  }

  #inBackground(name: string, work: Promise<void>): void {
    const running = work.finally(() => this.#background.delete(running));
    this.#background.set(running, name);
    running.catch(() => {});
  }

  async #write(database: Database): Promise<void> {
    const value = this.#next;
    this.#next += 1;
    const blocksBack = BigInt(this.#dice.below(4)) * 2n * hourNanos;
    // Most batches have one kind of rows, as their writers do; a series has both in time.
    const kind = this.#dice.below(3);
    const rows: Row[] = Array.from({ length: 1 + this.#dice.below(8) }, () => ({
      series: { __name__: 'x', s: `${this.#dice.below(seriesCount)}` },
      nanos: this.#startNanos - blocksBack + BigInt(this.#dice.below(50)),
      value,
      isTyped: kind === 0 || (kind === 1 && this.#dice.below(2) === 0),
      startNanos: this.#dice.below(4) === 0 ? BigInt(1 + this.#dice.below(3)) : 0n,
    }));
    for (const { isTyped } of rows) count(isTyped ? 'typed rows' : 'floats');
    const keys = rows.map(({ series, nanos }) => `${nameOf(series)}@${nanos}`);
    for (const key of keys) this.#note(key, value, 'unknown');
    try {
      const { outcomes } = await this.#send(database, rows);
      assert.equal(outcomes.length, 0);
      if (this.#isRisky) return;
      for (const key of keys) this.#note(key, value, 'acknowledged');
    } catch (error) {
      assert.ok(error instanceof TsdbError && error.code === 'UNAVAILABLE', String(error));
    }
  }

  /**
   * Rows with their series, in a version of this run's own: the bytes of the files depend on it.
   */
  async #send(database: Database, rows: readonly Row[]): Promise<WriteResponse> {
    this.#version += 1;
    const version = Number(versionAtNanos(this.#startNanos)) + this.#version;
    const request = {
      namespace: 'metrics',
      placementVersion: database.shards.version,
      referenceEpoch: database.referenceEpoch,
      batch: batchOf(rows, undefined, version),
    };
    return database.write(request, never);
  }

  /** One series, all of it or a range of times; no write is under way. */
  async #deleteSome(database: Database): Promise<void> {
    count('begun: deletion');
    const series = `${this.#dice.below(seriesCount)}`;
    const startNanos = this.#startNanos - BigInt(this.#dice.below(4)) * 2n * hourNanos;
    const isWhole = this.#dice.below(2) === 0;
    const range = { startNanos, endNanos: startNanos + BigInt(1 + this.#dice.below(50)) };
    const ordered: Ordered = {
      deletion: {
        sequence: this.#deletions.length + 1,
        namespace: 'metrics',
        query: { kind: 'term', field: 's', term: series },
        ...(isWhole ? allTime : range),
        version: Number(versionAtNanos(this.#startNanos)) + this.#version,
        createdNanos: this.#startNanos,
        expiresNanos: this.#startNanos + 1000n * hourNanos,
        selectors: [`{s="${series}"}`],
      },
      series,
      firstValueAfter: this.#next,
    };
    // Another write than the last one before it has a higher version.
    this.#version += 1;
    this.#deletions.push(ordered);
    for (const [, values] of this.#samplesOf(ordered)) {
      for (const value of values.keys()) values.set(value, 'unknown');
    }
    await this.#applyDeletions(database);
  }

  async #applyDeletions(database: Database): Promise<void> {
    try {
      for (const each of this.#deletions) await this.#applyDeletion(database, each);
    } catch (error) {
      assert.ok(isPassing(error), String((error as Error).stack));
    }
  }

  /** From its end on nothing is served of what it deletes. */
  async #applyDeletion(database: Database, ordered: Ordered): Promise<void> {
    if (ordered.deletion.sequence <= database.deletions.appliedSequence) return;
    await database.deletions.apply(ordered.deletion);
    const { deletion, firstValueAfter } = ordered;
    for (const [key, values] of this.#samplesOf(ordered)) {
      const nanos = BigInt(key.slice(key.lastIndexOf('@') + 1));
      for (const value of values.keys()) {
        if (value < firstValueAfter) values.delete(value);
        // An old time that was written again before the deletion was applied may go with it
        // (docs/STORAGE.md).
        else if (versionAtNanos(nanos) <= BigInt(deletion.version)) values.set(value, 'unknown');
      }
      if (values.size === 0) this.#samples.delete(key);
    }
    count('deletions applied');
  }

  #samplesOf({ deletion, series }: Ordered): [string, Map<number, Fate>][] {
    return [...this.#samples].filter(([key]) => {
      const at = key.lastIndexOf('@');
      const nanos = BigInt(key.slice(at + 1));
      return (
        key.slice(0, at) === nameOf({ __name__: 'x', s: series }) &&
        nanos >= deletion.startNanos &&
        nanos < deletion.endNanos
      );
    });
  }

  /** Files are rewritten when no deletion came for some time. */
  async #rewriteDeleted(database: Database): Promise<void> {
    this.#millis += 40_000;
    await database.deletions.rewriteDue(never);
  }

  /** @param firstUnderWay the writes from this value on may be before or after it */
  async #truncate(database: Database, firstUnderWay: number): Promise<void> {
    count('begun: truncation');
    try {
      await truncateByLog(database, 'metrics');
      for (const [key, values] of this.#samples) {
        for (const value of values.keys()) if (value < firstUnderWay) values.delete(value);
        if (values.size === 0) this.#samples.delete(key);
      }
    } catch (error) {
      assert.ok(isPassing(error), String((error as Error).stack));
      // Whether the truncation is in the log is not known, so nothing before it is certain any
      // more.
      this.#forgetFates();
    }
  }

  #forgetFates(): void {
    for (const values of this.#samples.values()) {
      for (const value of values.keys()) values.set(value, 'unknown');
    }
  }

  #note(key: string, value: number, fate: Fate): void {
    const ever = this.#ever.get(key);
    if (ever === undefined) this.#ever.set(key, new Set([value]));
    else ever.add(value);
    const values = this.#samples.get(key);
    if (values === undefined) this.#samples.set(key, new Map([[value, fate]]));
    else values.set(value, fate);
  }

  /** Of one time the latest acknowledged value is there, or one whose fate is not known. */
  async #check(database: Database): Promise<void> {
    const found = await this.#readByBlocks(database);
    for (const key of this.#samples.keys()) {
      // What is past retention may be there or not.
      if (BigInt(key.slice(key.lastIndexOf('@') + 1)) < this.#oldestNanos)
        this.#samples.delete(key);
    }
    count('samples checked', this.#samples.size);
    if (this.#hasRotted) {
      this.#checkRotted(found);
      return;
    }
    for (const [key, values] of this.#samples) {
      const value = found.get(key);
      const certain = [...values].filter(([, fate]) => fate === 'acknowledged');
      const latest = Math.max(...certain.map(([each]) => each));
      if (value === undefined) {
        assert.equal(certain.length, 0, `${key} is missing, acknowledged with ${latest}`);
      } else {
        assert.ok(values.has(value), `${key} was never written with ${value}`);
        assert.ok(value >= latest, `${key} has ${value}, and ${latest} was acknowledged after it`);
      }
    }
    for (const [key, value] of found) {
      assert.ok(
        this.#samples.get(key)?.has(value),
        `${key} was deleted or never written: ${value}`,
      );
    }
  }

  /**
   * Samples inside retention by `series@time`. Blocks are asked one by one, so that a series is
   * found in each block that has rows of it, or all at once.
   */
  async #readByBlocks(database: Database): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    const ranges: { readonly startNanos: bigint; readonly endNanos: bigint }[] = [];
    if (this.#dice.below(2) === 0) ranges.push({ startNanos: 0n, endNanos: 2n ** 62n });
    else {
      const times = [...this.#samples.keys()].map((key) =>
        BigInt(key.slice(key.lastIndexOf('@') + 1)),
      );
      const starts = new Set(times.map((nanos) => nanos - (nanos % blockNanos)));
      for (const startNanos of starts)
        ranges.push({ startNanos, endNanos: startNanos + blockNanos });
    }
    for (const range of ranges) {
      const request = {
        namespace: 'metrics',
        placementVersion: 0,
        query: { kind: 'all' },
        shards: null,
        seriesLimit: 0,
        fetchData: true,
        ...range,
      } as const;
      const read = samplesOf(await database.fetch(request, never));
      for (const [name, rows] of read) {
        for (const [nanos, value] of rows) {
          const isAsked = nanos >= range.startNanos && nanos < range.endNanos;
          if (isAsked && nanos >= this.#oldestNanos) found.set(`${name}@${nanos}`, value);
        }
      }
    }
    return found;
  }

  /**
   * Bits flipped on the disk: nothing that was never written is served, and what is missing is of
   * blocks that are known to lack something.
   */
  #checkRotted(found: ReadonlyMap<string, number>): void {
    for (const [key, value] of found) {
      assert.ok(this.#ever.get(key)?.has(value), `${key} was never written with ${value}`);
    }
    for (const [key, values] of this.#samples) {
      const certain = [...values].filter(([, fate]) => fate === 'acknowledged');
      const latest = Math.max(...certain.map(([each]) => each));
      const value = found.get(key);
      if (certain.length === 0 || (value ?? -1) >= latest) continue;
      count('rows lost to damage');
      if (this.#isExcused) continue;
      const nanos = BigInt(key.slice(key.lastIndexOf('@') + 1));
      const isKnown = this.#known.has(nanos - (nanos % blockNanos));
      assert.ok(isKnown, `${key} has ${value} for ${latest}, and nothing says so`);
    }
  }
}

/** What a disk may answer with, or a node that cannot do it now. */
function isPassing(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  if (error instanceof TsdbError) return code === 'UNAVAILABLE' || code === 'CANCELLED';
  return code === 'EIO' || code === 'ENOSPC' || code === 'EBADF';
}

function nameOf(series: Row['series']): string {
  return Object.entries(series)
    .map(([name, value]) => `${name}=${value}`)
    .join(',');
}

export async function fuzz(seed: number, size: number): Promise<void> {
  try {
    await new CrashRun(seed).run(size);
  } finally {
    await closeDatabases();
  }
}

/**
 * Deletions of series and ranges on a simulated disk, between writes, flushes, snapshots, rewrites
 * and power losses: what was deleted is never served again, and everything else that was
 * acknowledged is.
 */
import assert from 'node:assert/strict';
import type { Deletion } from '#cluster/metadata/deletions.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import type { Database } from '../database.ts';
import { closeDatabases, namespaceOf, never, openDatabase, readAll } from '../database_testing.ts';
import { type DiskDice, SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { tagMatcher } from '../tombstones/tag_matcher.ts';

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

/**
 * What one sample may be: its last acknowledged value, or one of a later write that was not
 * acknowledged. With sync 'interval' also one that was acknowledged before, since a power loss may
 * take the later ones.
 */
interface Sample {
  readonly tags: Uint8Array;
  readonly nanos: bigint;
  acknowledged: number | null;
  readonly unknown: Set<number>;
}

const folder = 'data';
const seriesCount = 6;
const hourNanos = 3_600_000_000_000n;
const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);

class DeletionRun {
  readonly #dice: Dice;
  readonly #disk: SimulatedDisk;
  readonly #startNanos: bigint;
  readonly #sync: 'always' | 'interval';
  #millis = 0;
  #version = 0;
  readonly #samples = new Map<string, Sample>();
  /** As the key-value store has them. */
  readonly #deletions: Deletion[] = [];
  #nextValue = 1;
  readonly #background = new Set<Promise<void>>();

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#disk = new SimulatedDisk(this.#dice);
    this.#startNanos = 1_700_000_000_000_000_000n + BigInt(this.#dice.below(7200)) * 1_000_000_000n;
    this.#sync = this.#dice.below(3) === 0 ? 'interval' : 'always';
  }

  #env(): Env {
    const clock: Env['clock'] = {
      ...realEnv.clock,
      nowMillis: () => Number(clock.nowNanos() / 1_000_000n),
      nowNanos: () => this.#startNanos + BigInt(Math.floor(this.#millis * 1e6)),
      monotonicMillis: () => {
        this.#millis += 0.1;
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
      this.#disk.troubles.writeFailures = 0;
      this.#disk.troubles.syncFailures = 0;
      const { database } = await openDatabase(folder, {
        env: this.#env(),
        registry,
        sync: this.#sync,
        memoryBytesMax: 16 * 1024 * 1024,
        segmentBytesMax: 2_000 + this.#dice.below(20_000),
        slotsOfStretch: 1,
      });
      // What a node does before it serves.
      for (const deletion of this.#deletions) await database.deletions.apply(deletion);
      await this.#check(database);
      this.#disk.troubles.writeFailures = this.#dice.below(3) * 10;
      this.#disk.troubles.syncFailures = this.#dice.below(3) * 20;
      await this.#work(database);
      this.#disk.crash();
      await Promise.all(this.#background);
      if (this.#sync === 'interval') for (const sample of this.#samples.values()) doubt(sample);
    }
    await closeDatabases().catch(() => {});
  }

  async #work(database: Database): Promise<void> {
    const rounds = 3 + this.#dice.below(8);
    for (let round = 0; round < rounds; round += 1) {
      this.#startSomething(database);
      const isLast = round === rounds - 1;
      if (this.#dice.below(3) === 0) {
        const deleting = this.#delete(database);
        if (isLast) return this.#leave(deleting);
        await deleting;
      }
      const writing = this.#write(database);
      if (isLast) return this.#leave(writing);
      await writing;
      await this.#check(database);
    }
  }

  /** The power goes off in the middle of it. */
  async #leave(work: Promise<void>): Promise<void> {
    this.#inBackground(work);
    for (let turn = this.#dice.below(300); turn > 0; turn -= 1) await Promise.resolve();
  }

  #startSomething(database: Database): void {
    const works: readonly (() => Promise<unknown>)[] = [
      () => database.flusher.flushAll(null, never),
      () => database.snapshot(1, never),
      () => database.flush(null, never),
      () => {
        database.deletions.cleanSequence = database.deletions.appliedSequence;
        return database.deletions.rewriteDue(never);
      },
    ];
    const chosen = works[this.#dice.below(8)];
    if (chosen === undefined || this.#background.size > 2) return;
    this.#inBackground(
      chosen().then(
        () => {},
        (error: unknown) => assert.ok(isPassing(error), String((error as Error).stack)),
      ),
    );
  }

  #inBackground(work: Promise<void>): void {
    const running: Promise<void> = work.finally(() => this.#background.delete(running));
    this.#background.add(running);
    running.catch(() => {});
  }

  /** Higher than all before it, and about the time. */
  #nextVersion(): number {
    this.#millis += 1;
    const now = versionAtNanos(this.#startNanos + BigInt(Math.floor(this.#millis * 1e6)));
    this.#version = Math.max(Number(now), this.#version + 1);
    return this.#version;
  }

  async #write(database: Database): Promise<void> {
    const value = this.#nextValue;
    this.#nextValue += 1;
    const builder = new BatchBuilder();
    builder.begin(this.#nextVersion());
    const count = 1 + this.#dice.below(60);
    const written: Sample[] = [];
    const ordinals = new Uint32Array(count);
    const nanos = new BigInt64Array(count);
    for (let row = 0; row < count; row += 1) {
      const s = this.#dice.below(seriesCount);
      const tags = encodeTags([
        { name: 'group', value: `${s % 2}` },
        { name: 's', value: `${s}` },
      ]);
      const block = BigInt(this.#dice.below(3)) * 2n * hourNanos;
      nanos[row] = this.#startNanos - block - BigInt(this.#dice.below(120)) * 1_000_000_000n;
      ordinals[row] = builder.addSeries(tags, idSchemeCode.quoted, new Uint8Array(0));
      const sample = this.#sample(s, tags, nanos[row]!);
      sample.unknown.add(value);
      written.push(sample);
    }
    const values = new Float64Array(count).fill(value);
    builder.setRows(count, ordinals, new Uint32Array(count), nanos, 1, values);
    const request = {
      namespace: 'metrics',
      placementVersion: database.shards.version,
      referenceEpoch: database.referenceEpoch,
      batch: builder.finish(),
    };
    try {
      const { outcomes } = await database.write(request, never);
      assert.equal(outcomes.length, 0);
    } catch (error) {
      assert.ok(isPassing(error), String((error as Error).stack));
      return;
    }
    for (const sample of written) {
      if (this.#sync === 'interval') doubt(sample);
      else sample.unknown.clear();
      sample.acknowledged = value;
    }
  }

  #sample(s: number, tags: Uint8Array, nanos: bigint): Sample {
    const key = `group=${s % 2},s=${s}@${nanos}`;
    let sample = this.#samples.get(key);
    if (sample === undefined) {
      sample = { tags, nanos, acknowledged: null, unknown: new Set() };
      this.#samples.set(key, sample);
    }
    return sample;
  }

  async #delete(database: Database): Promise<void> {
    const queries: readonly IndexQuery[] = [
      { kind: 'all' },
      { kind: 'term', field: 'group', term: '1' },
      { kind: 'term', field: 's', term: `${this.#dice.below(seriesCount)}` },
      { kind: 'regexp', field: 's', regexp: '[0-2]' },
      { kind: 'negation', query: { kind: 'term', field: 's', term: '0' } },
    ];
    const query = queries[this.#dice.below(queries.length)]!;
    const first = this.#startNanos - BigInt(this.#dice.below(6)) * hourNanos;
    const range =
      this.#dice.below(2) === 0
        ? allTime
        : { startNanos: first, endNanos: first + BigInt(this.#dice.below(7200)) * 1_000_000_000n };
    const deletion: Deletion = {
      sequence: this.#deletions.length + 1,
      namespace: 'metrics',
      query,
      ...range,
      version: this.#nextVersion(),
      createdNanos: this.#startNanos + BigInt(Math.floor(this.#millis * 1e6)),
      expiresNanos: 2n ** 62n,
      selectors: [],
    };
    // It stands from here on, whatever becomes of this boot.
    this.#deletions.push(deletion);
    const matches = tagMatcher(query);
    for (const sample of this.#samples.values()) {
      const { nanos, tags } = sample;
      if (nanos < deletion.startNanos || nanos >= deletion.endNanos || !matches(tags)) continue;
      sample.acknowledged = null;
      sample.unknown.clear();
    }
    this.#millis += 1;
    for (;;) {
      try {
        return await database.deletions.apply(deletion);
      } catch (error) {
        assert.ok(isPassing(error), String((error as Error).stack));
        if (isGone(error)) return;
      }
      await Promise.resolve();
    }
  }

  async #check(database: Database): Promise<void> {
    const found = new Map<string, number>();
    for (const [name, rows] of await readAll(database)) {
      for (const [nanos, value] of rows) found.set(`${name}@${nanos}`, value);
    }
    for (const [key, value] of found) {
      const sample = this.#samples.get(key);
      assert.ok(sample !== undefined, `${key} was never written`);
      const isExpected = sample.acknowledged === value || sample.unknown.has(value);
      assert.ok(isExpected, `${key} has ${value} in place of ${sample.acknowledged}`);
    }
    for (const [key, { acknowledged }] of this.#samples) {
      if (acknowledged !== null) assert.ok(found.has(key), `${key} is missing: ${acknowledged}`);
    }
  }
}

/** What was acknowledged may be there or not. */
function doubt(sample: Sample): void {
  if (sample.acknowledged !== null) sample.unknown.add(sample.acknowledged);
  sample.acknowledged = null;
}

/** Of a disk that fails or of a boot that has ended. */
function isPassing(error: unknown): boolean {
  if (error instanceof TsdbError) {
    return ['UNAVAILABLE', 'CANCELLED'].includes(error.code);
  }
  return typeof (error as { code?: unknown }).code === 'string';
}

/** The disk is gone with the power. */
function isGone(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.message.includes('after the end')) return true;
  }
  return false;
}

export async function fuzz(seed: number, size: number): Promise<void> {
  try {
    await new DeletionRun(seed).run(2 + (size % 16));
  } finally {
    await closeDatabases().catch(() => {});
  }
}

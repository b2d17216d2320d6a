/**
 * A database on a simulated disk, through crashes, failed syncs and a full disk: nothing that was
 * acknowledged is missing, nothing that was never written is served, and truncations hold.
 */
import assert from 'node:assert/strict';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Database } from './database.ts';
import {
  closeDatabases,
  never,
  openDatabase,
  readAll,
  type TestRow,
  writeRows,
} from './database_testing.ts';
import { type DiskDice, SimulatedDisk } from './simulated_disk.ts';

class Dice implements DiskDice {
  private state: number;

  constructor(seed: number) {
    this.state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  }

  below(end: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state ^= this.state << 5;
    return (this.state >>> 0) % end;
  }
}

/** What the writer knows of one sample. */
type Fate = 'acknowledged' | 'unknown';

const folder = 'data';
const seriesCount = 12;

class CrashRun {
  private readonly dice: Dice;
  private readonly disk: SimulatedDisk;
  private readonly env: Env;
  private readonly startNanos: bigint;
  /** `series@time` → value → fate, of everything since the last truncation. */
  private readonly samples = new Map<string, Map<number, Fate>>();
  private next = 1;
  private millis = 0;

  constructor(seed: number) {
    this.dice = new Dice(seed);
    this.disk = new SimulatedDisk(this.dice);
    // Time goes on with each question, so that waits between attempts end.
    const clock = {
      ...realEnv.clock,
      monotonicMillis: () => {
        this.millis += 7;
        return this.millis;
      },
    };
    this.env = { ...realEnv, clock, disk: this.disk };
    this.startNanos = realEnv.clock.nowNanos();
  }

  async run(boots: number): Promise<void> {
    for (let boot = 0; boot < boots; boot += 1) {
      this.disk.troubles.syncFailures = 0;
      this.disk.troubles.writeFailures = 0;
      const { database, report } = await openDatabase(folder, {
        env: this.env,
        memoryBytesMax: 16 * 1024 * 1024,
        segmentBytesMax: 2_000 + this.dice.below(20_000),
      });
      assert.equal(report.replay.recordsMalformed, 0);
      await this.check(database);
      this.disk.troubles.syncFailures = this.dice.below(3) * 60;
      this.disk.troubles.writeFailures = this.dice.below(3) * 60;
      await this.work(database);
      this.disk.crash();
    }
  }

  /** Writes and now and then truncates, several at a time, until the power goes off in the middle. */
  private async work(database: Database): Promise<void> {
    const rounds = 1 + this.dice.below(12);
    for (let round = 0; round < rounds; round += 1) {
      const writes = Array.from({ length: 1 + this.dice.below(5) }, () => this.write(database));
      // The last ones are under way when the power goes off.
      if (round === rounds - 1) {
        for (let turn = this.dice.below(30); turn > 0; turn -= 1) await Promise.resolve();
        void Promise.allSettled(writes);
        return;
      }
      await Promise.all(writes);
      if (this.dice.below(12) === 0) await this.truncate(database);
      await this.check(database);
    }
  }

  private async write(database: Database): Promise<void> {
    const value = this.next;
    this.next += 1;
    const rows: TestRow[] = Array.from({ length: 1 + this.dice.below(8) }, () => ({
      series: { __name__: 'x', s: `${this.dice.below(seriesCount)}` },
      nanos: this.startNanos + BigInt(this.dice.below(50)),
      value,
    }));
    const keys = rows.map(({ series, nanos }) => `${nameOf(series)}@${nanos}`);
    for (const key of keys) this.note(key, value, 'unknown');
    try {
      const { outcomes } = await writeRows(database, rows);
      assert.equal(outcomes.length, 0);
      for (const key of keys) this.note(key, value, 'acknowledged');
    } catch (error) {
      assert.ok(error instanceof TsdbError && error.code === 'UNAVAILABLE', String(error));
    }
  }

  private async truncate(database: Database): Promise<void> {
    try {
      await database.truncate('metrics', never);
      this.samples.clear();
    } catch (error) {
      assert.ok(error instanceof TsdbError && error.code === 'UNAVAILABLE', String(error));
      // Whether the truncation is in the log is not known, so nothing before it is certain any more.
      for (const values of this.samples.values()) {
        for (const value of values.keys()) values.set(value, 'unknown');
      }
    }
  }

  private note(key: string, value: number, fate: Fate): void {
    const values = this.samples.get(key);
    if (values === undefined) this.samples.set(key, new Map([[value, fate]]));
    else values.set(value, fate);
  }

  /** Of one time the latest acknowledged value is there, or one whose fate is not known. */
  private async check(database: Database): Promise<void> {
    const read = await readAll(database);
    const found = new Map<string, number>();
    for (const [name, rows] of read) {
      for (const [nanos, value] of rows) found.set(`${name}@${nanos}`, value);
    }
    for (const [key, values] of this.samples) {
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
      assert.ok(this.samples.get(key)?.has(value), `${key} was deleted or never written: ${value}`);
    }
  }
}

function nameOf(series: TestRow['series']): string {
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

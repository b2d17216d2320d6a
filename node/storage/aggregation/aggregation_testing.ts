/** A node's storage with a namespace of samples and one of windows, and what its windows are to be. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { allTime } from '#cluster/metadata/deletions.ts';
import type { KnownRules } from '#cluster/aggregation_rules/sets/follower.ts';
import { noRuleSets } from '#cluster/aggregation_rules/sets/over_time.ts';
import { droppedNamespace } from '#cluster/namespaces/companions.ts';
import { type Namespace, registryOf } from '#cluster/namespaces/namespaces.ts';
import { type FoldedWindow, foldTwin } from '#engine/aggregation/fold_twin.ts';
import { readTyped } from '#engine/store/typed_chunks.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import { windowOfValue } from '#engine/typed/window.ts';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { nextVersion, versionAtNanos } from '#lib/hybrid_clock.ts';
import { silentLog } from '#lib/log.ts';
import { decodeTags } from '#lib/tags.ts';
import type { Database } from '../database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  type TestRow,
  writeRows,
} from '../database_testing.ts';
import { Aggregator } from './aggregator.ts';
import { SliceNotes } from './notes.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

export const second: bigint = 1_000_000_000n;
export const minute: bigint = 60n * second;
export const hour: bigint = 60n * minute;
/** A full day some days ago, so that blocks are closed. */
export const day: bigint = (realEnv.clock.nowNanos() / (24n * hour)) * 24n * hour - 96n * hour;

type Retention = Partial<Namespace['options']['retentionOptions']>;

const raw = (more: Retention, name = 'metrics', number = 7): Namespace => {
  const namespace = namespaceOf(name, { coldWritesEnabled: true });
  const { retentionOptions } = namespace.options;
  const retention = { ...retentionOptions, retentionPeriodNanos: 240n * hour, ...more };
  return {
    ...namespace,
    number,
    options: { ...namespace.options, retentionOptions: retention },
  };
};

function aggregated(resolutionNanos: bigint, blockSizeNanos: bigint, all: boolean): Namespace {
  const namespace = namespaceOf('coarse', {
    aggregations: [
      { aggregated: true, attributes: { resolutionNanos, downsampleOptions: { all } } },
    ],
  });
  const { options } = namespace;
  const retentionOptions = {
    ...options.retentionOptions,
    retentionPeriodNanos: 720n * hour,
    blockSizeNanos,
  };
  const indexOptions = { enabled: true, blockSizeNanos };
  return { ...namespace, number: 8, options: { ...options, retentionOptions, indexOptions } };
}

export class World {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'tsdb-windows-'));
  readonly written: TestRow[] = [];
  /** Of the raw namespace, when it starts next. */
  rawRetention: Retention = {};
  /** Of another namespace, "longer", that has every row too. */
  longer: Retention | null = null;
  /** Of a namespace of rows that rules drop. */
  dropped: Retention | null = null;
  /** Of the aggregated one. */
  blockSizeNanos: bigint = 24n * hour;
  /** Of the raw namespace. */
  promise: Pick<Namespace, 'completeSinceNanos'> = {};
  /** Rules, of which all that hold are known. */
  known: KnownRules = { sets: noRuleSets, knownNanos: realEnv.clock.nowNanos() };
  /** Whether the aggregated namespace takes what no rule says something of. */
  takesAll = true;
  #sequence = 0;
  database!: Database;
  aggregator!: Aggregator;

  constructor() {
    folders.push(this.folder);
  }

  static async open(
    resolution: bigint = 5n * minute,
    options: Partial<
      Pick<
        World,
        'rawRetention' | 'longer' | 'blockSizeNanos' | 'promise' | 'known' | 'takesAll' | 'dropped'
      >
    > = {},
  ): Promise<World> {
    const world = Object.assign(new World(), options);
    await world.start(resolution);
    return world;
  }

  async start(resolution: bigint = 5n * minute): Promise<void> {
    const registry = registryOf([
      { ...raw(this.rawRetention), ...this.promise },
      ...(this.longer === null
        ? []
        : [{ ...raw(this.longer, 'longer', 9), completeSinceNanos: 0n }]),
      ...(this.dropped === null ? [] : [raw(this.dropped, droppedNamespace, 10)]),
      aggregated(resolution, this.blockSizeNanos, this.takesAll),
    ]);
    ({ database: this.database } = await openDatabase(this.folder, { registry }));
    for (const namespace of this.database.namespaces.values()) {
      for (const { id } of this.database.shards.all()) namespace.readyShards.add(id);
      // As the first look at what is past retention does.
      for (const _ of namespace.expireInSteps(realEnv.clock.nowNanos()));
    }
    const notes = await SliceNotes.open(realEnv.disk, silentLog, this.folder);
    this.aggregator = new Aggregator(this.database, notes, this);
    this.database.onDamage = (namespace, file) => {
      this.aggregator.forget(namespace, file.shard, new Set(namespace.files.blocksOf(file)));
    };
  }

  get #rawNames(): string[] {
    return this.longer === null ? ['metrics'] : ['metrics', 'longer'];
  }

  /** Another retention of the raw namespace. @param nowNanos by the retention's clock */
  keepSamples(retentionPeriodNanos: bigint, nowNanos: bigint = realEnv.clock.nowNanos()): void {
    this.rawRetention = { retentionPeriodNanos };
    const metrics = this.database.namespaces.get('metrics')!;
    metrics.update({ ...raw(this.rawRetention), ...this.promise });
    for (const _ of metrics.expireInSteps(nowNanos));
  }

  /** @param version of the batch; that of its first row when it is not said */
  async write(rows: readonly TestRow[], version?: number | 'now'): Promise<void> {
    this.written.push(...rows);
    const [first] = rows.map(({ nanos }) => nanos).sort((a, b) => (a < b ? -1 : 1));
    const options = version === 'now' ? {} : { version: version ?? Number(versionAtNanos(first!)) };
    for (const namespace of this.#rawNames) {
      const { outcomes } = await writeRows(this.database, rows, { ...options, namespace });
      assert.deepEqual([...outcomes], []);
    }
  }

  /** Rows that rules drop. */
  async drop(rows: readonly TestRow[]): Promise<void> {
    const version = Number(versionAtNanos(rows[0]!.nanos));
    const { outcomes } = await writeRows(this.database, rows, {
      version,
      namespace: droppedNamespace,
    });
    assert.deepEqual([...outcomes], []);
    this.written.push(...rows);
  }

  async flush(): Promise<void> {
    const beside = this.dropped === null ? [] : [droppedNamespace];
    await this.database.flusher.flushAll([...this.#rawNames, ...beside], never);
  }

  /** In both namespaces, as a deletion goes to all. */
  async delete(host: string, range: object): Promise<void> {
    const version = nextVersion(realEnv.clock.nowMillis() + 1, 0);
    for (const namespace of [...this.#rawNames, 'coarse']) {
      this.#sequence += 1;
      await this.database.deletions.apply({
        sequence: this.#sequence,
        namespace,
        query: { kind: 'term', field: 'host', term: host },
        ...allTime,
        version,
        createdNanos: realEnv.clock.nowNanos(),
        expiresNanos: realEnv.clock.nowNanos() + hour,
        selectors: [],
        ...range,
      });
    }
    await realEnv.clock.sleep(3, never);
  }

  /** Filesets are written without what is deleted, as the node does half a minute later. */
  async clean(): Promise<void> {
    const { deletions } = this.database;
    deletions.cleanSequence = this.#sequence;
    await deletions.rewriteDue(never);
    assert.equal(deletions.cleanedSequence, this.#sequence);
  }

  run(): Promise<void> {
    return this.aggregator.runDue(never);
  }

  /** Windows by series: ends, and the numbers of each. */
  async windows(
    startNanos: bigint = 0n,
    endNanos: bigint = 2n ** 62n,
  ): Promise<Map<string, Seen[]>> {
    const all = new Map<string, Seen[]>();
    for (const [key, rows] of await this.windowValues(startNanos, endNanos)) {
      const windows = rows.map(({ endNanos: end, value }) => {
        const window = windowOfValue(value);
        return seen({ ...window, endNanos: end, lastBits: bitsOfDouble(window.last) });
      });
      // Those of which nothing is left are passed over by readers.
      const some = windows.filter(({ rows }) => rows > 0);
      all.set(key, some);
    }
    return all;
  }

  /** As they are stored. */
  async windowValues(
    startNanos: bigint = 0n,
    endNanos: bigint = 2n ** 62n,
  ): Promise<Map<string, { readonly endNanos: bigint; readonly value: Uint8Array }[]>> {
    const { bundle } = await this.database.fetch(
      {
        namespace: 'coarse',
        placementVersion: 0,
        query: { kind: 'all' },
        shards: null,
        seriesLimit: 0,
        fetchData: true,
        startNanos,
        endNanos,
      },
      never,
    );
    const all = new Map<string, { readonly endNanos: bigint; readonly value: Uint8Array }[]>();
    for (let i = 0; i < bundle.seriesCount; i++) {
      const tags = decodeTags(
        bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
      );
      const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
      const { timestampNanos, values } = readTyped([chunks], [0n, 2n ** 62n]);
      all.set(
        tags.map(({ value }) => value).join(),
        values.map((value, at) => ({ endNanos: timestampNanos[at]!, value })),
      );
    }
    return all;
  }

  /** What they are to be, of the rows that were written and are not deleted. */
  expected(resolution: bigint = 5n * minute, untilNanos: bigint = 2n ** 62n): Map<string, Seen[]> {
    const bySeries = new Map<string, Map<bigint, number>>();
    for (const { series, nanos, value } of this.written) {
      const key = Object.values(series).join();
      const rows = bySeries.get(key) ?? new Map<bigint, number>();
      bySeries.set(key, rows.set(nanos, value));
    }
    return new Map(
      [...bySeries].map(([key, rows]) => [
        key,
        foldTwin(
          [...rows]
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([nanos, value]) => ({ nanos, bits: bitsOfDouble(value) })),
          resolution,
        )
          .filter(({ endNanos }) => endNanos < untilNanos)
          .map(seen),
      ]),
    );
  }
}

/** For which everything takes long, and how often somebody has slept by it. */
export function slowClock(): { readonly clock: Clock; readonly rests: () => number } {
  let millis = 0;
  let rests = 0;
  const clock = {
    ...realEnv.clock,
    monotonicMillis: () => (millis += 5),
    sleep: (_: number, signal: AbortSignal) => {
      rests += 1;
      return realEnv.clock.sleep(0, signal);
    },
  };
  return { clock, rests: () => rests };
}

/** An aggregator of the same folder for whose clock everything takes long, and how often it has let others have a turn. */
export async function slowAggregator(
  world: World,
): Promise<{ readonly aggregator: Aggregator; readonly rests: () => number }> {
  const { clock, rests } = slowClock();
  return { aggregator: await aggregatorBy(clock, world), rests };
}

/** An aggregator of the same folder whose monotonic clock is said here. */
export async function aggregatorAt(
  world: World,
  monotonic: { readonly millis: number },
): Promise<Aggregator> {
  return aggregatorBy({ ...realEnv.clock, monotonicMillis: () => monotonic.millis }, world);
}

async function aggregatorBy(clock: Clock, world: World): Promise<Aggregator> {
  const { log, dataFolder, store, shards, formats, namespaces } = world.database;
  const parts = { log, dataFolder, store, shards, formats, namespaces };
  const notes = await SliceNotes.open(realEnv.disk, silentLog, world.folder);
  return new Aggregator({ ...parts, env: { ...realEnv, clock } }, notes, world);
}

/** A gauge every half minute, with a row at each full window. */
export function rowsOf(host: string, fromNanos: bigint, count: number): TestRow[] {
  return Array.from({ length: count }, (_, i) => ({
    series: { __name__: 'x', host },
    nanos: fromNanos + BigInt(i) * 30n * second,
    value: (i * 7919) % 101,
  }));
}

export type Seen = Omit<FoldedWindow, 'lag' | 'lags'>;

/** What is in a window, not how it came there. */
function seen(of: Seen): Seen {
  const { endNanos, rows, others, lastBits, min, max, sum, resets, lastNumber, first } = of;
  return { endNanos, rows, others, lastBits, min, max, sum, resets, lastNumber, first };
}

/** Of series that have any. */
export const sorted = (map: ReadonlyMap<string, Seen[]>): [string, Seen[]][] =>
  [...map].filter(([, windows]) => windows.length > 0).sort(([a], [b]) => (a < b ? -1 : 1));

/**
 * A node's storage through a year: samples of two days, windows of an hour of two years, and pods that come and go. All is as
 * a node does it, on a real disk, but for the clock and the network.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KnownRules } from '#cluster/aggregation_rules/sets/follower.ts';
import { noRuleSets } from '#cluster/aggregation_rules/sets/over_time.ts';
import { blockSizeForWindows } from '#cluster/namespaces/block_size.ts';
import { type Namespace, registryOf } from '#cluster/namespaces/namespaces.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { eachFloatsOfWindows } from '#engine/aggregation/floats.ts';
import { CounterRows } from '#engine/aggregation/counter_rows.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { silentLog } from '#lib/log.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { Aggregator } from '#node/storage/aggregation/aggregator.ts';
import { SliceNotes } from '#node/storage/aggregation/notes.ts';
import type { Database } from '#node/storage/database.ts';
import { namespaceOf, never, openDatabase } from '#node/storage/database_testing.ts';
import { tick } from '#node/storage/retention/tick.ts';
import { SeededRandom } from '../../seeded_random.ts';
import { FastClock } from './fast_clock.ts';

const minuteMillis = 60_000;
const hourMillis = 60 * minuteMillis;
const dayMillis = 24 * hourMillis;
const hourNanos = 3_600_000_000_000n;
const samplesBlockNanos = 12n * hourNanos;
const seriesOfBatch = 500;
const writesAtOnce = 8;
const memoryBytesMax = 8 * 2 ** 30;
const savedName = 'year.json';
const valuesName = 'year_values.bin';
/** Series of a host, as the host metrics of TSBS have them. */
const seriesOfHost = 10;

export interface YearOptions {
  readonly folder: string;
  readonly series: number;
  readonly days: number;
  /** Part of the hosts that others take the place of each day. */
  readonly churn: number;
  readonly rowsAnHour: number;
  /** After so much time it is stopped at the end of a day, and goes on from there when it is run again in the same folder. */
  readonly minutesMax: number;
  readonly report: (line: string) => void;
}

export interface YearReport {
  readonly samples: number;
  readonly windows: number;
  readonly cpuSeconds: number;
  readonly hosts: number;
  readonly closedFilesets: number;
  readonly openFilesets: number;
  readonly seriesInIndex: number;
  readonly indexBytes: number;
  readonly cacheBytes: number;
  readonly heapAndBuffersBytes: number;
  readonly dataBytes: number;
  readonly columnsBytes: number;
  readonly indexFileBytes: number;
  readonly start: { readonly cpuSeconds: number; readonly series: number };
  readonly queries: readonly QueryReport[];
}

export interface QueryReport {
  readonly name: string;
  readonly series: number;
  readonly windows: number;
  /** The first time, and again. */
  readonly cpuMillis: readonly number[];
}

interface Group {
  readonly firstHost: number;
  /** Null before the node has been told their names. */
  references: Uint32Array | null;
  readonly values: Float64Array;
}

/** What is needed to go on, beside the database. */
interface SavedYear {
  readonly startMillis: number;
  readonly days: number;
  readonly hosts: number;
  readonly samples: number;
  readonly windows: number;
  readonly replaced: number;
  readonly cpuSeconds: number;
  readonly firstHosts: readonly number[];
}

export class Year {
  readonly #options: YearOptions;
  readonly #clock: FastClock;
  readonly #startMillis: number;
  readonly #saved: SavedYear | null;
  readonly #random: SeededRandom;
  readonly #builder = new BatchBuilder();
  readonly #groups: Group[] = [];
  #database!: Database;
  #aggregator!: Aggregator;
  #hosts = 0;
  #samples = 0;
  #windowsBefore = 0;

  constructor(options: YearOptions) {
    this.#options = options;
    this.#saved = this.#load();
    // From an hour on, so that blocks and days begin where they should.
    const start = Math.floor(Date.now() / dayMillis) * dayMillis - options.days * dayMillis;
    this.#startMillis = this.#saved?.startMillis ?? start;
    const daysDone = this.#saved?.days ?? 0;
    this.#random = new SeededRandom(1 + daysDone);
    this.#clock = new FastClock(this.#startMillis + daysDone * dayMillis);
  }

  /** @returns null when it was stopped before the end */
  async run(): Promise<YearReport | null> {
    const { series, days, churn, rowsAnHour, minutesMax, report } = this.#options;
    await this.#open();
    const groupCount = series / seriesOfBatch;
    if (this.#saved === null) for (let i = 0; i < groupCount; i++) this.#newGroup(i);
    const start = this.#startMillis;
    const [before, beganAt] = [process.cpuUsage(), performance.now()];
    const cpuSeconds = (): number => (this.#saved?.cpuSeconds ?? 0) + secondsSince(before);
    const stepMillis = hourMillis / rowsAnHour;
    let replaced = this.#saved?.replaced ?? 0;
    for (let day = this.#saved?.days ?? 0; day < days; day++) {
      for (let at = stepMillis; at <= dayMillis; at += stepMillis) {
        this.#clock.moveTo(start + day * dayMillis + at);
        await this.#write();
        if (at % (2 * hourMillis) === 0) await this.#upkeep();
      }
      await tick(this.#database);
      await tick(this.#database);
      for (let i = 0; i < Math.round(churn * groupCount); i++)
        this.#newGroup(replaced++ % groupCount);
      if (day % 10 === 9) report(this.#progress(day + 1, cpuSeconds()));
      if (performance.now() - beganAt > minutesMax * minuteMillis) {
        await this.#save(day + 1, replaced, cpuSeconds());
        return null;
      }
    }
    // What is late has come, and all windows are made.
    this.#clock.moveTo(this.#clock.nowMillis + 6 * hourMillis);
    for (let i = 0; i < 4; i++) {
      this.#clock.moveTo(this.#clock.nowMillis + hourMillis);
      await this.#upkeep();
    }
    const cpuSecondsInAll = cpuSeconds();
    rmSync(join(this.#options.folder, savedName), { force: true });
    return { ...(await this.#measured(start)), cpuSeconds: cpuSecondsInAll };
  }

  #load(): SavedYear | null {
    const { folder, series } = this.#options;
    const path = join(folder, savedName);
    if (!existsSync(path)) return null;
    const saved = JSON.parse(readFileSync(path, 'utf8')) as SavedYear;
    if (saved.firstHosts.length !== series / seriesOfBatch) {
      throw new Error(`${path} is of another number of series`);
    }
    const values = new Uint8Array(readFileSync(join(folder, valuesName)));
    for (const [i, firstHost] of saved.firstHosts.entries()) {
      const own = new Float64Array(values.buffer, 8 * seriesOfBatch * i, seriesOfBatch);
      this.#groups[i] = { firstHost, references: null, values: own.slice() };
    }
    this.#hosts = saved.hosts;
    this.#samples = saved.samples;
    this.#windowsBefore = saved.windows;
    return saved;
  }

  async #save(days: number, replaced: number, cpuSeconds: number): Promise<void> {
    await this.#database.snapshot(1, never);
    const saved: SavedYear = {
      startMillis: this.#startMillis,
      days,
      hosts: this.#hosts,
      samples: this.#samples,
      windows: this.#windows,
      replaced,
      cpuSeconds,
      firstHosts: this.#groups.map(({ firstHost }) => firstHost),
    };
    await this.#database[Symbol.asyncDispose]();
    const { folder } = this.#options;
    const all = new Float64Array(seriesOfBatch * this.#groups.length);
    for (const [i, { values }] of this.#groups.entries()) all.set(values, seriesOfBatch * i);
    writeFileSync(join(folder, valuesName), new Uint8Array(all.buffer));
    writeFileSync(join(folder, savedName), JSON.stringify(saved));
  }

  get #windows(): number {
    return this.#windowsBefore + this.#aggregator.counts.windows;
  }

  async #open(): Promise<void> {
    const resolutionNanos = hourNanos;
    const retentionPeriodNanos = 730n * 24n * hourNanos;
    const blockSizeNanos = blockSizeForWindows(resolutionNanos, retentionPeriodNanos);
    const attributes = { resolutionNanos, downsampleOptions: { all: true } };
    const plain = namespaceOf('hourly', { aggregations: [{ aggregated: true, attributes }] });
    const hourly: Namespace = {
      ...plain,
      number: 8,
      options: {
        ...plain.options,
        retentionOptions: {
          ...plain.options.retentionOptions,
          retentionPeriodNanos,
          blockSizeNanos,
        },
        indexOptions: { enabled: true, blockSizeNanos },
      },
    };
    // Blocks of half a day have as many rows of a series as filesets of two hours have at a usual scrape.
    const samples = namespaceOf('metrics');
    const metrics: Namespace = {
      ...samples,
      number: 7,
      options: {
        ...samples.options,
        retentionOptions: {
          ...samples.options.retentionOptions,
          blockSizeNanos: samplesBlockNanos,
        },
        indexOptions: { enabled: true, blockSizeNanos: samplesBlockNanos },
      },
    };
    const registry = registryOf([metrics, hourly]);
    const { env } = this.#clock;
    const options = { env, registry, sync: 'interval', memoryBytesMax } as const;
    ({ database: this.#database } = await openDatabase(this.#options.folder, options));
    for (const namespace of this.#database.namespaces.values()) {
      for (const { id } of this.#database.shards.all()) namespace.readyShards.add(id);
      for (const _ of namespace.expireInSteps(env.clock.nowNanos()));
    }
    const notes = await SliceNotes.open(env.disk, silentLog, this.#options.folder);
    const clock = this.#clock;
    const rules = {
      get known(): KnownRules {
        return { sets: noRuleSets, knownNanos: BigInt(clock.nowMillis) * 1_000_000n };
      },
    };
    this.#aggregator = new Aggregator(this.#database, notes, rules);
  }

  /** Of rows of now. */
  get #version(): number {
    return Number(versionAtNanos(BigInt(this.#clock.nowMillis) * 1_000_000n));
  }

  /** Hosts with their series, in the place of others or as new ones. */
  #newGroup(place: number): void {
    const values = Float64Array.from({ length: seriesOfBatch }, () => this.#random.below(101));
    this.#groups[place] = { firstHost: this.#hosts + 1, references: null, values };
    this.#hosts += seriesOfBatch / seriesOfHost;
  }

  async #write(): Promise<void> {
    for (let first = 0; first < this.#groups.length; first += writesAtOnce) {
      const some = this.#groups.slice(first, first + writesAtOnce);
      await Promise.all(some.map((group) => this.#writeGroup(group)));
    }
  }

  async #writeGroup(group: Group): Promise<void> {
    const { firstHost, references, values } = group;
    const builder = this.#builder;
    builder.begin(this.#version);
    const slots = new Uint32Array(seriesOfBatch);
    const generations = new Uint32Array(seriesOfBatch);
    for (let i = 0; i < seriesOfBatch; i++) {
      // A walk between 0 and 100, as TSBS' processors are used.
      values[i] = Math.min(100, Math.max(0, values[i]! + this.#random.below(11) - 5));
      if (references !== null) {
        slots[i] = references[2 * i]!;
        generations[i] = references[2 * i + 1]!;
        continue;
      }
      const tags = tagsOf(firstHost + Math.floor(i / seriesOfHost), i % seriesOfHost);
      slots[i] = builder.addSeries(tags, idSchemeCode.quoted, new Uint8Array(0));
    }
    const answer = await this.#send(slots, generations, values);
    const refused = answer.outcomes.findIndex((outcome) => outcome !== rowOutcome.written);
    if (refused >= 0) throw new Error(`a row was refused: ${answer.outcomes[refused]}`);
    if (references === null) group.references = answer.references;
  }

  #send(slots: Uint32Array, generations: Uint32Array, values: Float64Array) {
    const timestamps = new BigInt64Array(seriesOfBatch).fill(BigInt(this.#clock.nowMillis));
    this.#builder.setRows(seriesOfBatch, slots, generations, timestamps, 1_000_000, values);
    this.#samples += seriesOfBatch;
    const database = this.#database;
    return database.write(
      {
        namespace: 'metrics',
        namespaceNumber: 7,
        placementVersion: database.shards.version,
        namespacesRevision: 0,
        referenceEpoch: database.referenceEpoch,
        batch: this.#builder.finish(),
      },
      never,
    );
  }

  /** As a node does it every few seconds. */
  async #upkeep(): Promise<void> {
    const database = this.#database;
    // What was quiet for ten seconds is flushed, and late rows after a minute.
    for (let i = 0; i < 2; i++) {
      await database.flusher.runDue(never);
      this.#clock.moveTo(this.#clock.nowMillis + minuteMillis + 1);
    }
    await database.flusher.runDue(never);
    await this.#aggregator.runDue(never);
    await database.flusher.runDue(never);
    if (await database.snapshots.isDue()) await database.snapshot(1, never);
    const { failures } = this.#aggregator.counts;
    if (failures > 0) throw new Error(`${failures} slices could not be made`);
  }

  #progress(day: number, cpuSeconds: number): string {
    const { index, files } = this.#hourly;
    const closed = files.all(null).filter(({ isClosed }) => isClosed).length;
    const megabytes = Math.round(index.memoryBytes / 2 ** 20);
    return `day ${day}: ${Math.round(cpuSeconds)} CPU s, ${index.seriesCount} series in the index (${megabytes} MiB), ${closed} of ${files.all(null).length} filesets closed`;
  }

  get #hourly() {
    return this.#database.namespaces.get('hourly')!;
  }

  async #measured(startMillis: number): Promise<Omit<YearReport, 'cpuSeconds'>> {
    const queries = await this.#queries(startMillis);
    const { index, files } = this.#hourly;
    const all = files.all(null);
    const closed = all.filter(({ isClosed }) => isClosed).length;
    const sizes = sizesOf(join(this.#options.folder, 'data', 'hourly'));
    globalThis.gc?.();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    const report = {
      samples: this.#samples,
      windows: this.#windows,
      hosts: this.#hosts,
      closedFilesets: closed,
      openFilesets: all.length - closed,
      seriesInIndex: index.seriesCount,
      indexBytes: index.memoryBytes,
      cacheBytes: this.#database.fileCache.memoryBytes,
      heapAndBuffersBytes: heapUsed + arrayBuffers,
      dataBytes: sizes.get('data') ?? 0,
      columnsBytes: sizes.get('columns') ?? 0,
      indexFileBytes: sizes.get('index') ?? 0,
      queries,
    };
    await this.#database.snapshot(1, never);
    await this.#database[Symbol.asyncDispose]();
    const before = process.cpuUsage();
    await this.#open();
    const start = { cpuSeconds: secondsSince(before), series: this.#hourly.index.seriesCount };
    await this.#database[Symbol.asyncDispose]();
    return { ...report, start };
  }

  async #queries(startMillis: number): Promise<QueryReport[]> {
    const endMillis = this.#clock.nowMillis;
    const metric = (field: number) =>
      ({ kind: 'term', field: '__name__', term: `cpu_${field}` }) as const;
    // Hosts of one rack are some of all that ever were.
    const rack = { kind: 'term', field: 'rack', term: '7' } as const;
    const asked = [
      ['a year of a host that is there now', startMillis, [hostIs(this.#hosts)]],
      ['a year of one metric of a rack', startMillis, [metric(3), rack]],
      ['a week of one metric of a rack', endMillis - 7 * dayMillis, [metric(3), rack]],
    ] as const;
    const reports: QueryReport[] = [];
    for (const [name, fromMillis, queries] of asked) {
      const cpuMillis: number[] = [];
      let [series, windows] = [0, 0];
      for (let time = 0; time < 3; time++) {
        const before = process.cpuUsage();
        [series, windows] = await this.#read(fromMillis, endMillis, queries);
        cpuMillis.push(Math.round(1000 * secondsSince(before)));
      }
      reports.push({ name, series, windows, cpuMillis });
    }
    return reports;
  }

  async #read(
    fromMillis: number,
    toMillis: number,
    queries: readonly { readonly kind: 'term'; readonly field: string; readonly term: string }[],
  ): Promise<[series: number, windows: number]> {
    const { bundle } = await this.#database.fetch(
      {
        namespace: 'hourly',
        placementVersion: 0,
        query: { kind: 'conjunction', queries },
        shards: null,
        seriesLimit: 0,
        fetchData: true,
        startNanos: BigInt(fromMillis) * 1_000_000n,
        endNanos: BigInt(toMillis) * 1_000_000n,
      },
      never,
    );
    let windows = 0;
    for (let i = 0; i < bundle.seriesCount; i++) {
      const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
      const counter = new CounterRows(hourNanos);
      const { typed } = apart([chunks]);
      for (const part of eachFloatsOfWindows(typed, 'max', allTimes, counter)) {
        windows += readFloats([part], allTimes).values.length;
      }
    }
    return [bundle.seriesCount, windows];
  }
}

const hostIs = (host: number) =>
  ({ kind: 'term', field: 'hostname', term: `host_${host}` }) as const;

function tagsOf(host: number, field: number): Uint8Array {
  return encodeTags([
    { name: '__name__', value: `cpu_${field}` },
    { name: 'arch', value: ['x64', 'x86'][host % 2]! },
    { name: 'datacenter', value: `eu-west-${host % 9}` },
    { name: 'hostname', value: `host_${host}` },
    { name: 'os', value: `Ubuntu${16 + (host % 3)}` },
    { name: 'rack', value: String(host % 200) },
    { name: 'region', value: `region-${host % 9}` },
    { name: 'service', value: String(host % 20) },
    { name: 'service_environment', value: ['production', 'staging', 'test'][host % 3]! },
    { name: 'service_version', value: String(host % 2) },
    { name: 'team', value: ['CHI', 'LON', 'NYC', 'SF'][host % 4]! },
  ]);
}

function secondsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** Bytes by the part of filesets. */
function sizesOf(folder: string): Map<string, number> {
  const sizes = new Map<string, number>();
  if (!existsSync(folder)) return sizes;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const part = /-(data|index|columns)\.db$/.exec(entry.name)?.[1];
    if (part === undefined) continue;
    const bytes = statSync(join(entry.parentPath, entry.name)).size;
    sizes.set(part, (sizes.get(part) ?? 0) + bytes);
  }
  return sizes;
}

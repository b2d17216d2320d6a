/** Rows of which rollups are made: samples and what rules drop, as a majority of replicas has them, a part of the shards at a time. */
import { droppedNamespace } from '../../namespaces/companions.ts';
import { isReady, type Namespace, rowsSinceOf } from '../../namespaces/namespaces.ts';
import {
  type ReadSamples,
  readySamples,
  samplesParts,
  samplesSince,
} from '../../namespaces/samples.ts';
import type { PeerClocks } from '../../node/peer_clocks.ts';
import { mergeBundles } from '../../session/bundle_merge.ts';
import type { Session } from '../../session/session.ts';
import type { Topology } from '../../topology/topology.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { apart, hasTyped } from '#engine/store/typed_chunks.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { Turns } from '#lib/turns/turns.ts';

/** What is read at once, tags and all; more is read in smaller parts. */
const bytesAtOnceMax = 128 * 1024 * 1024;
const partsFirst = 4;
/** Parts none of which has more than this of what may be read at once are half as many the next time. */
const smallPart = 0.25;
/** About what it takes to match a series and to add its rows up, in units of work (lib/turns/turns.ts). */
const seriesUnits = 5_000;

export interface RowsParts {
  readonly session: Pick<Session, 'fetch'>;
  readonly topology: Pick<Topology, 'view'>;
  readonly clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  /** Which rows are past retention is told by this. */
  readonly time: Pick<PeerClocks, 'earliestNanos'>;
}

/** Of the shards that are meant, one of some parts. */
interface PartOfShards {
  readonly part: number;
  readonly divided: number;
  /** Null for all. */
  readonly shards: ReadonlySet<number> | null;
}

export interface RowsRange {
  readonly startNanos: bigint;
  /** Exclusive. */
  readonly endNanos: bigint;
}

/** Floats of a series, ascending; they hold until others are asked for. */
export interface FloatsOfSeries {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
}

export class RollupRows {
  readonly #parts: RowsParts;
  #partCount = partsFirst;

  constructor(parts: RowsParts) {
    this.#parts = parts;
  }

  /**
   * Since when all rows are kept that rollups may be made of, of samples in one namespace at least, and those that are dropped;
   * null while there is no namespace of samples.
   */
  get keptFromNanos(): bigint | null {
    const { topology, time } = this.#parts;
    const { namespaces } = topology.view;
    const samples = readySamples(namespaces).map(readOf);
    if (samples.length === 0) return null;
    const nowNanos = time.earliestNanos();
    const since = samplesSince(samples, nowNanos);
    const dropped = namespaces.get(droppedNamespace);
    if (dropped === undefined || !isReady(dropped)) return since;
    const droppedSince = samplesSince([readOf(dropped)], nowNanos);
    return droppedSince > since ? droppedSince : since;
  }

  /**
   * Each series that the query finds, once.
   * @param visit told a series' canonical tags, and how to have its rows, for as long as it runs
   * @throws {TsdbError} as a read of the session: nothing is left out
   */
  async each(
    query: IndexQuery,
    range: RowsRange,
    visit: (tags: Uint8Array, rows: () => FloatsOfSeries) => void,
    signal: AbortSignal,
    shards: ReadonlySet<number> | null = null,
  ): Promise<void> {
    const kept = this.#keptOf(range);
    let divided = this.#partCount;
    let bytesMost = 0;
    for (let part = 0; part < divided; part++) {
      let bundle: SeriesBundle;
      try {
        bundle = await this.#read(query, kept, { part, divided, shards }, signal);
      } catch (error) {
        const isTooMuch = error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED';
        // A shard is not divided. Nodes that have too much to do say the same, however little is asked of them.
        if (!isTooMuch || divided >= this.#shardCount(shards)) throw error;
        // The parts that are done are twice as many smaller ones.
        this.#partCount = divided *= 2;
        part = 2 * part - 1;
        continue;
      }
      bytesMost = Math.max(bytesMost, bundle.tagsData.length + bundle.chunkData.length);
      await this.#visit(bundle, kept, visit, signal);
    }
    const areSmall = bytesMost < smallPart * bytesAtOnceMax;
    this.#partCount = areSmall ? Math.max(partsFirst, divided / 2) : divided;
  }

  #shardCount(shards: ReadonlySet<number> | null): number {
    return shards?.size ?? this.#parts.topology.view.placement?.numShards ?? 0;
  }

  /**
   * Without the time of which rows are gone: those that are left of it say nothing, and may not be there to be read. No window
   * that is made begins in it, only what is looked back at.
   */
  #keptOf(range: RowsRange): RowsRange {
    const startNanos = this.keptFromNanos;
    const isCut =
      startNanos !== null && startNanos > range.startNanos && startNanos < range.endNanos;
    return isCut ? { ...range, startNanos } : range;
  }

  async #read(
    query: IndexQuery,
    range: RowsRange,
    { part, divided, shards }: PartOfShards,
    signal: AbortSignal,
  ): Promise<SeriesBundle> {
    const { session, topology, clock, time } = this.#parts;
    const { namespaces } = topology.view;
    const samples = readySamples(namespaces).map(readOf);
    if (samples.length === 0) {
      throw new TsdbError('UNAVAILABLE', 'there is no namespace of samples');
    }
    const asked = samplesParts(samples, range, time.earliestNanos()).map(
      ({ namespace, startNanos, endNanos }) => ({
        namespace: namespace.name,
        startNanos,
        endNanos,
      }),
    );
    const dropped = namespaces.get(droppedNamespace);
    if (dropped !== undefined && isReady(dropped)) {
      asked.push({ namespace: droppedNamespace, ...range });
    }
    // Twice as many parts divide each in two.
    const shardsOf = (numShards: number): Uint32Array => {
      const all = Array.from({ length: numShards }, (_, shard) => shard);
      const asked = shards === null ? all : all.filter((shard) => shards.has(shard));
      return Uint32Array.from(
        asked.filter((_, at) => Math.floor((at * divided) / asked.length) === part),
      );
    };
    const results = await Promise.all(
      asked.map((one) =>
        session.fetch(
          {
            ...one,
            query,
            seriesLimit: 0,
            bytesLimit: bytesAtOnceMax,
            requireExhaustive: true,
            fetchData: true,
            shardsOf,
            consistency: 'majority',
          },
          signal,
        ),
      ),
    );
    const limits = { seriesMax: 0, bytesMax: 2 * bytesAtOnceMax };
    const work = Turns.of(clock).begin(signal);
    const bundles = results.map(({ bundle }) => bundle);
    return (await mergeBundles(bundles, limits, work, unlimitedReadBytes)).bundle;
  }

  async #visit(
    bundle: SeriesBundle,
    { startNanos, endNanos }: RowsRange,
    visit: (tags: Uint8Array, rows: () => FloatsOfSeries) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { seriesCount, tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
    const work = Turns.of(this.#parts.clock).begin(signal);
    using decoder = new Decoder();
    for (let i = 0; i < seriesCount; i++) {
      const tags = tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!);
      visit(tags, () => {
        const chunks = [chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!)];
        if (hasTyped(chunks)) return readFloats(apart(chunks).floats, [startNanos, endNanos]);
        const count = decoder.decode(bundle, i, startNanos, endNanos);
        return {
          timestampNanos: decoder.timestampNanos.subarray(0, count),
          values: decoder.values.subarray(0, count),
        };
      });
      if (work.spend(seriesUnits)) await work.pause();
    }
  }
}

function readOf(namespace: Namespace): ReadSamples & { readonly name: string } {
  const { name, options } = namespace;
  const retentionNanos = options.retentionOptions.retentionPeriodNanos;
  return { ...rowsSinceOf(namespace), name, retentionNanos };
}

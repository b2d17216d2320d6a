/**
 * Requests that read: admitted, answered from index, memory and filesets, and told for which shards
 * the answer is whole.
 */
import { namesEarlier } from '#cluster/namespaces/numbers.ts';
import {
  type AggregateRequest,
  type AggregateResponse,
  type FetchByIdRequest,
  type FetchRequest,
  heldBlocksMax,
  type FetchResponse,
  type OfNamespace,
  type StatisticsRequest,
  type StatisticsResponse,
  type StreamShardPage,
  type StreamShardRequest,
} from '#cluster/node/service.ts';
import type { Aside, Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { type Delivery, readHeld } from '#lib/read_memory/delivery.ts';
import type { ReadMemory, ReadReservation } from '#lib/read_memory/read_memory.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { Admission } from '../admission/admission.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { ShardTable } from '../namespace/shards.ts';
import type { Sequencer } from '../write/sequencer.ts';
import { entriesOfIds, entriesOfQuery, withClosed } from './closed_reads.ts';
import { withClosedTags } from './closed_tags.ts';
import { bundleOf, type ReadParts, WholeShards } from './read.ts';
import { statisticsResponse } from './statistics.ts';
import type { BlockWalkParts } from './block_walk.ts';
import { streamPages } from './stream.ts';

/** What it takes to answer. */
export interface ReadsParts extends ReadParts, BlockWalkParts {
  readonly clock: Clock;
  readonly aside: Aside;
  readonly shards: ShardTable;
  readonly admission: Admission;
  readonly readMemory: ReadMemory;
  readonly sequencer: Sequencer;
  readonly deletions: {
    /** Waits until this node has applied a deletion that the caller has applied. */
    whenApplied(sequence: number, signal: AbortSignal): Promise<void>;
    /** As in `Deletions`. */
    hasAll(name: string, versions: readonly number[]): boolean;
  };
  /**
   * The namespace that is named, or a later one of the name.
   * @throws {TsdbError} NOT_FOUND, UNAVAILABLE
   */
  readonly namespaceOf: (request: OfNamespace, signal: AbortSignal) => Promise<NamespaceState>;
}

/** Shards that are streamed at a time: each stream holds the IDs of a block's series. */
export const streamsMax = 128;

/** Series that one request may name: they are looked up in one go. */
const idsMax = 50_000;

/** Bytes of a character of names and values, and of the text around it. */
const characterBytes = 2;
const textBytesMin = 32;

function textBytes(tags: AggregateResponse['tags']): number {
  let bytes = 0;
  for (const { name, values } of tags) {
    bytes += characterBytes * name.length + textBytesMin;
    for (const value of values) bytes += characterBytes * value.length + textBytesMin;
  }
  return bytes;
}

export class Reads {
  readonly #parts: ReadsParts;
  /** Shards that are streamed just now. */
  #streams = 0;
  /** Counts of this process, for metrics. */
  readonly counts: { fetches: number } = { fetches: 0 };

  constructor(parts: ReadsParts) {
    this.#parts = parts;
  }

  async fetch(
    request: FetchRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<FetchResponse> {
    const { admission, shards, queries, namespaceOf } = this.#parts;
    this.counts.fetches += 1;
    return this.#admitted(signal, delivery, async (reservation) => {
      const namespace = await namespaceOf(request, signal);
      const { placementVersion } = request;
      await admission.placementVersion(placementVersion, signal);
      const whole = new WholeShards(namespace, shards, request, request.shards, placementVersion);
      const { truncations } = namespace;
      const limits = { limit: request.seriesLimit, shards: shards.served(request.shards) };
      const range = request.fetchData ? request : null;
      const { index } = namespace;
      const turning = this.#turning(signal);
      if (turning.work.isLateAgain()) await turning.work.pause();
      const found = await index.inTurns(turning, (attempts) => {
        const { slots, exhaustive } = index.query(request.query, request, limits, attempts);
        if (range === null) queries.add('metadata', slots.length);
        else queries.add('seriesBlocks', slots.length * namespace.blockCount(range));
        const read = bundleOf(this.#parts, namespace, slots, range, reservation, turning.work);
        return { exhaustive, read };
      });
      const open = await found.read;
      const closed = { namespace, range: request, shards: limits.shards, truncations };
      const { bundle, exhaustive } = await withClosed(
        this.#parts,
        closed,
        open,
        () => entriesOfQuery(request.query, turning),
        { limit: request.seriesLimit, fetchData: request.fetchData },
        reservation,
        turning,
      );
      return { bundle, exhaustive: found.exhaustive && exhaustive, shards: whole.atEnd() };
    });
  }

  async fetchById(
    request: FetchByIdRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<FetchResponse> {
    const { admission, shards, queries, namespaceOf } = this.#parts;
    this.counts.fetches += 1;
    return this.#admitted(signal, delivery, async (reservation) => {
      const namespace = await namespaceOf(request, signal);
      const { placementVersion } = request;
      await admission.placementVersion(placementVersion, signal);
      const whole = new WholeShards(namespace, shards, request, null, placementVersion);
      const { truncations } = namespace;
      const turning = this.#turning(signal);
      const { work } = turning;
      if (work.isLateAgain()) await work.pause();
      if (request.ids.length > idsMax) {
        throw badRequest(`cannot read: ids are more than ${idsMax}: ${request.ids.length}`);
      }
      // In one go: a slot may be another series' after a wait.
      const found = new Set<number>();
      for (const id of request.ids) {
        const slot = namespace.index.findById(id);
        if (slot === -1) continue;
        if (!shards.hasOthers || shards.get(namespace.index.shard(slot)) !== undefined) {
          found.add(slot);
        }
      }
      const slots = Uint32Array.from(found).sort();
      queries.add('seriesBlocks', slots.length * namespace.blockCount(request));
      const open = await bundleOf(this.#parts, namespace, slots, request, reservation, work);
      const closed = { namespace, range: request, shards: shards.served(null), truncations };
      const { bundle } = await withClosed(
        this.#parts,
        closed,
        open,
        async () => entriesOfIds(request.ids, shards.shardCount, turning),
        { limit: 0, fetchData: true },
        reservation,
        turning,
      );
      return { bundle, exhaustive: true, shards: whole.atEnd() };
    });
  }

  async aggregate(
    request: AggregateRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<AggregateResponse> {
    const { admission, shards, queries, namespaceOf } = this.#parts;
    return this.#admitted(signal, delivery, async (reservation) => {
      const namespace = await namespaceOf(request, signal);
      const { placementVersion } = request;
      await admission.placementVersion(placementVersion, signal);
      const whole = new WholeShards(namespace, shards, request, null, placementVersion);
      const { truncations } = namespace;
      const { tagNames, namesOnly, joined = false, limit } = request;
      const turning = this.#turning(signal);
      if (turning.work.isLateAgain()) await turning.work.pause();
      const served = shards.served(null);
      const open = await namespace.index.aggregateInTurns(
        request.query,
        request,
        { tagNames, namesOnly, joined, limit, shards: served },
        turning,
      );
      const closed = { namespace, range: request, shards: served, truncations };
      const { tags, exhaustive } = await withClosedTags(
        closed,
        request,
        open,
        reservation,
        turning,
      );
      const read = tags.reduce((sum, { values }) => sum + 1 + values.length, 0);
      queries.add('metadata', read);
      await reservation.growTo(textBytes(tags), signal);
      reservation.shrinkTo(textBytes(tags));
      return { tags, exhaustive, shards: whole.atEnd() };
    });
  }

  #turning(signal: AbortSignal): Turning {
    const { clock, aside } = this.#parts;
    return { work: Turns.of(clock).begin(signal), aside };
  }

  /** Reads as many at a time as limits and memory allow. */
  #admitted<T>(
    signal: AbortSignal,
    delivery: Delivery,
    read: (reservation: ReadReservation) => Promise<T>,
  ): Promise<T> {
    const { admission, readMemory } = this.#parts;
    return admission.limited('reads', () => readHeld(readMemory, delivery, signal, read));
  }

  async statistics(request: StatisticsRequest, signal: AbortSignal): Promise<StatisticsResponse> {
    const { admission, shards, store, clock, namespaceOf } = this.#parts;
    return admission.limited('reads', async () => {
      const namespace = await namespaceOf(request, signal);
      await admission.placementVersion(request.placementVersion, signal);
      // Each shard is asked of one replica only.
      const whole = new WholeShards(namespace, shards, null, request.shards, 0).atEnd();
      const served = { ...request, shards: shards.served(request.shards) };
      const work = Turns.of(clock).begin(signal);
      return statisticsResponse(namespace, store, served, whole, work);
    });
  }

  async *streamShard(
    request: StreamShardRequest,
    signal: AbortSignal,
  ): AsyncGenerator<StreamShardPage, void, undefined> {
    const { admission, shards, deletions, sequencer, namespaceOf } = this.#parts;
    const namespace = await namespaceOf(request, signal);
    if (namesEarlier(request, namespace.definition)) {
      const reason = `cannot stream: namespace was made again: ${namespace.name}`;
      throw new TsdbError('UNAVAILABLE', reason);
    }
    shards.checkCounts();
    await admission.placementVersion(request.placementVersion, signal);
    await deletions.whenApplied(request.deletionSequence ?? 0, signal);
    if (!deletions.hasAll(namespace.name, request.deletionVersions ?? [])) {
      const reason = `cannot stream: a deletion is not applied here yet: ${namespace.name}`;
      throw new TsdbError('UNAVAILABLE', reason);
    }
    const shard = shards.get(request.shard);
    const { damagedToo } = request;
    if (shard === undefined || (shard.state === 'INITIALIZING' && !damagedToo)) {
      throw new TsdbError(
        'UNAVAILABLE',
        `cannot stream: shard is not available on this node: ${request.shard}`,
      );
    }
    const { readyShards } = namespace;
    const { next } = request;
    const isWanted = wantedBlocks(request);
    const losses = readyShards.losses(request.shard);
    if (!readyShards.isHere(request.shard) && !damagedToo) {
      throw new TsdbError('UNAVAILABLE', `cannot stream: shard is bootstrapping: ${request.shard}`);
    }
    if (!damagedToo && !readyShards.hasWanted(request.shard, isWanted)) {
      const reason = `cannot stream: blocks are damaged here, too: shard ${request.shard}`;
      throw new TsdbError('CONFLICT', reason);
    }
    if (this.#streams >= streamsMax) {
      const reason = `cannot stream: as many shards are streamed as may be at a time: ${streamsMax}`;
      throw new TsdbError('RESOURCE_EXHAUSTED', reason);
    }
    this.#streams += 1;
    try {
      // Writes of older placements that were taken before are applied when this step is done.
      await sequencer.exclusive(() => {});
      const wanted = { isWanted, blocksMax: next?.blocksMax ?? 0 };
      const work = Turns.of(this.#parts.clock).begin(signal, 'stream');
      yield* streamPages(this.#parts, namespace, request.shard, wanted, work);
    } finally {
      this.#streams -= 1;
    }
    // What was found damaged on the way, or left this node, is missing in the pages.
    const isAll = damagedToo
      ? shards.get(request.shard) !== undefined
      : readyShards.losses(request.shard) === losses;
    if (!isAll) {
      const reason = `cannot stream: rows of the shard were lost meanwhile: ${request.shard}`;
      throw new TsdbError('UNAVAILABLE', reason);
    }
  }
}

/** Tells the starts of the blocks that a peer asks for. */
function wantedBlocks({
  blockStartsNanos,
  next,
}: StreamShardRequest): (blockStartNanos: bigint) => boolean {
  const only = blockStartsNanos.length === 0 ? null : new Set(blockStartsNanos);
  if (next === undefined) return (start) => only === null || only.has(start);
  const { fromNanos, heldStartsNanos } = next;
  if (heldStartsNanos.length > heldBlocksMax) {
    throw badRequest(
      `cannot stream: next.held_starts_nanos are more than ${heldBlocksMax}: ${heldStartsNanos.length}`,
    );
  }
  const held = new Set(heldStartsNanos);
  return (start) => start >= fromNanos && !held.has(start) && (only === null || only.has(start));
}

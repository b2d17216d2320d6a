/**
 * Takes a shard from its peers: their streams, each sorted by block and ID, are merged into
 * filesets. Their data stay on disk, their series enter the index.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import {
  heldBlocksMax,
  type NodeService,
  type StreamShardPage,
  type StreamShardRequest,
} from '#cluster/node/service.ts';
import { type ChunkHeader, chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import { contentsOf } from '#engine/store/read/chunk_contents.ts';
import type { Clock } from '#lib/env/env.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { checkedId, copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import type { TakenAs } from '../persist/fileset/format.ts';
import type { Deletions } from '../storage/deletions/deletions.ts';
import type { Pace } from '../storage/flush/pace.ts';
import {
  type VolumeParts,
  type VolumeSeries,
  type VolumeSource,
  writeVolume,
} from '../storage/flush/volume.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';

/** A donor that takes longer for a page is given up. */
const pageMillisMax = 30_000;
/** A node that is killed on the way fetches no more than these of a shard again. */
const blocksAtOnce = 1;

/** What it takes to take a shard from peers. */
export interface PeersParts extends VolumeParts {
  readonly deletions: Pick<Deletions, 'appliedSequence' | 'applying' | 'versionsOf'>;
  /** As in `Database`. */
  readonly versionNow: number;
  /** As `Database.noteFiles`. */
  noteFiles(blockEndNanos: bigint | null, versionMax?: number): void;
}

/** Gives pages of a peer, sorted by block and ID. */
export type PeerStream = (signal: AbortSignal) => AsyncIterable<StreamShardPage>;

export interface PeersReport {
  /** Blocks that came. */
  blocks: number;
  /** Filesets that were written for them: none where a block had all of it already. */
  filesets: number;
  series: number;
  bytes: number;
}

/** Of a stream that ends after some blocks. */
interface LimitedReport extends PeersReport {
  /** There may be more blocks, all of which start here or later; null when these were all. */
  readonly moreFromNanos: bigint | null;
  /** A donor gave all that it has. */
  readonly isLimitIgnored: boolean;
}

/** What a donor has given. */
interface Given {
  /** But for those that are passed over. */
  blocks: number;
  lastStartNanos: bigint | null;
  /** It gave what it was not asked for, as one of a former release does. */
  givesAll: boolean;
  /** Its stream has ended, and so lacks nothing. */
  isOver: boolean;
}

/** A series of a stream in one block. */
interface StreamedSeries {
  readonly blockStartNanos: bigint;
  readonly id: Uint8Array;
  readonly name: SeriesName;
  readonly chunks: Uint8Array;
}

/**
 * Streams a shard of a namespace from all of the donors.
 *
 * @param onlyBlocks take only these blocks, one at least; null for all
 * @param damagedToo also what donors have of blocks that are damaged there
 * @throws {TsdbError} UNAVAILABLE, RESOURCE_EXHAUSTED when memory has no room for the series, and
 *   what the donors reject with: nothing half-done counts, begin again
 */
export async function bootstrapFromPeers(
  parts: PeersParts,
  namespace: NamespaceState,
  shard: number,
  donors: readonly NodeService[],
  onlyBlocks: ReadonlySet<bigint> | null,
  damagedToo: boolean,
  signal: AbortSignal,
): Promise<PeersReport> {
  const blockStartsNanos = [...(onlyBlocks ?? [])];
  const request = { ...requestOf(parts, namespace, shard), blockStartsNanos, damagedToo };
  const streams = streamsOf(donors, request);
  return mergeFromPeers(parts, namespace, shard, { streams, onlyBlocks }, signal);
}

function requestOf(
  parts: PeersParts,
  namespace: NamespaceState,
  shard: number,
): Omit<StreamShardRequest, 'blockStartsNanos' | 'damagedToo'> {
  return {
    namespace: namespace.name,
    namespaceNumber: namespaceNumber(namespace.definition),
    shard,
    placementVersion: parts.shards.version,
    deletionSequence: parts.deletions.appliedSequence,
    deletionVersions: parts.deletions.versionsOf(namespace.name),
  };
}

function streamsOf(donors: readonly NodeService[], request: StreamShardRequest): PeerStream[] {
  return donors.map((donor) => (stop) => donor.streamShard(request, stop));
}

/**
 * Takes a shard from donors that have all of it. Each block is in a fileset, on disk, before the
 * next one is asked for.
 *
 * @param options.held starts of blocks that are here as the donors gave them before; not asked for
 * @param options.takenAs noted in the filesets that are written, where donors gave a block alone;
 *   null for nothing
 * @throws {TsdbError} as `bootstrapFromPeers`; blocks that were written before are here
 */
export async function takeShard(
  parts: PeersParts,
  namespace: NamespaceState,
  shard: number,
  donors: readonly NodeService[],
  options: { readonly held: ReadonlySet<bigint>; readonly takenAs: TakenAs | null },
  signal: AbortSignal,
): Promise<PeersReport> {
  const total: PeersReport = { blocks: 0, filesets: 0, series: 0, bytes: 0 };
  const takenAs = options.takenAs ?? undefined;
  // Others come again: who is not told of a block takes it for one of those that were asked for.
  const held = new Set([...options.held].slice(0, heldBlocksMax));
  let fromNanos = -(2n ** 63n);
  let blocksMax = blocksAtOnce;
  const { truncations } = namespace;
  for (;;) {
    const heldStartsNanos = [...held].filter((start) => start >= fromNanos);
    const request = {
      ...requestOf(parts, namespace, shard),
      blockStartsNanos: [],
      damagedToo: false,
      next: { fromNanos, heldStartsNanos, blocksMax },
    };
    const passesOver = (start: bigint) => start < fromNanos || held.has(start);
    const streams = streamsOf(donors, request);
    const taking = { streams, passesOver, blocksMax, takenAs };
    const report = await mergeLimited(parts, namespace, shard, taking, signal);
    total.blocks += report.blocks;
    total.filesets += report.filesets;
    total.series += report.series;
    total.bytes += report.bytes;
    if (namespace.truncations !== truncations) throw truncatedMeanwhile(namespace);
    if (report.moreFromNanos === null) return total;
    fromNanos = report.moreFromNanos;
    if (report.isLimitIgnored) blocksMax = 0;
  }
}

/**
 * Merges what peers stream into filesets of a shard. They have applied the deletions that this node
 * has applied when it is called.
 *
 * @param options.onlyBlocks others are passed over; null for none
 * @param options.pace of what is copied from the filesets that are there
 * @throws {TsdbError} as `bootstrapFromPeers`
 */
export async function mergeFromPeers(
  parts: PeersParts,
  namespace: NamespaceState,
  shard: number,
  options: {
    readonly streams: readonly PeerStream[];
    readonly onlyBlocks: ReadonlySet<bigint> | null;
    readonly pace?: Pace;
  },
  signal: AbortSignal,
): Promise<PeersReport> {
  const { streams, onlyBlocks, pace } = options;
  // A donor of an older version gives all that it has.
  const passesOver = (start: bigint) => onlyBlocks?.has(start) === false;
  const merging = { streams, passesOver, blocksMax: 0, pace };
  return mergeLimited(parts, namespace, shard, merging, signal);
}

/** @param options.blocksMax after which each of the streams ends; 0 when they end with the shard */
async function mergeLimited(
  parts: PeersParts,
  namespace: NamespaceState,
  shard: number,
  options: {
    readonly streams: readonly PeerStream[];
    readonly passesOver: (blockStartNanos: bigint) => boolean;
    readonly blocksMax: number;
    readonly takenAs?: TakenAs | undefined;
    readonly pace?: Pace | undefined;
  },
  signal: AbortSignal,
): Promise<LimitedReport> {
  const { passesOver, blocksMax, takenAs, pace } = options;
  // It counts among those of this node already, and the donors are not asked to have applied it.
  if (parts.deletions.applying?.namespace === namespace.name) {
    throw new TsdbError('UNAVAILABLE', `series are being deleted: ${namespace.name}`);
  }
  // What is deleted from here on, the donors may have streamed before.
  const { versionMax } = namespace.tombstones;
  const report: PeersReport = { blocks: 0, filesets: 0, series: 0, bytes: 0 };
  const { truncations } = namespace;
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const { clock } = parts.env;
  const given: Given[] = [];
  const streams = options.streams.map((stream) => {
    const one: Given = { blocks: 0, lastStartNanos: null, givesAll: false, isOver: false };
    given.push(one);
    return counted(seriesOf(pagesOf(stream, clock, either), namespace), one, options);
  });
  // Who ended at the limit may have rows of the blocks that others still give.
  const isAtLimit = ({ isOver, givesAll, blocks }: Given) =>
    isOver && !givesAll && blocksMax > 0 && blocks === blocksMax;
  const isCutBefore = (start: bigint) =>
    given.some((one) => isAtLimit(one) && one.lastStartNanos! < start);
  let moreFromNanos: bigint | null = null;
  const merged = new PeekedStream(mergeStreams(streams));
  try {
    for (let first = await merged.peek(); first !== null; first = await merged.peek()) {
      const { blockStartNanos } = first;
      if (isCutBefore(blockStartNanos)) break;
      const source = new BlockSource(merged, blockStartNanos, parts.versionNow, (names) =>
        makeSlots(namespace, names, truncations),
      );
      moreFromNanos = blockStartNanos + namespace.blockSizeNanos;
      if (passesOver(blockStartNanos)) {
        await source.passOver();
        continue;
      }
      const written = await namespace.files.write(shard, (dropped) => {
        // Whoever drops the shard must not wait for a peer.
        const end = () => stop.abort(dropped.reason);
        dropped.addEventListener('abort', end, { once: true });
        const volume = {
          namespace,
          shard,
          blockStartNanos,
          source: 'peers',
          deletionVersion: versionMax,
          // A donor may find out at the end that it lacks something.
          takenAs: () => (given.every(({ isOver }) => isOver) ? takenAs : undefined),
          onSafe: () => {
            markLive(namespace, source, truncations);
            parts.noteFiles(blockStartNanos + namespace.blockSizeNanos, source.versionMax);
          },
          ...(pace === undefined ? {} : { pace }),
        } as const;
        return writeVolume(parts, volume, source, AbortSignal.any([either, dropped])).finally(() =>
          dropped.removeEventListener('abort', end),
        );
      });
      report.blocks += 1;
      report.filesets += written.volumes;
      report.series += written.series;
      report.bytes += written.bytes;
    }
  } finally {
    await merged.close();
  }
  if (namespace.truncations !== truncations) throw truncatedMeanwhile(namespace);
  return {
    ...report,
    moreFromNanos: given.some(isAtLimit) ? moreFromNanos : null,
    isLimitIgnored: given.some(({ givesAll }) => givesAll),
  };
}

/** The same, with what was given noted. */
async function* counted(
  stream: AsyncGenerator<StreamedSeries, void, undefined>,
  given: Given,
  {
    passesOver,
    blocksMax,
  }: { readonly passesOver: (start: bigint) => boolean; readonly blocksMax: number },
): AsyncGenerator<StreamedSeries, void, undefined> {
  for await (const series of stream) {
    const { blockStartNanos } = series;
    if (blockStartNanos !== given.lastStartNanos) {
      const isPassedOver = passesOver(blockStartNanos);
      if (!isPassedOver) given.blocks += 1;
      if (isPassedOver || (blocksMax > 0 && given.blocks > blocksMax)) given.givesAll = true;
      given.lastStartNanos = blockStartNanos;
    }
    yield series;
  }
  given.isOver = true;
}

/**
 * Makes sure that all series of a block have slots before their fileset counts: what stays in no
 * index would be missing from answers that count as whole.
 */
function makeSlots(
  namespace: NamespaceState,
  names: readonly SeriesName[],
  truncations: number,
): void {
  if (namespace.truncations !== truncations) throw truncatedMeanwhile(namespace);
  for (const name of names) namespace.resolveHere(name);
}

/** Series of the block are live in it from the step on in which their fileset is put in use. */
function markLive(namespace: NamespaceState, source: BlockSource, truncations: number): void {
  if (namespace.truncations !== truncations) throw truncatedMeanwhile(namespace);
  for (const name of source.names) {
    const slot = namespace.resolveHere(name);
    if (slot >= 0) namespace.index.markLiveOne(slot, source.blockStartNanos);
  }
}

function truncatedMeanwhile(namespace: NamespaceState): TsdbError {
  return new TsdbError('UNAVAILABLE', `namespace was truncated meanwhile: ${namespace.name}`);
}

/** A stream of which the next series can be looked at. */
class PeekedStream {
  readonly #stream: AsyncGenerator<StreamedSeries, void, undefined>;
  #ahead: StreamedSeries | null = null;

  constructor(stream: AsyncGenerator<StreamedSeries, void, undefined>) {
    this.#stream = stream;
  }

  async peek(): Promise<StreamedSeries | null> {
    if (this.#ahead === null) {
      const next = await this.#stream.next();
      this.#ahead = next.done === true ? null : next.value;
    }
    return this.#ahead;
  }

  take(): void {
    this.#ahead = null;
  }

  async close(): Promise<void> {
    await this.#stream.return();
  }
}

/** The series of one block of the stream. */
class BlockSource implements VolumeSource {
  readonly blockStartNanos: bigint;
  readonly names: SeriesName[] = [];
  /** Rows that came have versions up to this one. */
  versionMax: number;
  readonly #stream: PeekedStream;
  readonly #onEnd: (names: readonly SeriesName[]) => void;

  /**
   * @param versionMax of rows that are known of
   * @param onEnd called when all of them were given, before the fileset is complete
   */
  constructor(
    stream: PeekedStream,
    blockStartNanos: bigint,
    versionMax: number,
    onEnd: (names: readonly SeriesName[]) => void,
  ) {
    this.#stream = stream;
    this.blockStartNanos = blockStartNanos;
    this.versionMax = versionMax;
    this.#onEnd = onEnd;
  }

  async next(): Promise<readonly VolumeSeries[] | null> {
    const series = await this.#take();
    if (series === null) {
      this.#onEnd(this.names);
      return null;
    }
    this.names.push(copyOfName(series.name));
    this.versionMax = highestVersion(series.chunks, this.versionMax);
    return [series];
  }

  async passOver(): Promise<void> {
    while ((await this.#take()) !== null) continue;
  }

  async #take(): Promise<StreamedSeries | null> {
    const series = await this.#stream.peek();
    if (series === null || series.blockStartNanos !== this.blockStartNanos) return null;
    this.#stream.take();
    return series;
  }
}

/**
 * A donor's pages. One whose disk hangs still answers health checks: when it gives none for too
 * long, another one is to be asked.
 * @throws {TsdbError} DEADLINE_EXCEEDED
 */
export async function* pagesOf(
  stream: PeerStream,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<StreamShardPage, void, undefined> {
  const stop = new AbortController();
  const pages = stream(AbortSignal.any([signal, stop.signal]));
  const iterator = pages[Symbol.asyncIterator]();
  try {
    for (;;) {
      // What this node does with a page takes as long as it takes.
      const isHere = new AbortController();
      const isLate = clock.deadline(pageMillisMax, isHere.signal);
      const next = await untilAborted(iterator.next(), isLate).catch((error: unknown) => {
        if (!isLate.aborted) throw error;
        const reason = `a peer gave no page of the shard for ${pageMillisMax} ms`;
        throw new TsdbError('DEADLINE_EXCEEDED', reason);
      });
      isHere.abort();
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    stop.abort(new TsdbError('CANCELLED', 'nobody waits for the stream any more'));
  }
}

/** One donor's series, checked: the order is what the merge and the fileset rely on. */
async function* seriesOf(
  pages: AsyncIterable<StreamShardPage>,
  namespace: NamespaceState,
): AsyncGenerator<StreamedSeries, void, undefined> {
  let last: StreamedSeries | null = null;
  for await (const { bundle } of pages) {
    for (let i = 0; i < bundle.seriesCount; i += 1) {
      const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
      if (chunks.length === 0) continue;
      const name: SeriesName = {
        idScheme: bundle.idScheme[i]!,
        tags: bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
        explicitId: bundle.idData.subarray(bundle.idOffset[i]!, bundle.idOffset[i + 1]!),
      };
      const id = checkedId(name);
      if (id === null) throw badRequest('cannot take shard from peer: a series is malformed');
      const series = { blockStartNanos: blockOf(namespace, chunks), id, name, chunks };
      if (last !== null && compareSeries(last, series) >= 0) {
        throw badRequest('cannot take shard from peer: its stream is not sorted by block and ID');
      }
      last = series;
      yield series;
    }
  }
}

const headersOf = (chunks: Uint8Array): Generator<ChunkHeader> =>
  chunkHeaders(chunks, 0, chunks.length, kindsAll);

/** The block that all of the chunks lie in. */
function blockOf(namespace: NamespaceState, chunks: Uint8Array): bigint {
  let block: bigint | null = null;
  for (const { firstNanos, lastNanos } of headersOf(chunks)) {
    block ??= namespace.blockStartOf(firstNanos);
    if (
      namespace.blockStartOf(firstNanos) !== block ||
      namespace.blockStartOf(lastNanos) !== block
    ) {
      throw badRequest('cannot take shard from peer: chunks of a series lie in two blocks');
    }
  }
  return block!;
}

/** The highest version of the rows, or what it is at least. */
function highestVersion(chunks: Uint8Array, atLeast: number): number {
  let highest = atLeast;
  let start = 0;
  for (const { end, version, hasRowVersions } of headersOf(chunks)) {
    const chunk = chunks.subarray(start, end);
    start = end;
    if (version <= highest) continue;
    if (!hasRowVersions) highest = version;
    // None is above that of the header, which may be far above all of them.
    else for (const each of contentsOf(chunk).rowVersions) highest = Math.max(highest, each);
  }
  return highest;
}

function compareSeries(a: StreamedSeries, b: StreamedSeries): number {
  if (a.blockStartNanos !== b.blockStartNanos)
    return a.blockStartNanos < b.blockStartNanos ? -1 : 1;
  return compareBytes(a.id, b.id);
}

/**
 * Chunks of several donors, of equal ones one: replicas that have the same rows have the same bytes.
 * What differs stays apart, each chunk with the version that it has.
 */
function withoutTwins(parts: readonly Uint8Array[]): Uint8Array {
  const kept: Uint8Array[] = [];
  const byLength = new Map<number, Uint8Array[]>();
  for (const part of parts) {
    let start = 0;
    for (const { end } of headersOf(part)) {
      const chunk = part.subarray(start, end);
      start = end;
      const others = byLength.get(chunk.length);
      if (others?.some((other) => Buffer.compare(other, chunk) === 0) === true) continue;
      if (others === undefined) byLength.set(chunk.length, [chunk]);
      else others.push(chunk);
      kept.push(chunk);
    }
  }
  return new Uint8Array(Buffer.concat(kept));
}

/** Sorted streams as one; chunks of the same series and block stand one after the other. */
async function* mergeStreams(
  streams: readonly AsyncGenerator<StreamedSeries, void, undefined>[],
): AsyncGenerator<StreamedSeries, void, undefined> {
  try {
    const heads = await Promise.all(streams.map((stream) => stream.next()));
    for (;;) {
      let least: StreamedSeries | null = null;
      for (const head of heads) {
        if (head.done === true) continue;
        if (least === null || compareSeries(head.value, least) < 0) least = head.value;
      }
      if (least === null) return;
      const parts: Uint8Array[] = [];
      for (let i = 0; i < heads.length; i += 1) {
        const head = heads[i]!;
        if (head.done === true || compareSeries(head.value, least) !== 0) continue;
        parts.push(head.value.chunks);
        heads[i] = await streams[i]!.next();
      }
      yield { ...least, chunks: parts.length === 1 ? parts[0]! : withoutTwins(parts) };
    }
  } finally {
    for (const stream of streams) await stream.return();
  }
}

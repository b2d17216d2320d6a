/**
 * Metrics of the storage node, `tsdb_node_…`; what is counted elsewhere is read when they are
 * scraped.
 */
import { type QueryLimitName, queryLimitNames } from '#cluster/metadata/runtime_limits.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { GrpcLoad, GrpcServer } from '#lib/env/grpc.ts';
import type { FormatLevels } from '#lib/format_level.ts';
import type { Metrics } from '#lib/metrics.ts';
import type { ReadMemory } from '#lib/read_memory/read_memory.ts';
import type { PeerClocks } from '#cluster/node/peer_clocks.ts';
import type { VersionBound } from './clock/version_bound.ts';
import type { Commitlog } from './persist/commitlog/commitlog.ts';
import type { Admission } from './storage/admission/admission.ts';
import type { MemoryBudget } from './storage/admission/memory_budget.ts';
import type { QueryLimitCounter } from './storage/admission/query_limits.ts';
import type { DoubtLedger } from './doubt/ledger.ts';
import type { SeriesRate } from './storage/admission/series_rate.ts';
import type { Deletions } from './storage/deletions/deletions.ts';
import type { FileCache } from './storage/filesets/file_cache.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { Flusher } from './storage/flush/flusher.ts';
import type { Snapshots } from './storage/flush/snapshot.ts';
import type { RepairCounts } from './repair/block_repair.ts';
import type { BlockDigests } from './storage/comparison/block_digests.ts';
import type { NamespaceState } from './storage/namespace/namespace.ts';
import type { ShardTable } from './storage/namespace/shards.ts';
import type { ParkedData } from './storage/parking/parked_data.ts';
import type { Parking } from './storage/parking/parking.ts';
import type { Reads } from './storage/read/reads.ts';
import type { Sequencer } from './storage/write/sequencer.ts';
import type { Writes } from './storage/write/writes.ts';

/** What is counted. */
export interface CountedParts {
  readonly doubts: DoubtLedger;
  readonly digests: Pick<BlockDigests, 'counts'>;
  readonly isBootstrapped: boolean;
  readonly store: Pick<SampleStore, 'seriesCount' | 'sampleCount' | 'memoryBytes'>;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly shards: ShardTable;
  readonly commitlog: Commitlog;
  readonly sequencer: Sequencer;
  readonly fileCache: FileCache;
  readonly memory: MemoryBudget;
  readonly readMemory: ReadMemory;
  readonly formats: FormatLevels;
  readonly flusher: Pick<Flusher, 'counts'>;
  readonly snapshots: Pick<Snapshots, 'counts'>;
  readonly deletions: Pick<Deletions, 'counts' | 'size'>;
  readonly parked: Pick<ParkedData, 'bytes' | 'entries'>;
  readonly parking: Pick<Parking, 'keepMillis'>;
  readonly admission: Admission;
  readonly newSeries: SeriesRate;
  readonly queries: QueryLimitCounter;
  readonly writes: Pick<Writes, 'counts'>;
  readonly peerClocks: Pick<PeerClocks, 'aheadMillis' | 'voters'>;
  readonly versions: Pick<VersionBound, 'counts'>;
  readonly reads: Pick<Reads, 'counts'>;
}

/** Values of live limits that were not used. */
export interface LimitCounts {
  readonly ignored: number;
}

/** What comparisons of replicas have found and done. */
export interface RepairFigures {
  readonly counts: RepairCounts & { readonly rounds: number; readonly seconds: number };
  readonly waiting: number;
  readonly differing: number;
  readonly oldestSeconds: number;
}

export interface NodeMetrics {
  /** Seconds of the last background tick. */
  tickSeconds(seconds: number): void;
  seriesExpired(count: number): void;
  corruption(count: number): void;
  /** Something was not compared, or not taken. */
  repairFailure(reason: string): void;
}

export function registerNodeMetrics(
  metrics: Metrics,
  parts: CountedParts,
  limits: LimitCounts,
  repairs: RepairFigures,
  topology: Pick<Topology, 'view' | 'damagedKeys'>,
): NodeMetrics {
  const gauge = (name: string, help: string, read: () => number) =>
    metrics.gauge(`tsdb_node_${name}`, help, [], read);
  gauge('bootstrapped', '1 when every shard of every namespace is whole.', () =>
    parts.isBootstrapped ? 1 : 0,
  );
  gauge(
    'stored_values_damaged',
    'Keys of placement and namespaces whose values cannot be read.',
    () => topology.damagedKeys.length,
  );
  gauge('series', 'Series in memory.', () => parts.store.seriesCount);
  gauge('samples', 'Samples in memory.', () => parts.store.sampleCount);
  gauge('store_bytes', 'Memory of heads and chunks.', () => parts.store.memoryBytes);
  gauge('index_bytes', 'Memory of the index.', () => sum(parts, ({ index }) => index.memoryBytes));
  gauge('index_terms', 'Distinct pairs of tag name and value.', () =>
    sum(parts, ({ index }) => index.termCount),
  );
  gauge('cache_bytes', 'Memory of pages and directories of filesets.', () => {
    return parts.fileCache.memoryBytes;
  });
  gauge('read_bytes', 'Memory of answers that are made or sent.', () => parts.readMemory.bytes);
  gauge('reads_waiting', 'Reads that wait for memory.', () => parts.readMemory.waiting);
  gauge('filesets', 'Filesets in use.', () => sum(parts, ({ files }) => files.all(null).length));
  gauge('namespaces', 'Namespaces.', () => parts.namespaces.size);
  for (const state of ['INITIALIZING', 'AVAILABLE', 'LEAVING'] as const) {
    gauge(`shards_${state.toLowerCase()}`, `Shards of this node that are ${state}.`, () =>
      parts.shards.all().reduce((count, shard) => count + (shard.state === state ? 1 : 0), 0),
    );
  }
  const { parked, parking } = parts;
  gauge('parked_bytes', 'Bytes of filesets that are parked.', () => parked.bytes);
  gauge('parked_shards', 'Shards that are parked, counted in each namespace.', () =>
    parked.entries.reduce((count, { shards }) => count + shards.size, 0),
  );
  gauge(
    'parked_seconds_left',
    'Time until the first of the parked data are removed; 0 when nothing is parked.',
    () => {
      const left = parked.entries.map(({ kept }) => (parking.keepMillis - kept.millis) / 1000);
      return left.length === 0 ? 0 : Math.max(0, Math.min(...left));
    },
  );
  gauge('format_level', 'Level of formats that are written.', () => parts.formats.level());
  gauge('store_lineage_awaits_approval', '1 when the key-value store has gone back.', () =>
    topology.view.awaitsApproval ? 1 : 0,
  );
  gauge('placement_version', 'Version of the adopted placement.', () => parts.shards.version);
  gauge(
    'write_queue_bytes',
    'Bytes of writes that wait for the commit log.',
    () => parts.sequencer.waitingBytes,
  );
  gauge(
    'commitlog_segments',
    'Commit log segments on disk.',
    () => parts.commitlog.segments().length,
  );
  gauge('commitlog_bytes', 'Bytes of the commit log on disk.', () =>
    parts.commitlog.segments().reduce((bytes, segment) => bytes + segment.bytes, 0),
  );
  gauge('blocks_in_doubt', 'Blocks of shards that may lack acknowledged rows.', () => {
    return parts.doubts.size;
  });
  gauge(
    'clock_ahead_seconds',
    "How far this machine's clock is ahead of the median of several nodes' clocks; 0 without one.",
    () => parts.peerClocks.aheadMillis / 1000,
  );
  gauge(
    'clock_voters',
    'Clocks that the median is made of; 0 when they are too few for one.',
    () => parts.peerClocks.voters,
  );
  registerTotals(metrics, parts, limits);
  registerRepair(metrics, parts, repairs);
  const written = metrics.histogram(
    'tsdb_node_commitlog_write_seconds',
    'Time that a group of writes waits for the commit log.',
  );
  parts.commitlog.onWritten = (seconds) => written.observe(seconds);
  const tick = metrics.gauge('tsdb_node_tick_seconds', 'Time of the last background tick.');
  const expired = metrics.counter('tsdb_node_series_expired_total', 'Series past retention.');
  const corrupt = metrics.counter(
    'tsdb_node_corruptions_total',
    'Damaged files and ranges of files that were passed over.',
  );
  const notRepaired = metrics.counter(
    'tsdb_node_repair_failures_total',
    'Blocks that were not compared, and comparisons that failed, by reason.',
    ['reason'],
  );
  return {
    repairFailure: (reason) => notRepaired.increase(1, { reason }),
    tickSeconds: (seconds) => tick.set(seconds),
    seriesExpired: (count) => expired.increase(count),
    corruption: (count) => corrupt.increase(count),
  };
}

/** What makes windows of aggregated namespaces. */
export function registerAggregation(
  metrics: Metrics,
  counts: Readonly<Record<'slices' | 'series' | 'windows' | 'failures', number>>,
): void {
  const total = (name: string, help: string, read: () => number) =>
    metrics.countedElsewhere(`tsdb_node_aggregation_${name}_total`, help, read);
  total('slices', 'Slices of aggregated namespaces that were made.', () => counts.slices);
  total('series', 'Series of slices that were made.', () => counts.series);
  total('windows', 'Windows that were made.', () => counts.windows);
  total('failures', 'Slices that could not be made yet.', () => counts.failures);
}

/** Counts that the hot path keeps as plain numbers. */
function registerTotals(metrics: Metrics, parts: CountedParts, limits: LimitCounts): void {
  const { commitlog, sequencer, writes, reads } = parts;
  const total = (name: string, help: string, read: () => number) =>
    metrics.countedElsewhere(`tsdb_node_${name}_total`, help, read);
  total('commitlog_syncs', 'Syncs of the commit log.', () => commitlog.counts.syncs);
  total(
    'commitlog_written_bytes',
    'Bytes written to the commit log.',
    () => commitlog.counts.bytes,
  );
  total('commitlog_failures', 'Failed writes, syncs and opens.', () => commitlog.counts.failures);
  total('write_groups', 'Groups of writes that shared a sync.', () => sequencer.counts.groups);
  total('writes', 'Batches written.', () => sequencer.counts.writes);
  total('writes_refused', 'Batches refused since too much waited.', () => sequencer.counts.refused);
  total('rows_written', 'Rows written.', () => writes.counts.rowsWritten);
  total('rows_refused', 'Rows refused.', () => writes.counts.rowsRefused);
  total(
    'rows_sent_back',
    'Rows that their writers send once more: they knew an older placement, schema, reference or version.',
    () => writes.counts.rowsSentBack,
  );
  const { flusher, snapshots, fileCache, memory, doubts } = parts;
  total(
    'blocks_lost',
    'Blocks of shards in doubt of which no other replica had all rows.',
    () => doubts.counts.blocksLost,
  );
  const { versions } = parts;
  total(
    'versions_refused',
    'Batches refused since the clock of their writer is ahead.',
    () => versions.counts.refused,
  );
  total(
    'versions_unchecked',
    "Batches taken with a version ahead of this node's clock, since there was no median.",
    () => versions.counts.unchecked,
  );
  total('flushed_blocks', 'Blocks of shards that were flushed.', () => flusher.counts.blocks);
  total('flushed_filesets', 'Filesets that flushes wrote.', () => flusher.counts.filesets);
  total('flushed_bytes', 'Bytes of filesets that flushes wrote.', () => flusher.counts.bytes);
  total(
    'compacted_filesets',
    'Filesets of short blocks that long ones stand for now.',
    () => flusher.counts.compacted,
  );
  total('closed_filesets', 'Filesets of windows that were closed.', () => flusher.counts.closed);
  total('flush_failures', 'Flushes of blocks that failed.', () => flusher.counts.failures);
  total('snapshots', 'Snapshots of the commit log.', () => snapshots.counts.snapshots);
  total('snapshot_bytes', 'Bytes of snapshots.', () => snapshots.counts.bytes);
  total('page_hits', 'Pages of filesets found in memory.', () => fileCache.counts.pageHits);
  total('page_misses', 'Pages of filesets that were read.', () => fileCache.counts.pageMisses);
  total('file_read_bytes', 'Bytes read from filesets.', () => fileCache.counts.bytesRead);
  total('series_refused', 'New series refused since memory is short.', () => memory.refused);
  total('fetches', 'Reads of series.', () => reads.counts.fetches);
  registerLimits(metrics, parts, limits);
  const { deletions } = parts;
  metrics.gauge(
    'tsdb_node_deletions',
    'Deletions of series that are known.',
    [],
    () => deletions.size,
  );
  total('deletions_applied', 'Deletions that were applied.', () => deletions.counts.applied);
  total('deletion_filesets', 'Filesets rewritten or removed.', () => deletions.counts.filesets);
  total('deletion_failures', 'Rewrites that failed.', () => deletions.counts.failures);
}

/** Whether replicas agree. */
function registerRepair(metrics: Metrics, parts: CountedParts, repairs: RepairFigures): void {
  const { counts } = repairs;
  const total = (name: string, help: string, read: () => number) =>
    metrics.countedElsewhere(`tsdb_node_repair_${name}_total`, help, read);
  const gauge = (name: string, help: string, read: () => number) =>
    metrics.gauge(`tsdb_node_repair_${name}`, help, [], read);
  total('rounds', 'Rounds of comparisons with other replicas.', () => counts.rounds);
  total('seconds', 'Time of these rounds, rests included.', () => counts.seconds);
  total('blocks_compared', 'Blocks compared with a peer.', () => counts.blocksCompared);
  total('blocks_differed', 'Of these, those that differed.', () => counts.blocksDiffered);
  total('series_fetched', 'Series of which a peer had other rows.', () => counts.seriesFetched);
  total('bytes_fetched', 'Bytes of their tags and chunks.', () => counts.bytesFetched);
  total('filesets', 'Filesets written with rows of peers.', () => counts.filesets);
  total(
    'digests_made',
    'Filesets whose rows were added up for comparisons.',
    () => parts.digests.counts.made,
  );
  gauge(
    'blocks_differing',
    'Pairs of a block and a peer that differed when they were compared last.',
    () => repairs.differing,
  );
  gauge(
    'blocks_waiting',
    'Pairs of a closed block and a peer that were not compared yet.',
    () => repairs.waiting,
  );
  gauge(
    'oldest_comparison_seconds',
    'Time since the comparison of a pair that is longest ago.',
    () => repairs.oldestSeconds,
  );
}

/** What limits count and refuse. */
function registerLimits(metrics: Metrics, parts: CountedParts, limits: LimitCounts): void {
  const { admission, newSeries, queries } = parts;
  const total = (name: string, help: string, read: () => number) =>
    metrics.countedElsewhere(`tsdb_node_${name}_total`, help, read);
  total('writes_over_limit', 'Writes refused: too many at a time.', () => admission.refused.writes);
  total('reads_over_limit', 'Reads refused: too many at a time.', () => admission.refused.reads);
  total(
    'reads_over_memory',
    'Reads refused: others took the memory of answers.',
    () => parts.readMemory.refused,
  );
  total('new_series_over_limit', 'New series refused by their rate.', () => newSeries.refused);
  const done = (name: string, help: string, kind: QueryLimitName) =>
    total(name, help, () => queries.total(kind));
  done('query_series_blocks', 'Series times blocks of queries.', 'seriesBlocks');
  done('query_disk_series', 'Series that queries read from filesets.', 'diskRead');
  done('query_disk_bytes', 'Bytes that queries read from filesets.', 'diskBytesRead');
  done('query_metadata', 'Series, names and values read without samples.', 'metadata');
  total('queries_over_limit', 'Queries refused by a limit over a time.', () =>
    queryLimitNames.reduce((sum, name) => sum + queries.exceeded(name), 0),
  );
  total('limit_values_ignored', 'Values of limits that cannot be used.', () => limits.ignored);
}

function sum(parts: CountedParts, value: (namespace: NamespaceState) => number): number {
  let total = 0;
  for (const namespace of parts.namespaces.values()) total += value(namespace);
  return total;
}

/** What clients make the gRPC servers hold just now. */
export function registerGrpcMetrics(
  metrics: Metrics,
  servers: readonly Pick<GrpcServer, 'load'>[],
): void {
  const gauge = (name: string, help: string, of: keyof GrpcLoad) =>
    metrics.gauge(`tsdb_node_grpc_${name}`, help, [], () =>
      servers.reduce((sum, { load }) => sum + load[of], 0),
    );
  gauge('connections', 'Connections of gRPC clients.', 'connections');
  gauge('calls', 'gRPC calls that are under way.', 'calls');
  gauge('request_bytes', 'Memory of gRPC requests that arrive or are worked on.', 'requestBytes');
  gauge('answer_bytes', 'Memory of gRPC answers that wait for their clients.', 'answerBytes');
}

/**
 * The storage of a node: its namespaces and shards over one store, one commit log and one
 * sequencer. It implements the node contract; servers, peers and the session of the same process
 * call it alike.
 */
import { noQueryLimits } from '#cluster/metadata/runtime_limits.ts';
import type { Namespace, NamespaceRegistry } from '#cluster/namespaces/namespaces.ts';
import { type EndedNamespaces, namespaceNumber, noneEnded } from '#cluster/namespaces/numbers.ts';
import type {
  AggregateRequest,
  AggregateResponse,
  ColumnsWriteRequest,
  CompareRowsRequest,
  CompareRowsResponse,
  FetchByIdRequest,
  FetchRequest,
  FetchResponse,
  Introduction,
  NodeHealth,
  NodeService,
  StatisticsRequest,
  StatisticsResponse,
  StreamDifferentRequest,
  StreamShardPage,
  StreamShardRequest,
  WriteRequest,
  WriteResponse,
  OfNamespace,
} from '#cluster/node/service.ts';
import { PeerClocks } from '#cluster/node/peer_clocks.ts';
import type { Placement } from '#cluster/placement/placement.ts';
import { type Aside, onTheLoop } from '#engine/aside/aside.ts';
import { openSampleStore } from '#engine/store/open.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { type FormatLevels, newestFormats, rowVersionsFormatLevel } from '#lib/format_level.ts';
import { liveLagMax, versionAtMillis, versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Log } from '#lib/log.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import { ReadMemory } from '#lib/read_memory/read_memory.ts';
import {
  Commitlog,
  commitlogFolder,
  type CommitlogOptions,
} from '../persist/commitlog/commitlog.ts';
import { DoubtLedger } from '../doubt/ledger.ts';
import { makeDurableFolder } from '../persist/folders.ts';
import type { Held } from '../persist/held_file.ts';
import { type NodeIdentity, referenceEpochOf } from '../identity/node_identity.ts';
import { Witness } from '../identity/witness.ts';
import { listSnapshots, snapshotFolder } from '../persist/snapshot_file.ts';
import { Admission, type RequestLimits } from './admission/admission.ts';
import { MemoryBudget, type MemoryUse } from './admission/memory_budget.ts';
import { QueryLimitCounter } from './admission/query_limits.ts';
import { SeriesRate } from './admission/series_rate.ts';
import { BlockDigests } from './comparison/block_digests.ts';
import { Comparisons } from './comparison/comparisons.ts';
import { Deletions } from './deletions/deletions.ts';
import { NamespaceRemoval } from './deletions/namespace_removal.ts';
import { CacheKeeper, type CachePolicy } from './filesets/cache_policy.ts';
import { FileCache, openFilesMax } from './filesets/file_cache.ts';
import type { BlockFile } from './filesets/block_file.ts';
import type { FlushReport } from './flush/flush.ts';
import { Flusher } from './flush/flusher.ts';
import { Pace } from './flush/pace.ts';
import { type SnapshotReport, Snapshots } from './flush/snapshot.ts';
import { slotsOfStretchDefault } from './flush/store_walks.ts';
import { healthOf } from './health.ts';
import { Adoption, type TopologyChange } from './adoption.ts';
import { NamespaceState } from './namespace/namespace.ts';
import { SampleNamespaces } from './namespace/sample_namespaces.ts';
import { type OwnedShard, ShardTable } from './namespace/shards.ts';
import { Holdings, nothingHeld } from './parking/holdings.ts';
import { ParkedData, type ParkedEntry } from './parking/parked_data.ts';
import { Parking } from './parking/parking.ts';
import { ReaderLevels } from './read/reader_levels.ts';
import { Reads } from './read/reads.ts';
import { RetentionClock } from '../clock/retention_clock.ts';
import { VersionBound } from '../clock/version_bound.ts';
import { Sequencer, writeGroupBytesMax, writeQueueBytesMax } from './write/sequencer.ts';
import { LogBatches } from './write/log_batch.ts';
import { WriteScratch } from './write/write.ts';
import { Writes } from './write/writes.ts';

/** Part of the node's memory for answers of reads; so much a small node has, too. */
const answerPart = 1 / 8;
const answerBytesMin: number = 16 << 20;

export interface DatabaseOptions {
  readonly instanceId: string;
  readonly dataFolder: string;
  readonly identity: NodeIdentity;
  /**
   * Everything that heads, chunks, index and caches may take; the store alone takes no more either.
   */
  readonly memoryBytesMax: number;
  /** Data of filesets that are kept in memory, of that number; 0 for none. */
  readonly pageBytesMax: number;
  /** `lru` when it is not given. */
  readonly cachePolicy?: CachePolicy;
  readonly commitlog: Pick<
    CommitlogOptions,
    'sync' | 'syncEveryMillis' | 'syncBytesMax' | 'segmentBytesMax'
  >;
  readonly limits: RequestLimits;
  /** For what cannot be divided; without one it holds up all others. */
  readonly aside?: Aside;
  /** What may be written; the newest formats when it is not given. */
  readonly formats?: FormatLevels;
  /** As in `RetentionClock`; 0 when it is not given, since tests go through days. */
  readonly retentionHoldMillis?: number;
  /** What a folder holds that does not say it: nothing when it is not given. */
  readonly formerlyHeld?: Held;
  /** As in `StoreWalkParts`; `slotsOfStretchDefault` when it is not given. */
  readonly slotsOfStretch?: number;
}

export interface FlushedReport extends FlushReport {
  readonly snapshot: SnapshotReport;
}

export class Database implements NodeService, AsyncDisposable {
  readonly env: Env;
  readonly log: Log;
  readonly instanceId: string;
  readonly dataFolder: string;
  readonly identity: NodeIdentity;
  readonly store: SampleStore;
  readonly slotsOfStretch: number;
  readonly shards: ShardTable;
  readonly commitlog: Commitlog;
  readonly sequencer: Sequencer;
  readonly fileCache: FileCache;
  readonly memory: MemoryBudget;
  readonly flusher: Flusher;
  readonly snapshots: Snapshots;
  readonly cacheKeeper: CacheKeeper;
  readonly removal: NamespaceRemoval;
  readonly deletions: Deletions;
  readonly holdings: Holdings;
  readonly parked: ParkedData;
  readonly parking: Parking;
  readonly peerClocks: PeerClocks;
  readonly versions: VersionBound;
  readonly retentionClock: RetentionClock;
  readonly doubts: DoubtLedger;
  readonly formats: FormatLevels;
  readonly readers: ReaderLevels;
  readonly witness: Witness;
  /** Of the key-value store that the placement is of (#cluster/kv/lineage.ts). */
  lineageId = '';
  readonly sampleNamespaces: SampleNamespaces = new SampleNamespaces();
  /** Called when a fileset was found to be damaged; the block may be fetched from peers. */
  onDamage: (namespace: NamespaceState, file: BlockFile) => void = () => {};
  /** Deletes all rows of a namespace on all nodes; for who knows the key-value store. */
  onTruncate: (name: string, signal: AbortSignal) => Promise<void> = () => {
    throw new TsdbError('UNAVAILABLE', 'cannot truncate: the node is not part of a cluster yet');
  };
  /** The cluster writes formats of this level; resolves when this node does, too. */
  onLaterFormats: (level: number) => Promise<void> = async () => {};
  readonly namespaces: Map<string, NamespaceState> = new Map();
  readonly writes: Writes;
  readonly reads: Reads;
  readonly digests: BlockDigests;
  readonly comparisons: Comparisons;
  readonly newSeries: SeriesRate;
  readonly admission: Admission;
  readonly queries: QueryLimitCounter;
  readonly readMemory: ReadMemory;
  /** What is on this disk is loaded: writes are taken, and reads of ready shards are whole. */
  #loaded = false;
  readonly #loading = Promise.withResolvers<void>();
  readonly #adoption: Adoption;
  /** What the folder held is in memory, and the rest of the disk with it: it can be parked. */
  #isFilled = false;
  /** Wires the parts: each is given by name what it takes, and nothing begins here. */
  private constructor(
    env: Env,
    log: Log,
    options: DatabaseOptions,
    commitlog: Commitlog,
    doubts: DoubtLedger,
    holdings: Holdings,
    parked: ParkedData,
  ) {
    const { instanceId, dataFolder, identity, memoryBytesMax, pageBytesMax, limits } = options;
    const { clock, disk, random } = env;
    const isLoaded = (): boolean => this.#loaded;
    this.env = env;
    this.log = log;
    this.instanceId = instanceId;
    this.dataFolder = dataFolder;
    this.identity = identity;
    this.slotsOfStretch = options.slotsOfStretch ?? slotsOfStretchDefault;
    this.commitlog = commitlog;
    this.doubts = doubts;
    this.holdings = holdings;
    this.parked = parked;
    this.formats = options.formats ?? newestFormats;
    this.readers = new ReaderLevels(clock);
    this.witness = new Witness(clock);
    const { namespaces } = this;
    const store = openSampleStore({ random, memoryBytesMax });
    this.store = store;
    this.keepRowVersions();
    const shards = new ShardTable(instanceId);
    shards.held = holdings;
    this.shards = shards;
    const queueLimits = { queueBytesMax: writeQueueBytesMax, groupBytesMax: writeGroupBytesMax };
    const sequencer = new Sequencer(commitlog, queueLimits, clock, store);
    this.sequencer = sequencer;
    const memory = new MemoryBudget(memoryBytesMax, () => this.#memoryUse());
    this.memory = memory;
    const fileCache = new FileCache(disk, {
      openFilesMax,
      directoryBytesMax: memory.directoryBytesMax,
      pageBytesMax: options.cachePolicy === 'none' ? 0 : memory.pageBytesMax(pageBytesMax),
    });
    this.fileCache = fileCache;
    this.admission = new Admission(clock, shards, limits);
    this.readMemory = new ReadMemory({
      clock,
      bytesMax: Math.max(answerBytesMin, Math.floor(memoryBytesMax * answerPart)),
      allowance: 'answers may take (an eighth of db.memoryMax)',
    });
    this.queries = new QueryLimitCounter(clock, limits.query ?? noQueryLimits);
    this.newSeries = new SeriesRate(clock, limits.newSeriesPerSecondMax);
    /** What nearly all of the background takes. */
    const peerClocks = new PeerClocks(env, log, instanceId);
    this.peerClocks = peerClocks;
    const holdMillis = options.retentionHoldMillis ?? 0;
    const retentionClock = new RetentionClock(clock, peerClocks, log, holdMillis);
    this.retentionClock = retentionClock;
    this.versions = new VersionBound(clock, log, peerClocks);
    const { slotsOfStretch } = this;
    const shared = {
      env,
      log,
      dataFolder,
      store,
      slotsOfStretch,
      shards,
      namespaces,
      retentionClock,
    };
    const removal = new NamespaceRemoval({ ...shared, commitlog, sequencer, isLoaded });
    this.removal = removal;
    const { lost } = removal;
    const aside = options.aside ?? onTheLoop;
    const deletions = new Deletions({
      ...shared,
      aside,
      commitlog,
      sequencer,
      isLoaded,
      lost,
      parked,
    });
    this.deletions = deletions;
    this.flusher = new Flusher({ ...shared, memory, deletions });
    this.snapshots = new Snapshots({
      ...shared,
      identity,
      commitlog,
      sequencer,
      deletions,
      doubts,
      lost,
      syncDeletions: () => this.removal.syncDeletions(),
    });
    this.parking = new Parking({
      ...shared,
      sequencer,
      deletions,
      removal,
      holdings,
      parked,
      snapshots: this.snapshots,
    });
    this.#adoption = new Adoption({
      instanceId,
      shards,
      namespaces,
      sequencer,
      admission: this.admission,
      removal,
      holdings,
      parking: this.parking,
      parked,
      isFilled: () => this.#isFilled,
      isLoaded,
      addNamespace: (definition) => this.#addNamespace(definition),
      noteFiles: () => this.noteFiles(null),
    });
    const policy = options.cachePolicy ?? 'lru';
    this.cacheKeeper = new CacheKeeper({
      env,
      log,
      namespaces,
      policy,
      pageBytesMax,
      memory,
      fileCache,
    });
    const namespaceOf = (request: OfNamespace, signal: AbortSignal): Promise<NamespaceState> =>
      this.#named(request, signal);
    this.writes = new Writes({
      store,
      shards,
      commitlog,
      time: peerClocks,
      versions: this.versions,
      formats: this.formats,
      // A folder that is rolled back comes to a boot again that has given references already.
      referenceEpoch: `${referenceEpochOf(identity)}.${random.bytes(6).toHex()}`,
      logBatches: new LogBatches(),
      scratch: new WriteScratch(),
      sequencer,
      admission: this.admission,
      namespaceOf,
      sampleNamespaces: this.sampleNamespaces,
      onLaterFormats: (level) => this.onLaterFormats(level),
    });
    this.reads = new Reads({
      store,
      shards,
      clock,
      aside,
      disk,
      cache: fileCache,
      queries: this.queries,
      readMemory: this.readMemory,
      sequencer,
      admission: this.admission,
      deletions,
      namespaceOf,
    });
    this.digests = new BlockDigests({ env, log, store });
    this.comparisons = new Comparisons({
      env,
      store,
      shards,
      admission: this.admission,
      deletions,
      digests: this.digests,
      namespaceOf,
    });
  }

  /** Opens the folder; nothing of it is loaded yet (node/bootstrap does that, then `setLoaded`). */
  static async open(env: Env, log: Log, options: DatabaseOptions): Promise<Database> {
    const folder = commitlogFolder(options.dataFolder);
    await makeDurableFolder(env.disk, options.dataFolder, folder);
    const commitlog = await Commitlog.open(env, log, {
      folder,
      incarnation: options.identity.incarnation,
      boot: options.identity.boot,
      ...options.commitlog,
    });
    const snapshots = await listSnapshots(env.disk, snapshotFolder(options.dataFolder));
    commitlog.continueFrom(snapshots[0]?.segment ?? 0);
    const { dataFolder, formerlyHeld = nothingHeld } = options;
    const doubts = await DoubtLedger.open(env, dataFolder);
    const holdings = await Holdings.open(env, log, dataFolder, formerlyHeld);
    const parked = await ParkedData.open({ env, log, dataFolder });
    const database = new Database(env, log, options, commitlog, doubts, holdings, parked);
    await database.deletions.load();
    return database;
  }

  #memoryUse(): MemoryUse {
    let indexBytes = 0;
    for (const { index } of this.namespaces.values()) indexBytes += index.memoryBytes;
    const { store, fileCache, readMemory } = this;
    return {
      storeBytes: store.memoryBytes,
      indexBytes,
      cacheBytes: fileCache.memoryBytes,
      readBytes: readMemory.bytes,
    };
  }

  /** Takes other limits from now on. */
  setLimits(limits: RequestLimits): void {
    this.admission.limits = limits;
    this.newSeries.setLimit(limits.newSeriesPerSecondMax);
    this.queries.limits = limits.query ?? noQueryLimits;
  }

  get referenceEpoch(): string {
    return this.writes.referenceEpoch;
  }

  /** Called when the data of this disk are in memory, those too that are not this node's any more. */
  noteFilled(): void {
    this.#isFilled = true;
  }

  /** Called when the data of this disk are in memory, and may be served. */
  setLoaded(): void {
    this.noteFilled();
    this.deletions.noteLoaded();
    // Not before: the rows of the log are their own evidence.
    this.noteFiles(null);
    this.#loaded = true;
    this.#loading.resolve();
  }

  /** Begins to keep the version of each row when the level of formats allows it. */
  keepRowVersions(): void {
    if (this.store.keepsRowVersions || this.formats.level() < rowVersionsFormatLevel) return;
    this.store.keepRowVersions(true);
  }

  /**
   * Rows that others have acknowledged have versions up to this one, unless the clock of their writer is
   * ahead.
   */
  get versionNow(): number {
    const { env, peerClocks, versions } = this;
    const nowMillis = Math.max(env.clock.nowMillis(), peerClocks.medianMillis() ?? 0);
    return Math.max(versionAtMillis(nowMillis), versions.highest);
  }

  /**
   * Files have rows now that the memory does not know: rows that are written from here on and derive
   * their versions may meet them.
   * @param blockEndNanos of the last block that they are of; null for any
   * @param versionMax that rows of them have
   */
  noteFiles(blockEndNanos: bigint | null, versionMax = 0): void {
    const version = Math.max(this.versionNow, versionMax);
    this.store.noteFiles(version, blockEndNanos);
    if (blockEndNanos === null) return;
    // Whose clock is ahead may take a block for past of which rows still come about.
    const live = Number(versionAtNanos(blockEndNanos)) + liveLagMax - 1;
    if (live < version) this.store.noteFiles(live, blockEndNanos);
  }

  /** Resolves at `setLoaded`. */
  get whenLoaded(): Promise<void> {
    return this.#loading.promise;
  }

  get isLoaded(): boolean {
    return this.#loaded;
  }

  /** Whether every namespace has every shard of the placement, and there is a placement. */
  get isBootstrapped(): boolean {
    if (!this.#loaded || this.shards.placement === null || !this.shards.counts) return false;
    return this.#areWhole(this.shards.all());
  }

  /**
   * `isBootstrapped` without shards that others give until they are here, and without namespaces that
   * are not ready yet: whether nothing is missing that is counted on.
   */
  get isServing(): boolean {
    if (!this.#loaded || this.shards.placement === null || !this.shards.counts) return false;
    return this.#areWhole(
      this.shards.reliedOn(),
      ({ options }) => options.stagingStatus === 'READY',
    );
  }

  #areWhole(
    shards: readonly OwnedShard[],
    isMeant: (definition: Namespace) => boolean = () => true,
  ): boolean {
    for (const { definition, readyShards } of this.namespaces.values()) {
      if (isMeant(definition) && !shards.every(({ id }) => readyShards.has(id))) return false;
    }
    return true;
  }

  /** Takes a newer placement and the current namespaces. @throws as `Adoption.take` */
  applyTopology(
    placement: Placement | null,
    version: number,
    registry: NamespaceRegistry,
    ended: EndedNamespaces = noneEnded,
  ): Promise<TopologyChange> {
    return this.#adoption.take(placement, version, registry, ended);
  }

  #addNamespace(definition: Namespace): NamespaceState {
    const { store, shards, env, newSeries, removal } = this;
    const namespace = new NamespaceState(definition, {
      store,
      shards,
      clock: env.clock,
      random: env.random,
      newSeries,
      disk: env.disk,
      log: this.log,
      fileCache: this.fileCache,
      memory: this.memory,
      tombstonesOf: (name) => this.deletions.of(name),
      ordinal: removal.takeOrdinal('add'),
      giveUp: (ordinal, slots) => removal.giveUp(ordinal, slots),
      onDamage: (damaged, file) => this.onDamage(damaged, file),
    });
    this.namespaces.set(definition.name, namespace);
    return namespace;
  }

  write(request: WriteRequest | ColumnsWriteRequest, signal: AbortSignal): Promise<WriteResponse> {
    this.readers.note(request.formatLevel);
    return this.writes.write(request, signal);
  }

  writeColumns(request: ColumnsWriteRequest, signal: AbortSignal): Promise<WriteResponse> {
    return this.writes.write(request, signal);
  }

  fetch(request: FetchRequest, signal: AbortSignal, delivery?: Delivery): Promise<FetchResponse> {
    this.readers.note(request.formatLevel);
    return this.reads.fetch(request, signal, delivery);
  }

  fetchById(
    request: FetchByIdRequest,
    signal: AbortSignal,
    delivery?: Delivery,
  ): Promise<FetchResponse> {
    this.readers.note(request.formatLevel);
    return this.reads.fetchById(request, signal, delivery);
  }

  aggregate(
    request: AggregateRequest,
    signal: AbortSignal,
    delivery?: Delivery,
  ): Promise<AggregateResponse> {
    return this.reads.aggregate(request, signal, delivery);
  }

  statistics(request: StatisticsRequest, signal: AbortSignal): Promise<StatisticsResponse> {
    return this.reads.statistics(request, signal);
  }

  streamShard(
    request: StreamShardRequest,
    signal: AbortSignal,
  ): AsyncGenerator<StreamShardPage, void, undefined> {
    return this.reads.streamShard(request, signal);
  }

  compareRows(request: CompareRowsRequest, signal: AbortSignal): Promise<CompareRowsResponse> {
    return this.comparisons.compareRows(request, signal);
  }

  streamDifferent(
    request: StreamDifferentRequest,
    signal: AbortSignal,
  ): AsyncGenerator<StreamShardPage, void, undefined> {
    return this.comparisons.streamDifferent(request, signal);
  }

  /**
   * On a full disk: removes what was parked first, but for what is this node's again.
   * @returns whether there was something to remove
   */
  makeRoom(): Promise<boolean> {
    const isWanted = ({ info, shards }: ParkedEntry): boolean => {
      const definition = info && this.namespaces.get(info.namespace)?.definition;
      const { shardCount } = this.shards;
      return (
        definition !== null &&
        definition !== undefined &&
        [...shards].some(
          (shard) =>
            this.shards.get(shard) !== undefined &&
            this.parked.holds(definition, shardCount, shard),
        )
      );
    };
    return this.parked.makeRoom(isWanted);
  }

  async truncate(name: string, signal: AbortSignal): Promise<number> {
    const { seriesCount } = this.#served(name).index;
    await this.onTruncate(name, signal);
    return seriesCount;
  }

  /**
   * Writes all rows of memory to filesets and deletes the commit log that held them: done when it
   * resolves.
   * @param names of namespaces; null for all that are flushed
   * @throws {TsdbError} NOT_FOUND, BAD_REQUEST as `Flusher.flushAll`, UNAVAILABLE when the disk
   * fails
   */
  async flush(names: readonly string[] | null, signal: AbortSignal): Promise<FlushedReport> {
    if (!this.#loaded) throw new TsdbError('UNAVAILABLE', 'node is not bootstrapped');
    const flushed = await this.flusher.flushAll(names, signal);
    const snapshot = await this.snapshot(1, signal);
    for (const { files } of this.namespaces.values()) await files.settled();
    return { ...flushed, snapshot };
  }

  /**
   * Compacts the commit log into a snapshot.
   * @param share of the main loop's time that it may take
   * @throws {TsdbError} UNAVAILABLE when the disk fails: the log stays
   */
  async snapshot(share: number, signal: AbortSignal): Promise<SnapshotReport> {
    try {
      return await this.snapshots.take(new Pace(this.env.clock, () => share), signal);
    } catch (error) {
      const isKnown = error instanceof TsdbError || error instanceof BrokenInvariant;
      if (isKnown || signal.aborted) throw error;
      const message = `cannot write snapshot: ${messageOf(error)}`;
      throw new TsdbError('UNAVAILABLE', message, { cause: error });
    }
  }

  async health(_signal: AbortSignal, of: Introduction | null = null): Promise<NodeHealth> {
    return healthOf(this, of);
  }

  /** The namespace that a request names, once this node knows the one that is meant. */
  async #named(request: OfNamespace, signal: AbortSignal): Promise<NamespaceState> {
    const namespace = this.#served(request.namespace);
    const numberNow = (): number => {
      const known = this.namespaces.get(request.namespace);
      return known === undefined ? Number.POSITIVE_INFINITY : namespaceNumber(known.definition);
    };
    if ((request.namespaceNumber ?? 0) <= namespaceNumber(namespace.definition)) return namespace;
    await this.admission.namespaceNumber(request, numberNow, signal);
    return this.#served(request.namespace);
  }

  /** The namespace, when this node can serve at all. */
  #served(name: string): NamespaceState {
    if (!this.#loaded || this.shards.placement === null) {
      throw new TsdbError('UNAVAILABLE', 'node is not bootstrapped');
    }
    const namespace = this.namespaces.get(name);
    if (namespace !== undefined) return namespace;
    throw new TsdbError('NOT_FOUND', `cannot find namespace on this node: ${JSON.stringify(name)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#loaded = false;
    await this.digests[Symbol.asyncDispose]();
    await this.sequencer[Symbol.asyncDispose]();
    await this.commitlog[Symbol.asyncDispose]();
    for (const { files } of this.namespaces.values()) await files.settled();
    await this.removal[Symbol.asyncDispose]();
    await this.fileCache[Symbol.asyncDispose]();
  }
}

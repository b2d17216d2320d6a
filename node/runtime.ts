/**
 * The life of a storage node: identity, data of its disk, the topology that it follows, shards that
 * come and go, and the background tick. Servers and key-value store are brought by others.
 */
import type { Aside } from '#engine/aside/aside.ts';
import { knownOfStore } from '#cluster/admin/known_reports.ts';
import { type ClusterName, namespacesKey } from '#cluster/kv/keys.ts';
import type { Compare, Kv } from '#cluster/kv/kv.ts';
import type { NodeService } from '#cluster/node/service.ts';
import { markShardsAvailable, resetInstance } from '#cluster/placement/algorithm.ts';
import { isSameAssignment } from '#cluster/placement/assignments.ts';
import { finishHandovers } from '#cluster/placement/handover.ts';
import { type Instance, instanceById, type Placement } from '#cluster/placement/placement.ts';
import { PlacementStore } from '#cluster/placement/store.ts';
import type { KnownStore, Topology, TopologyView } from '#cluster/topology/topology.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { bringBack, parkedShards } from './bootstrap/bring_back.ts';
import { bootstrapLocal, type CorruptShard } from './bootstrap/local.ts';
import { ShardJobs } from './bootstrap/shard_jobs.ts';
import { NodeFormats } from './formats.ts';
import { DeletionFollower } from './deletion_follower.ts';
import { Handovers } from './handovers.ts';
import { LiveLimits } from './live_limits.ts';
import { type NodeMetrics, registerNodeMetrics } from './metrics.ts';
import { readKnownStore } from './identity/known_store.ts';
import { openIdentity } from './identity/node_identity.ts';
import { Standing } from './standing.ts';
import { StoreMemory } from './identity/store_memory.ts';
import { rehearseNewSeries } from './rehearsal.ts';
import type { RepairOptions } from './repair/options.ts';
import { Repairs } from './repair/repairs.ts';
import type { Held } from './persist/held_file.ts';
import { Database, type DatabaseOptions } from './storage/database.ts';
import type { NamespaceState } from './storage/namespace/namespace.ts';
import { nothingHeld } from './storage/parking/holdings.ts';
import { withRoom } from './storage/parking/roomy_disk.ts';
import type { CachePolicy } from './storage/filesets/cache_policy.ts';
import { retentionHoldMillis } from './clock/retention_clock.ts';
import { tick } from './storage/retention/tick.ts';

export interface RuntimeOptions {
  readonly env: Env;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly topology: Topology;
  readonly instanceId: string;
  readonly dataFolder: string;
  readonly memoryBytesMax: number;
  readonly pageBytesMax: number;
  readonly cachePolicy: CachePolicy;
  readonly commitlog: DatabaseOptions['commitlog'];
  readonly limits: DatabaseOptions['limits'];
  /** As of `DatabaseOptions`. */
  readonly aside?: Aside;
  /**
   * Whether the first writes are rehearsed after the start. Default: false, since tests start many
   * nodes.
   */
  readonly rehearses?: boolean;
  /** Between two background ticks. */
  readonly tickMillis: number;
  /** How replicas are compared. Not at all when it is not given. */
  readonly repair?: RepairOptions;
  /** How long parked data are kept, while the node runs. */
  readonly parkedKeepMillis?: number;
  /** The service of another instance, over the network. */
  readonly nodeServiceOf: (instance: Instance) => NodeService;
  /** Called with a broken invariant of the background; the process must end. */
  readonly onFatal: (error: unknown) => void;
}

const noRepair: RepairOptions = {
  enabled: false,
  type: 'default',
  strategy: 'default',
  throttleMillis: 0,
  checkIntervalMillis: 0,
};

const syncCheckMillis = 100;
/** How often it is looked which blocks are to be flushed. */
const flushMillis = 5_000;
/** Share of the main loop's time for a snapshot. */
const snapshotShare = 0.2;
/** Time for the snapshot at a clean stop; the log stays when it does not do. */
const lastSnapshotMillisMax = 15_000;
const retryMillisFirst = 100;
const retryMillisMax = 5_000;
/** Requests that waited for the node have a head start. */
const rehearsalDelayMillis = 100;
/** What came since then may be missing from a folder that is rolled back, and nobody sees it. */
const folderMarkMillis = 10_000;
/** A start waits so long for the key-value store before it goes on by what its folder knows of it. */
const aloneMillis = 10_000;
/** How often it is asked who knows the folder, while the store is away. */
const vouchMillis = 2_000;
/** How often shards that could not be marked AVAILABLE are tried again. */
const markMillis = 1_000;
/** What is forgotten of ended doubts is fetched again after a crash, and harms nobody. */
const doubtsMillis = 10_000;
/** How often it is counted how long parked data have been kept. */
const parkedMillis = 60_000;
const parkedKeepMillisDefault = 48 * 3_600_000;
/** How long it is waited for further shards that become ready. */
const markTogetherMillis = 1;

export class NodeRuntime implements AsyncDisposable {
  readonly #options: RuntimeOptions;
  readonly database: Database;
  readonly repairs: Repairs;
  readonly #jobs: ShardJobs;
  readonly #deletions: DeletionFollower;
  readonly #limits: LiveLimits;
  readonly #formats: NodeFormats;
  readonly #metrics: NodeMetrics;
  readonly #placements: PlacementStore;
  readonly #standing: Standing;
  readonly #memory: StoreMemory;
  /** Of the namespaces that are adopted. */
  #namespacesRevision = 0;
  readonly #stop = new AbortController();
  #following: Promise<void> = Promise.resolve();
  #marking: Promise<void> | null = null;
  readonly #handovers: Handovers;
  #handingOver: Promise<void> | null = null;
  #flushing: Promise<void> = Promise.resolve();
  /** What was taken away is parked, or parked data come back. */
  #settling: Promise<void> | null = null;
  #bootstrapLogged = false;
  /** What needs the key-value store has begun. */
  #hasJoined = false;
  #refreshing = false;
  #refreshAgain = false;

  private constructor(
    options: RuntimeOptions,
    formats: NodeFormats,
    database: Database,
    knownStore: KnownStore | null,
  ) {
    this.#options = options;
    this.#formats = formats;
    this.database = database;
    this.#placements = new PlacementStore(options.kv, options.cluster, options.env.random);
    this.#jobs = new ShardJobs({
      parts: database,
      nodeServiceOf: options.nodeServiceOf,
      sinceBoot: () => this.#standing.sinceBoot,
      onReady: () => this.#onShardReady(),
    });
    const { kv, cluster, instanceId, env, log, dataFolder } = options;
    const { topology, nodeServiceOf, onFatal } = options;
    const { signal } = this.#stop;
    const onOlderStore = (reason: string) => topology.forsake(reason, signal);
    const shared = { env, log, kv, cluster, topology, instanceId, dataFolder, signal };
    const resetShards = (isLost?: (shard: number) => boolean) => this.#resetShards(isLost);
    const { holdings, parked } = database;
    const heldShards = () =>
      holdings.shards.size + parked.entries.length === 0 ? null : holdings.shards;
    this.#standing = new Standing({
      ...shared,
      database,
      nodeServiceOf,
      onOlderStore,
      resetShards,
      onFatal,
    });
    const onOtherLineage = (): Promise<void> => {
      this.#deletions.renew();
      return this.#standing.check();
    };
    const formatLevel = (): number => formats.level();
    this.#memory = new StoreMemory(
      { ...shared, formatLevel, heldShards, resetShards, onOtherLineage },
      knownStore,
    );
    this.#handovers = new Handovers({
      instanceId,
      clock: env.clock,
      log,
      shards: database.shards,
      placements: this.#placements,
      nodeServiceOf: options.nodeServiceOf,
      isStanding: () => this.#standing.isStanding,
    });
    const parts = database;
    this.#deletions = new DeletionFollower({ kv, cluster, instanceId, parts, onOlderStore });
    this.#limits = new LiveLimits({
      kv,
      cluster,
      env,
      log,
      configured: options.limits,
      shards: database.shards,
      onLimits: (limits) => database.setLimits(limits),
    });
    database.admission.onUnknownNamespace = () => this.#refreshNamespaces();
    this.repairs = new Repairs({
      parts: database,
      options: options.repair ?? noRepair,
      nodeServiceOf: options.nodeServiceOf,
      onFailure: (reason) => this.#metrics.repairFailure(reason),
    });
    this.#metrics = registerNodeMetrics(
      options.metrics,
      database,
      this.#limits,
      this.repairs,
      options.topology,
    );
  }

  /**
   * Opens the data folder and begins; `database` answers 'not bootstrapped' until its data is
   * loaded.
   */
  static async start(given: RuntimeOptions): Promise<NodeRuntime> {
    const { log, dataFolder } = given;
    let makeRoom = async (): Promise<boolean> => false;
    const disk = withRoom(given.env.disk, () => makeRoom());
    const env = { ...given.env, disk };
    const options = { ...given, env };
    // Before this start is counted in the folder, or anything else of it is changed.
    const formats = await NodeFormats.open(env, log, dataFolder);
    const knownStore = await readKnownStore(env.disk, log, dataFolder);
    const database = await Database.open(env, log, {
      instanceId: options.instanceId,
      dataFolder,
      identity: await openIdentity(env, dataFolder),
      memoryBytesMax: options.memoryBytesMax,
      pageBytesMax: options.pageBytesMax,
      cachePolicy: options.cachePolicy,
      commitlog: options.commitlog,
      limits: options.limits,
      ...(options.aside === undefined ? {} : { aside: options.aside }),
      formats,
      retentionHoldMillis,
      formerlyHeld: heldByFormer(knownStore, options.instanceId),
    });
    makeRoom = () => database.makeRoom();
    database.parking.keepMillis = options.parkedKeepMillis ?? parkedKeepMillisDefault;
    const runtime = new NodeRuntime(options, formats, database, knownStore);
    runtime.#begin();
    return runtime;
  }

  #begin(): void {
    const { kv, cluster, onFatal } = this.#options;
    this.#limits.follow();
    const onRaise = () => this.database.keepRowVersions();
    this.#formats.follow({ kv, cluster, onRaise, onFatal });
    this.database.onLaterFormats = (level) => this.#formats.raise(level);
    this.#following = this.#run().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) this.#options.onFatal(error);
    });
  }

  async #run(): Promise<void> {
    const { topology, env, log, nodeServiceOf } = this.#options;
    const { signal } = this.#stop;
    const isAlone = await this.#startsAlone();
    if (isAlone) this.database.shards.counts = false;
    else await this.#join();
    let view = await this.#takeTopology();
    // A start that is short of memory flushes, and so reads filesets: what it finds is repaired
    // after it.
    const damaged: CorruptShard[] = [];
    this.database.onDamage = (namespace, file) => {
      this.#metrics.corruption(1);
      const shard = {
        namespace,
        shard: file.shard,
        blocks: new Set(namespace.files.blocksOf(file)),
      };
      if (this.database.isLoaded) this.#jobs.repair(shard);
      else damaged.push(shard);
    };
    // Before anything is taken for expired.
    const placement = () => topology.view.placement;
    await this.database.peerClocks.follow({ placement, nodeServiceOf }, signal);
    const { corrupt, unrepaired, replay } = await bootstrapLocal(this.database, signal);
    this.#metrics.corruption(corrupt.length + replay.problems.length + replay.recordsMalformed);
    await this.#letGoOfLost(view);
    if (!isAlone) await this.#catchUpDeletions();
    this.database.setLoaded();
    // Before an answer counts, whoever says that it may.
    for (const shard of [...corrupt, ...unrepaired, ...damaged]) this.#jobs.repair(shard);
    const onError = (what: string) => (error: unknown) => {
      if (error instanceof BrokenInvariant) this.#options.onFatal(error);
      else log.error({ error: messageOf(error) }, what);
    };
    env.clock.every(
      this.#options.tickMillis,
      () => this.#tick(),
      onError('background tick failed'),
      signal,
    );
    env.clock.every(flushMillis, () => this.#flush(), onError('background flush failed'), signal);
    const { doubts } = this.database;
    const onUnsaved = onError('cannot write the ledger of doubt');
    env.clock.every(doubtsMillis, () => doubts.save(), onUnsaved, signal);
    const onUncounted = onError('cannot look after parked data');
    env.clock.every(parkedMillis, () => this.#tickParked(), onUncounted, signal);
    this.#settle();
    env.clock.every(syncCheckMillis, () => this.#sync(), onError('cannot sync'), signal);
    if (this.#options.rehearses === true) {
      this.#rehearse().catch(onError('rehearsal of writes failed'));
    }
    const onUntold = onError('cannot introduce this node to others');
    const introduce = async (): Promise<void> => {
      // Once it has joined, with the folder's next mark.
      if (!this.#hasJoined) await this.#standing.introduce();
    };
    env.clock.every(folderMarkMillis, introduce, onUntold, signal);
    this.#standing.introduce().catch(onUntold);
    if (isAlone) view = await this.#endAlone();
    this.#deletions.follow();
    void this.#formats.whenKnown.then(() => this.#explainFormats());
    this.#hasJoined = true;
    this.#jobs.reconcile();
    this.#onShardReady();
    this.repairs.begin(this.#options.onFatal);
    env.clock.every(markMillis, () => this.#mark(), onError('cannot mark shards'), signal);
    const onUnended = onError('cannot end handovers of shards');
    env.clock.every(markMillis, () => this.#handOver('end'), onUnended, signal);
    const onUnmarked = onError('cannot mark the data folder');
    const mark = async (): Promise<void> => {
      try {
        await this.#standing.raiseMark();
      } finally {
        await this.#standing.introduce();
      }
      await this.#standing.lookUpSilent();
    };
    env.clock.every(folderMarkMillis, mark, onUnmarked, signal);
    const onUnsaid = onError('cannot tell what is known of the key-value store');
    env.clock.every(folderMarkMillis, () => this.#memory.report(topology.view), onUnsaid, signal);
    // What the start could not take, as something has to be parked before it.
    if (this.database.parking.isDue) view = await this.#takeTopology();
    for (;;) {
      const last = view;
      await topology.until((next) => next !== last, signal);
      view = await this.#takeTopology();
    }
  }

  /**
   * What the folder holds is in memory: what of that is not this node's any more is not served. Where it
   * has to be parked before something is taken, or the disk fails, the start goes on without that.
   */
  async #letGoOfLost(view: TopologyView): Promise<void> {
    const { database } = this;
    const { placement, placementVersion, namespaces, endedNamespaces } = view;
    database.noteFilled();
    try {
      await database.applyTopology(placement, placementVersion, namespaces, endedNamespaces);
    } catch (error) {
      this.#stop.signal.throwIfAborted();
      if (!(error instanceof TsdbError)) throw error;
      const { log } = this.#options;
      log.warn(
        { error: messageOf(error) },
        'placement and namespaces are not taken as a whole yet',
      );
    }
  }

  /** Parks what was taken away, and brings back what is this node's again, beside everything else. */
  #settle(): void {
    const { isLoaded, parking } = this.database;
    const isDue = (): boolean => parking.isDue || parkedShards(this.database).length > 0;
    if (!isLoaded || this.#settling !== null || this.#stop.signal.aborted || !isDue()) return;
    this.#settling = this.#retrying('data are not parked, or brought back, yet', () =>
      this.#settleOnce(),
    )
      .catch((error: unknown) => {
        if (!this.#stop.signal.aborted) this.#options.onFatal(error);
      })
      .finally(() => {
        this.#settling = null;
        // A placement may have come meanwhile.
        this.#settle();
      });
  }

  async #settleOnce(): Promise<void> {
    const { database } = this;
    const { signal } = this.#stop;
    await database.parking.run(signal);
    if (parkedShards(database).length === 0) return;
    // Else what was deleted meanwhile would be served.
    if (!(await this.#deletions.isCurrent(signal))) {
      throw new TsdbError('UNAVAILABLE', 'deletions are not applied yet');
    }
    const damaged = await bringBack(database, signal);
    this.#jobs.reconcile();
    for (const shard of damaged) this.#jobs.repair(shard);
    this.#metrics.corruption(damaged.length);
    this.#onShardReady();
  }

  async #tickParked(): Promise<void> {
    const { parked, parking, retentionClock, namespaces } = this.database;
    await parked.tick(parking.keepMillis, retentionClock.nowNanos(), namespaces);
  }

  /** Compares this node with what the key-value store has of it, and goes on by the placement there. */
  async #join(): Promise<void> {
    const { topology } = this.#options;
    const { signal } = this.#stop;
    const { lineageId, storeLineageId } = await topology.whenLoaded(signal);
    if (lineageId !== storeLineageId) this.#deletions.renew();
    await this.#retrying('cannot compare the data folder with the cluster', async () => {
      // The comparison may find that the store has gone back, and gives nothing up before that is approved:
      // which waits for what this node says.
      await this.#memory.report(topology.view);
      await this.#standing.announce();
    });
    await this.#retrying('cannot read the placement', () => topology.refresh(signal));
  }

  async #catchUpDeletions(): Promise<void> {
    await this.#retrying('cannot apply the deletions of the cluster', () =>
      this.#deletions.catchUp(this.#stop.signal),
    );
  }

  /**
   * Whether this start goes on by what the folder knows of the cluster, since the key-value store
   * cannot be reached: what it answers counts for no level until the folder is known to be the one
   * that served last, by the store or by those who own its shards too.
   */
  async #startsAlone(): Promise<boolean> {
    const { topology, env, log } = this.#options;
    const { signal } = this.#stop;
    const waiting = new ChildSignal(signal);
    try {
      await topology.whenLoaded(env.clock.deadline(aloneMillis, waiting.signal));
      return false;
    } catch {
      signal.throwIfAborted();
    } finally {
      waiting.end();
    }
    const { isLoaded, placement, placementVersion } = await topology.recall();
    if (isLoaded || placement === null) return false;
    log.warn(
      { placementVersion },
      'the key-value store cannot be reached: this node goes on by what it knew, and its answers count when those who own its shards know its data folder',
    );
    return true;
  }

  /** Until the key-value store is back. @returns what it has then */
  async #endAlone(): Promise<TopologyView> {
    const { env, log } = this.#options;
    const waiting = new ChildSignal(this.#stop.signal);
    const { signal } = waiting;
    const onError = (error: unknown): void => {
      log.warn({ error: messageOf(error) }, 'cannot ask who knows this data folder');
    };
    env.clock.every(vouchMillis, () => this.#askForWord(signal), onError, signal);
    try {
      await this.#join();
    } finally {
      waiting.end();
    }
    const view = await this.#takeTopology();
    await this.#catchUpDeletions();
    this.#count('the key-value store is back: answers of this node count');
    return view;
  }

  async #askForWord(signal: AbortSignal): Promise<void> {
    if (this.database.shards.counts) return;
    const isKnown = await this.#standing.isVouchedFor(signal);
    if (!isKnown || signal.aborted) return;
    this.#count('those who own its shards know this data folder: answers of this node count');
    await this.#standing.introduce();
  }

  #count(reason: string): void {
    if (this.#standing.count(reason)) this.#onShardReady();
  }

  /** A new cluster is finished by its first placement. */
  #explainFormats(): void {
    const level = this.#formats.level();
    const { log, topology } = this.#options;
    if (level === formatLevelNewest || topology.view.placement === null) return;
    log.info(
      { level, newest: formatLevelNewest },
      'the formats of the release before are written, so that it can still be gone back to; "tsdbctl upgrade finish" ends that',
    );
  }

  async #rehearse(): Promise<void> {
    const { env } = this.#options;
    const { signal } = this.#stop;
    try {
      await env.clock.sleep(rehearsalDelayMillis, signal);
      await rehearseNewSeries(env, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /**
   * Takes the cluster's state as it stands; while log or disk fail, what came meanwhile is taken
   * with it.
   */
  #takeTopology(): Promise<TopologyView> {
    return this.#retrying('cannot take placement and namespaces as a whole', async () => {
      const { view } = this.#options.topology;
      try {
        await this.#apply(view);
      } finally {
        // Shards come and go also while a namespace that was deleted cannot be dropped.
        if (this.database.isLoaded) {
          this.#jobs.reconcile();
          this.#onShardReady();
          this.#leave();
          this.#settle();
        }
      }
      return view;
    });
  }

  async #apply(view: TopologyView): Promise<void> {
    await this.#memory.remember();
    if (view.isLoaded) await this.#memory.report(view);
    this.database.lineageId = view.lineageId;
    const { shards } = this.database;
    const waiting = new Set(
      shards.all().flatMap(({ id, state }) => (state === 'INITIALIZING' ? [id] : [])),
    );
    const change = await this.database.applyTopology(
      view.placement,
      view.placementVersion,
      view.namespaces,
      view.endedNamespaces,
    );
    this.#namespacesRevision = view.namespacesRevision;
    const isMarked = shards.all().some(({ id, state }) => state === 'AVAILABLE' && waiting.has(id));
    if (isMarked) this.#checkStanding();
    this.#limits.apply();
    const { log } = this.#options;
    for (const { name } of change.addedNamespaces) log.info({ namespace: name }, 'namespace added');
    if (change.addedNamespaces.length > 0) this.#lookForFormerEnds(change.addedNamespaces);
    if (change.added.length + change.removed.length > 0) {
      log.info(
        {
          version: view.placementVersion,
          added: change.added.map(({ id }) => id).join(),
          removed: change.removed.join(),
        },
        'placement adopted',
      );
    }
  }

  /**
   * Until that is known rows of before a namespace was made come with their batch's version; it is asked
   * once, since in some seconds no row is so old.
   */
  #lookForFormerEnds(namespaces: readonly NamespaceState[]): void {
    const { signal } = this.#stop;
    this.#deletions.isCurrent(signal).then(
      (isCurrent) => {
        for (const namespace of namespaces) namespace.isFormerEndKnown = isCurrent;
      },
      (error: unknown) => {
        if (signal.aborted) return;
        const { log } = this.#options;
        log.debug({ error: messageOf(error) }, 'cannot look for deletions of former namespaces');
      },
    );
  }

  /** Shards of this node are AVAILABLE: another process of its instance may have marked them. */
  #checkStanding(): void {
    if (!this.#hasJoined) return;
    this.#standing.check().catch((error: unknown) => {
      if (this.#stop.signal.aborted) return;
      const { log } = this.#options;
      log.warn({ error: messageOf(error) }, 'cannot look who serves as this instance');
    });
  }

  /**
   * A writer or reader knows of a namespace what this node has not been told yet. What is asked
   * while it is read may be newer than what is read: once more then.
   */
  #refreshNamespaces(): void {
    this.#refreshAgain = this.#refreshing;
    if (this.#refreshing) return;
    this.#refreshing = true;
    const { topology, log } = this.#options;
    topology
      .refresh(this.#stop.signal)
      .catch((error: unknown) => {
        if (this.#stop.signal.aborted) return;
        log.warn({ error: messageOf(error) }, 'cannot read the namespaces anew');
      })
      .finally(() => {
        this.#refreshing = false;
        if (this.#refreshAgain && !this.#stop.signal.aborted) this.#refreshNamespaces();
      });
  }

  async #resetShards(isLost?: (shard: number) => boolean): Promise<void> {
    const { instanceId } = this.#options;
    try {
      await this.#placements.update(
        (current) => resetInstance(current, instanceId, isLost),
        this.#stop.signal,
      );
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'NOT_FOUND')) throw error;
    }
  }

  /** At once, so that moves take no longer than they must; failing that with the next timer. */
  #leave(): void {
    this.#handOver('leave').catch((error: unknown) => {
      if (this.#stop.signal.aborted) return;
      const { log } = this.#options;
      log.warn({ error: messageOf(error) }, 'shards that were handed over are not left yet');
    });
  }

  /** One at a time. @param how leaves what this node gave, or ends what it took too */
  #handOver(how: 'leave' | 'end'): Promise<void> {
    this.#handingOver ??= this.#handOverOnce(how).finally(() => {
      this.#handingOver = null;
    });
    return this.#handingOver;
  }

  async #handOverOnce(how: 'leave' | 'end'): Promise<void> {
    const { signal } = this.#stop;
    const hasLeft = await this.#handovers.leave(signal);
    const isChanged = hasLeft || (how === 'end' && (await this.#handovers.end(signal)));
    if (isChanged) await this.#options.topology.refresh(signal);
  }

  #onShardReady(): void {
    this.#mark().catch((error: unknown) => {
      if (this.#stop.signal.aborted) return;
      const { log } = this.#options;
      log.warn({ error: messageOf(error) }, 'shards are not marked AVAILABLE yet');
    });
    if (!this.#bootstrapLogged && this.database.isBootstrapped) {
      this.#bootstrapLogged = true;
      this.#options.log.info({ shards: this.database.shards.all().length }, 'node is bootstrapped');
    }
  }

  /** Marks the shards that are whole and on disk, all in one compare-and-set, one at a time. */
  #mark(): Promise<void> {
    this.#marking ??= this.#markReady().finally(() => {
      this.#marking = null;
    });
    return this.#marking;
  }

  async #markReady(): Promise<void> {
    if (!this.database.isLoaded || this.#jobs.readyShards().size === 0) return;
    const { instanceId, topology, log, env, cluster } = this.#options;
    const { signal } = this.#stop;
    // A shard is whole in the namespaces that this node knows: it must know all of them.
    const namespaces = namespacesKey(cluster);
    const knowsAll = (): readonly Compare[] => [
      { key: namespaces, target: 'modRevision', equals: this.#namespacesRevision },
      // Another process of this instance may have given its shards up since.
      this.#standing.isStanding,
    ];
    // Shards that have nothing to fetch are ready one right after the other.
    await env.clock.sleep(markTogetherMillis, signal);
    const sources = this.#jobs.readyShards().values();
    const leavingAtOnce = await this.#handovers.leavingAtOnce(sources, signal);
    // Read when the placement is: a shard may have got another source since.
    const mark = (current: Placement): Placement => {
      const ready = this.#jobs.readyShards();
      const marked = markShardsAvailable(current, instanceId, (shard) => {
        const owned = ready.get(shard.id);
        return owned !== undefined && isSameAssignment(owned, shard);
      });
      return finishHandovers(marked, leavingAtOnce);
    };
    const { placementVersion } = await topology.refresh(signal);
    // A copy of the folder from before it had the shards is none that has them.
    await this.#standing.raiseMark(true);
    if (this.#standing.hasMissed) return;
    const { version } = await this.#placements.update(mark, signal, knowsAll);
    if (version === placementVersion) return;
    log.info({ version }, 'shards marked AVAILABLE');
    await topology.refresh(signal);
  }

  async #tick(): Promise<void> {
    const { clock } = this.#options.env;
    const started = clock.monotonicMillis();
    const { seriesExpired } = await tick(this.database);
    this.#metrics.seriesExpired(seriesExpired);
    this.#metrics.tickSeconds((clock.monotonicMillis() - started) / 1000);
  }

  #flush(): Promise<void> {
    this.#flushing = this.#flushDue();
    return this.#flushing;
  }

  async #flushDue(): Promise<void> {
    const { database } = this;
    const { signal } = this.#stop;
    await database.flusher.runDue(signal);
    await database.cacheKeeper.run(signal);
    await database.deletions.rewriteDue(signal);
    if (this.#hasJoined) await this.#deletions.publish(signal);
    if (await database.snapshots.isDue()) await database.snapshot(snapshotShare, signal);
  }

  /**
   * With `commitlog.sync: interval`, a log that nobody writes to is synced too; and it notes that.
   */
  async #sync(): Promise<void> {
    const { commitlog, sequencer } = this.database;
    if (commitlog.syncIsDue()) await sequencer.exclusive(() => {});
    if (commitlog.markIsDue()) await sequencer.exclusive(() => commitlog.mark());
  }

  /** A clean stop leaves a snapshot in place of the log, which is read faster. */
  async #lastSnapshot(): Promise<void> {
    const { env, log } = this.#options;
    const { database } = this;
    if (!database.isLoaded) return;
    const { commitlog, snapshots } = database;
    if (commitlog.segments().length === 0 && !snapshots.isIndexOld) return;
    const signal = env.clock.deadline(lastSnapshotMillisMax, new AbortController().signal);
    try {
      await database.snapshot(1, signal);
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'no snapshot at the end; the commit log stays');
    }
  }

  async #retrying<T>(what: string, action: () => Promise<T>): Promise<T> {
    const { env, log } = this.#options;
    const { signal } = this.#stop;
    for (let delay = retryMillisFirst; ; delay = Math.min(retryMillisMax, delay * 2)) {
      try {
        return await action();
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof TsdbError)) throw error;
        log.warn({ error: messageOf(error) }, what);
        await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal);
      }
    }
  }

  /** Stops the background, finishes what was acknowledged and closes the log. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    await this.#following;
    await this.repairs[Symbol.asyncDispose]();
    await this.#deletions[Symbol.asyncDispose]();
    await this.#limits[Symbol.asyncDispose]();
    await this.#formats[Symbol.asyncDispose]();
    await this.#jobs[Symbol.asyncDispose]();
    await this.#marking?.catch(() => {});
    await this.#handingOver?.catch(() => {});
    await this.#flushing.catch(() => {});
    await this.#settling;
    await this.#lastSnapshot();
    await this.database.parked.note().catch((error: unknown) => {
      const { log } = this.#options;
      const what = 'cannot note how long parked data have been kept: some of it counts again';
      log.warn({ error: messageOf(error) }, what);
    });
    await this.database.doubts.save().catch((error: unknown) => {
      const { log } = this.#options;
      log.warn(
        { error: messageOf(error) },
        'cannot write the ledger of doubt: some is doubted again',
      );
    });
    await this.database[Symbol.asyncDispose]();
  }
}

/** What a folder holds that a release before this one has left. */
function heldByFormer(known: KnownStore | null, instanceId: string): Held {
  if (known === null) return nothingHeld;
  const { placement, namespaces } = knownOfStore(known);
  const own = placement === null ? undefined : instanceById(placement, instanceId);
  const shards = new Set(own?.shards.map(({ id }) => id));
  return { shardCount: placement?.numShards ?? 0, shards, namespaces };
}

/**
 * The life of a storage node: how it starts, joins its cluster, follows the topology and ends. Its parts
 * are made here; servers and key-value store are brought by others.
 */
import type { Aside } from '#engine/aside/aside.ts';
import { knownOfStore } from '#cluster/admin/known_reports.ts';
import { RulesFollower } from '#cluster/aggregation_rules/sets/follower.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import type { NodeService } from '#cluster/node/service.ts';
import { type Instance, instanceById } from '#cluster/placement/placement.ts';
import type { KnownStore, Topology, TopologyView } from '#cluster/topology/topology.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { bootstrapLocal, type CorruptShard } from './bootstrap/local.ts';
import { ShardJobs } from './bootstrap/shard_jobs.ts';
import { NodeFormats } from './formats.ts';
import { DeletionFollower } from './deletion_follower.ts';
import { LiveLimits } from './live_limits.ts';
import { type NodeMetrics, registerAggregation, registerNodeMetrics } from './metrics.ts';
import { readKnownStore } from './identity/known_store.ts';
import { openIdentity } from './identity/node_identity.ts';
import { OwnShards } from './own_shards.ts';
import { retrying, type RetryingOptions } from './retrying.ts';
import { Settling } from './settling.ts';
import { Standing } from './standing.ts';
import { Aggregator } from './storage/aggregation/aggregator.ts';
import { SliceNotes } from './storage/aggregation/notes.ts';
import { Upkeep } from './upkeep.ts';
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

/** Requests that waited for the node have a head start. */
const rehearsalDelayMillis = 100;
/** What came since then may be missing from a folder that is rolled back, and nobody sees it. */
const folderMarkMillis = 10_000;
/** A start waits so long for the key-value store before it goes on by what its folder knows of it. */
const aloneMillis = 10_000;
/** How often it is asked who knows the folder, while the store is away. */
const vouchMillis = 2_000;
const parkedKeepMillisDefault = 48 * 3_600_000;
export class NodeRuntime implements AsyncDisposable {
  readonly #options: RuntimeOptions;
  readonly database: Database;
  readonly repairs: Repairs;
  readonly #jobs: ShardJobs;
  readonly #deletions: DeletionFollower;
  readonly limits: LiveLimits;
  readonly #formats: NodeFormats;
  readonly #metrics: NodeMetrics;
  readonly #ownShards: OwnShards;
  readonly #settling: Settling;
  readonly #upkeep: Upkeep;
  readonly #standing: Standing;
  readonly #memory: StoreMemory;
  /** Of the namespaces that are adopted. */
  #namespacesRevision = 0;
  readonly #aggregator: Aggregator;
  readonly #rules: RulesFollower;
  readonly #stop = new AbortController();
  #following: Promise<void> = Promise.resolve();
  /** What needs the key-value store has begun. */
  #hasJoined = false;
  #refreshing = false;
  #refreshAgain = false;

  private constructor(
    options: RuntimeOptions,
    formats: NodeFormats,
    database: Database,
    knownStore: KnownStore | null,
    notes: SliceNotes,
  ) {
    this.#options = options;
    this.#formats = formats;
    this.database = database;
    this.#jobs = new ShardJobs({
      parts: database,
      nodeServiceOf: options.nodeServiceOf,
      sinceBoot: () => this.#standing.sinceBoot,
      onReady: () => this.#ownShards.mark(),
    });
    const { kv, cluster, instanceId, env, log, dataFolder } = options;
    const { topology, nodeServiceOf, onFatal } = options;
    const { signal } = this.#stop;
    const onOlderStore = (reason: string) => topology.forsake(reason, signal);
    const shared = { env, log, kv, cluster, topology, instanceId, dataFolder, signal };
    this.#rules = new RulesFollower({ kv, cluster, env, log });
    const aggregator = new Aggregator(database, notes, this.#rules);
    this.#aggregator = aggregator;
    this.#ownShards = new OwnShards({
      ...shared,
      database,
      jobs: this.#jobs,
      standing: () => this.#standing,
      namespacesRevision: () => this.#namespacesRevision,
      nodeServiceOf,
    });
    const resetShards = (isLost?: (shard: number) => boolean) => this.#ownShards.reset(isLost);
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
    const parts = database;
    this.#deletions = new DeletionFollower({ kv, cluster, instanceId, parts, onOlderStore });
    this.limits = new LiveLimits({
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
    aggregator.hasTaken = (...block) => this.repairs.hasTaken(...block);
    registerAggregation(options.metrics, aggregator.counts);
    this.#metrics = registerNodeMetrics(
      options.metrics,
      database,
      this.limits,
      this.repairs,
      options.topology,
    );
    this.#upkeep = new Upkeep({
      aggregator,
      ...shared,
      database,
      metrics: this.#metrics,
      tickMillis: options.tickMillis,
      publishDeletions: async () => {
        if (this.#hasJoined) await this.#deletions.publish(signal);
      },
      onError: this.#onError,
    });
    this.#settling = new Settling({
      ...shared,
      database,
      deletions: this.#deletions,
      onBack: (damaged) => this.#onShardsBack(damaged),
      onFatal,
    });
  }

  /** Of what is done now and then. */
  readonly #onError = (what: string) => (error: unknown) => {
    const { log, onFatal } = this.#options;
    if (error instanceof BrokenInvariant) onFatal(error);
    else log.error({ error: messageOf(error) }, what);
  };

  get #retryingOptions(): RetryingOptions {
    const { env, log } = this.#options;
    return { env, log, signal: this.#stop.signal };
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
    const notes = await SliceNotes.open(env.disk, log, dataFolder);
    const runtime = new NodeRuntime(options, formats, database, knownStore, notes);
    runtime.#begin();
    return runtime;
  }

  #begin(): void {
    const { kv, cluster, onFatal } = this.#options;
    this.limits.follow();
    this.#rules.start();
    const onRaise = () => this.database.keepRowVersions();
    this.#formats.follow({ kv, cluster, onRaise, onFatal });
    this.database.onLaterFormats = (level) => this.#formats.raise(level);
    this.#following = this.#run().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) this.#options.onFatal(error);
    });
  }

  async #run(): Promise<void> {
    const { topology } = this.#options;
    const { signal } = this.#stop;
    const isAlone = await this.#startsAlone();
    if (isAlone) this.database.shards.counts = false;
    else await this.#join();
    let view = await this.#takeTopology();
    const damaged = await this.#load(view);
    if (!isAlone) await this.#catchUpDeletions();
    this.database.setLoaded();
    // Before an answer counts, whoever says that it may.
    for (const shard of damaged) this.#jobs.repair(shard);
    this.#upkeep.begin();
    this.#settling.begin();
    this.#introduceUntilJoined();
    if (this.#options.rehearses === true) {
      this.#rehearse().catch(this.#onError('rehearsal of writes failed'));
    }
    if (isAlone) view = await this.#endAlone();
    this.#hasJoined = true;
    this.#beginInCluster();
    // What the start could not take, as something has to be parked before it.
    if (this.database.parking.isDue) view = await this.#takeTopology();
    for (;;) {
      const last = view;
      await topology.until((next) => next !== last, signal);
      view = await this.#takeTopology();
    }
  }

  /** Data of the disk, and what of them this node owns. @returns shards to be repaired */
  async #load(view: TopologyView): Promise<readonly CorruptShard[]> {
    const { topology, nodeServiceOf } = this.#options;
    const { signal } = this.#stop;
    // A start that is short of memory flushes, and so reads filesets: what it finds is repaired
    // after it.
    const damaged: CorruptShard[] = [];
    this.database.onDamage = (namespace, file) => {
      this.#metrics.corruption(1);
      const blocks = new Set(namespace.files.blocksOf(file));
      const shard = { namespace, shard: file.shard, blocks };
      this.#aggregator.forget(namespace, file.shard, blocks);
      if (this.database.isLoaded) this.#jobs.repair(shard);
      else damaged.push(shard);
    };
    // Before anything is taken for expired.
    const placement = () => topology.view.placement;
    await this.database.peerClocks.follow({ placement, nodeServiceOf }, signal);
    const { corrupt, unrepaired, replay } = await bootstrapLocal(this.database, signal);
    this.#metrics.corruption(corrupt.length + replay.problems.length + replay.recordsMalformed);
    for (const { namespace, shard, blocks } of [...corrupt, ...unrepaired]) {
      this.#aggregator.forget(namespace, shard, blocks);
    }
    await this.#letGoOfLost(view);
    damaged.unshift(...corrupt, ...unrepaired);
    return damaged;
  }

  #introduceUntilJoined(): void {
    const { clock } = this.#options.env;
    const onUntold = this.#onError('cannot introduce this node to others');
    const introduce = async (): Promise<void> => {
      // Once it has joined, with the folder's next mark.
      if (!this.#hasJoined) await this.#standing.introduce();
    };
    clock.every(folderMarkMillis, introduce, onUntold, this.#stop.signal);
    this.#standing.introduce().catch(onUntold);
  }

  /** What needs the key-value store. */
  #beginInCluster(): void {
    const { topology, env } = this.#options;
    const { signal } = this.#stop;
    this.#deletions.follow();
    void this.#formats.whenKnown.then(() => this.#explainFormats());
    this.#jobs.reconcile();
    this.#ownShards.mark();
    this.repairs.begin(this.#options.onFatal);
    this.#ownShards.follow(this.#onError);
    const onUnmarked = this.#onError('cannot mark the data folder');
    const mark = async (): Promise<void> => {
      try {
        await this.#standing.raiseMark();
      } finally {
        await this.#standing.introduce();
      }
      await this.#standing.lookUpSilent();
    };
    env.clock.every(folderMarkMillis, mark, onUnmarked, signal);
    const onUnsaid = this.#onError('cannot tell what is known of the key-value store');
    env.clock.every(folderMarkMillis, () => this.#memory.report(topology.view), onUnsaid, signal);
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

  #onShardsBack(damaged: readonly CorruptShard[]): void {
    this.#jobs.reconcile();
    for (const shard of damaged) this.#jobs.repair(shard);
    this.#metrics.corruption(damaged.length);
    this.#ownShards.mark();
  }

  /** Compares this node with what the key-value store has of it, and goes on by the placement there. */
  async #join(): Promise<void> {
    const { topology } = this.#options;
    const { signal } = this.#stop;
    const { lineageId, storeLineageId } = await topology.whenLoaded(signal);
    if (lineageId !== storeLineageId) this.#deletions.renew();
    await retrying(
      this.#retryingOptions,
      'cannot compare the data folder with the cluster',
      async () => {
        // The comparison may find that the store has gone back, and gives nothing up before that is approved:
        // which waits for what this node says.
        await this.#memory.report(topology.view);
        await this.#standing.announce();
      },
    );
    await retrying(this.#retryingOptions, 'cannot read the placement', () =>
      topology.refresh(signal),
    );
  }

  async #catchUpDeletions(): Promise<void> {
    await retrying(this.#retryingOptions, 'cannot apply the deletions of the cluster', () =>
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
    if (this.#standing.count(reason)) this.#ownShards.mark();
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
    return retrying(
      this.#retryingOptions,
      'cannot take placement and namespaces as a whole',
      async () => {
        const { view } = this.#options.topology;
        try {
          await this.#apply(view);
        } finally {
          // Shards come and go also while a namespace that was deleted cannot be dropped.
          if (this.database.isLoaded) {
            this.#jobs.reconcile();
            this.#ownShards.mark();
            this.#ownShards.leave();
            this.#settling.begin();
          }
        }
        return view;
      },
    );
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
    const { namespacesRevision: revision, lineageId, storeLineageId } = view;
    this.database.sampleNamespaces.note(view.namespaces, { revision, lineageId }, storeLineageId);
    const isMarked = shards.all().some(({ id, state }) => state === 'AVAILABLE' && waiting.has(id));
    if (isMarked) this.#checkStanding();
    this.limits.apply();
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

  /** Stops the background, finishes what was acknowledged and closes the log. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    await this.#following;
    await this.repairs[Symbol.asyncDispose]();
    await this.#deletions[Symbol.asyncDispose]();
    await this.limits[Symbol.asyncDispose]();
    await this.#rules[Symbol.asyncDispose]();
    await this.#formats[Symbol.asyncDispose]();
    await this.#jobs[Symbol.asyncDispose]();
    await this.#ownShards.ended();
    await this.#settling.ended();
    await this.#upkeep.end();
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

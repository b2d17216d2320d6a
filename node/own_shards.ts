/**
 * What this node says to the placement of its own shards: those that are whole are marked AVAILABLE,
 * what it has handed over it leaves, and what it is not to be trusted with it gives up.
 */
import { type ClusterName, namespacesKey } from '#cluster/kv/keys.ts';
import type { Compare, Kv } from '#cluster/kv/kv.ts';
import type { NodeService } from '#cluster/node/service.ts';
import { markShardsAvailable, resetInstance } from '#cluster/placement/algorithm.ts';
import { isSameAssignment } from '#cluster/placement/assignments.ts';
import { finishHandovers } from '#cluster/placement/handover.ts';
import type { Instance, Placement } from '#cluster/placement/placement.ts';
import { PlacementStore } from '#cluster/placement/store.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { ShardJobs } from './bootstrap/shard_jobs.ts';
import { Handovers } from './handovers.ts';
import type { Standing } from './standing.ts';
import type { Database } from './storage/database.ts';

export interface OwnShardsOptions {
  readonly env: Env;
  readonly log: Log;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly instanceId: string;
  readonly topology: Pick<Topology, 'refresh'>;
  readonly database: Pick<Database, 'shards' | 'isLoaded' | 'isBootstrapped'>;
  readonly jobs: Pick<ShardJobs, 'noteMarking' | 'readyShards'>;
  readonly standing: () => Standing;
  /** Of the namespaces that are adopted. */
  readonly namespacesRevision: () => number;
  /** The service of another instance. */
  readonly nodeServiceOf: (instance: Instance) => NodeService;
  /** Aborts when the node stops. */
  readonly signal: AbortSignal;
}

/** How often shards that could not be marked, or handovers that could not be ended, are tried again. */
const retryMillis = 1_000;
/** How long it is waited for further shards that become ready. */
const markTogetherMillis = 1;

export class OwnShards {
  readonly #options: OwnShardsOptions;
  readonly #placements: PlacementStore;
  readonly #handovers: Handovers;
  #marking: Promise<void> | null = null;
  #handingOver: Promise<void> | null = null;
  #isBootstrapLogged = false;

  constructor(options: OwnShardsOptions) {
    this.#options = options;
    const { kv, cluster, env, log, instanceId, database, standing, nodeServiceOf } = options;
    this.#placements = new PlacementStore(kv, cluster, env.random);
    this.#handovers = new Handovers({
      instanceId,
      clock: env.clock,
      log,
      shards: database.shards,
      placements: this.#placements,
      nodeServiceOf,
      isStanding: () => standing().isStanding,
    });
  }

  /** The node has joined: what could not be said at once is said from now on. */
  follow(onError: (what: string) => (error: unknown) => void): void {
    const { env, signal } = this.#options;
    env.clock.every(retryMillis, () => this.#mark(), onError('cannot mark shards'), signal);
    const onUnended = onError('cannot end handovers of shards');
    env.clock.every(retryMillis, () => this.#handOver('end'), onUnended, signal);
  }

  /** Shards may have become whole. */
  mark(): void {
    const { database, log } = this.#options;
    this.#mark().catch(this.#warning('shards are not marked AVAILABLE yet'));
    if (this.#isBootstrapLogged || !database.isBootstrapped) return;
    this.#isBootstrapLogged = true;
    log.info({ shards: database.shards.all().length }, 'node is bootstrapped');
  }

  /** At once, so that moves take no longer than they must; failing that with the next timer. */
  leave(): void {
    this.#handOver('leave').catch(this.#warning('shards that were handed over are not left yet'));
  }

  /** What the placement believes that this node has of them it has not. @param isLost default: all */
  async reset(isLost?: (shard: number) => boolean): Promise<void> {
    const { instanceId, signal } = this.#options;
    try {
      await this.#placements.update(
        (current) => resetInstance(current, instanceId, isLost),
        signal,
      );
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'NOT_FOUND')) throw error;
    }
  }

  /** What is under way has ended. */
  async ended(): Promise<void> {
    await this.#marking?.catch(() => {});
    await this.#handingOver?.catch(() => {});
  }

  #warning(what: string): (error: unknown) => void {
    const { log, signal } = this.#options;
    return (error) => {
      if (!signal.aborted) log.warn({ error: messageOf(error) }, what);
    };
  }

  /** One at a time. @param how leaves what this node gave, or ends what it took too */
  #handOver(how: 'leave' | 'end'): Promise<void> {
    this.#handingOver ??= this.#handOverOnce(how).finally(() => {
      this.#handingOver = null;
    });
    return this.#handingOver;
  }

  async #handOverOnce(how: 'leave' | 'end'): Promise<void> {
    const { topology, signal } = this.#options;
    const hasLeft = await this.#handovers.leave(signal);
    const isChanged = hasLeft || (how === 'end' && (await this.#handovers.end(signal)));
    if (isChanged) await topology.refresh(signal);
  }

  /** Marks the shards that are whole and on disk, all in one compare-and-set, one at a time. */
  #mark(): Promise<void> {
    this.#marking ??= this.#markReady().finally(() => {
      this.#marking = null;
    });
    return this.#marking;
  }

  async #markReady(): Promise<void> {
    const { database, jobs, namespacesRevision, standing: standingOf } = this.#options;
    if (!database.isLoaded || jobs.readyShards().size === 0) return;
    const { instanceId, topology, log, env, cluster, signal } = this.#options;
    const standing = standingOf();
    // A shard is whole in the namespaces that this node knows: it must know all of them.
    const namespaces = namespacesKey(cluster);
    const knowsAll = (): readonly Compare[] => [
      { key: namespaces, target: 'modRevision', equals: namespacesRevision() },
      // Another process of this instance may have given its shards up since.
      standing.isStanding,
    ];
    // Shards that have nothing to fetch are ready one right after the other.
    await env.clock.sleep(markTogetherMillis, signal);
    const leavingAtOnce = await this.#handovers.leavingAtOnce(jobs.readyShards().values(), signal);
    // Read when the placement is: a shard may have got another source since.
    const mark = (current: Placement): Placement => {
      const ready = jobs.readyShards();
      jobs.noteMarking(ready);
      const marked = markShardsAvailable(current, instanceId, (shard) => {
        const owned = ready.get(shard.id);
        return owned !== undefined && isSameAssignment(owned, shard);
      });
      return finishHandovers(marked, leavingAtOnce);
    };
    const { placementVersion } = await topology.refresh(signal);
    // A copy of the folder from before it had the shards is none that has them.
    await standing.raiseMark(true);
    if (standing.hasMissed) return;
    const { version } = await this.#placements.update(mark, signal, knowsAll);
    if (version === placementVersion) return;
    log.info({ version }, 'shards marked AVAILABLE');
    await topology.refresh(signal);
  }
}

/** Makes rollups (docs/AGGREGATION.md, Rollups), a share of them, for as long as this process leads in it, by a lease in the key-value store. */
import type { KnownRules } from '../aggregation_rules/sets/follower.ts';
import { rulesKnownUntil } from '../aggregation_rules/sets/over_time.ts';
import { isSamePolicy, type StoragePolicy } from '../aggregation_rules/rules.ts';
import type { ClusterName } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { aggregationOf, isReady } from '../namespaces/namespaces.ts';
import { isOfWindows, readySamples } from '../namespaces/samples.ts';
import type { PeerClocks } from '../node/peer_clocks.ts';
import type { Session } from '../session/session.ts';
import type { Topology } from '../topology/topology.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { resolutionsFormatLevel } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { IdScheme } from '#lib/series_id/scheme.ts';
import { rangesOf } from '../placement/shard_ranges.ts';
import { type Leadership, RollupMarks } from './marks.ts';
import type { RollupMetrics } from './metrics.ts';
import { latenessNanos } from './parts/lateness.ts';
import { KeptParts, KeptWindows } from './parts/kept_parts.ts';
import { type RollupParts, StoredParts } from './parts/parts.ts';
import { PolicyRollups, type RollupStorage } from './policy_rollups.ts';
import { RollupRows } from './parts/rows.ts';
import { isSameShare, type RollupShare } from './share.ts';
import { StoredRollups } from './stored_rollups.ts';

export interface RollupsOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  /** Which windows are due, and final, is told by this: a clock that is ahead makes some whose rows are still to come. */
  readonly time: Pick<PeerClocks, 'earliestNanos'>;
  readonly log: Log;
  readonly topology: Pick<Topology, 'view'>;
  readonly session: Pick<Session, 'fetch' | 'write' | 'formatLevel'>;
  readonly rules: { readonly known: KnownRules };
  readonly idScheme: IdScheme;
  readonly metrics: RollupMetrics;
  /** Of those that this process may make now; null while there are none. */
  readonly share: () => RollupShare | null;
  /** How many make them, each a share of its own. */
  readonly shareCount: () => number;
  /** What rows come to: of those that this process reads, where nothing is said. */
  readonly parts?: (policy: StoragePolicy, share: RollupShare) => RollupParts;
}

const lookMillis = 1_000;
const leaseSeconds = 10;
/** Until the next attempt, where somebody else leads or something has failed. */
const pauseMillis = 5_000;
/** For some windows of a policy. */
const stepMillisMax = 300_000;
/** How often it is told that they cannot be made. */
const tellMillis = 60_000;
/** For so long another one leads, where there is one, after this process was asked to resign. */
const resignedMillis = 30_000;
const secondNanos = 1_000_000_000n;

/** An aggregated namespace. */
interface Target {
  readonly name: string;
  readonly policy: StoragePolicy;
}

/** What a leader knows, for as long as it is one. */
interface Leading {
  readonly policies: Map<string, PolicyRollups>;
  /** Of all of them: who leads anew reads anew. */
  readonly kept: KeptWindows;
  readonly sinceNanos: bigint;
  readonly leadership: Leadership;
  /** Aborts when somebody else leads. */
  readonly replaced: AbortController;
  /** Settles when the lease is given up. */
  readonly ended: Promise<void>;
}

export class Rollups implements AsyncDisposable {
  readonly #options: RollupsOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #toldMillis = Number.NEGATIVE_INFINITY;
  #leading: Leading | null = null;
  #resignedUntilMillis = Number.NEGATIVE_INFINITY;

  constructor(options: RollupsOptions) {
    this.#options = options;
  }

  start(): this {
    this.#running = this.#run(this.#stop.signal);
    return this;
  }

  get #hasResigned(): boolean {
    return this.#options.env.clock.monotonicMillis() < this.#resignedUntilMillis;
  }

  get leads(): boolean {
    return this.#leading !== null;
  }

  /** Lets somebody else lead; settles when this process does not. */
  async resign(): Promise<void> {
    this.#resignedUntilMillis = this.#options.env.clock.monotonicMillis() + resignedMillis;
    const leading = this.#leading;
    leading?.replaced.abort(new TsdbError('UNAVAILABLE', 'this process was asked to resign'));
    await leading?.ended;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { env, metrics } = this.#options;
    while (!signal.aborted) {
      let wait = pauseMillis;
      try {
        const share = this.#options.share();
        const targets = this.#targets();
        this.#noteShares(targets);
        if (share === null || targets.length === 0) wait = lookMillis;
        else if (!this.#hasResigned && (await this.#lead(share, signal))) wait = lookMillis;
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof TsdbError)) throw error;
        if (!this.#hasResigned) this.#tell(error);
      } finally {
        metrics.leads.set(0);
      }
      await env.clock.sleep(wait, signal).catch(() => {});
    }
  }

  #noteShares(targets: readonly Target[]): void {
    const { metrics, shareCount } = this.#options;
    metrics.shares.set(targets.length === 0 ? 0 : shareCount());
  }

  #tell(error: TsdbError): void {
    const { env, log, metrics } = this.#options;
    metrics.failures.increase(1);
    const nowMillis = env.clock.monotonicMillis();
    if (nowMillis - this.#toldMillis < tellMillis) return;
    this.#toldMillis = nowMillis;
    log.warn({ error: messageOf(error) }, 'rollups are not made yet');
  }

  /** @returns when somebody else leads, or when this process does no longer; whether it has led */
  async #lead(share: RollupShare, stop: AbortSignal): Promise<boolean> {
    const { kv, log, metrics, time } = this.#options;
    const key = share.leaderKey;
    if ((await kv.get(key, stop)) !== null) return false;
    const { promise: ended, resolve: onEnd } = Promise.withResolvers<void>();
    try {
      await using lease = await kv.lease(leaseSeconds, stop);
      const { succeeded, revision } = await kv.transact(
        [{ key, target: 'createRevision', equals: 0 }, share.holds],
        [{ kind: 'put', key, value: new Uint8Array(0), leaseId: lease.id }],
        stop,
      );
      if (!succeeded || this.#hasResigned) return false;
      const fields = share.numShards === 1 ? {} : { shards: rangesOf(share.shards) };
      log.info(fields, 'this process makes rollups');
      metrics.leads.set(1);
      const leadership = { share, createRevision: revision };
      const replaced = new AbortController();
      const sinceNanos = time.earliestNanos();
      const policies = new Map<string, PolicyRollups>();
      const kept = new KeptWindows(() => time.earliestNanos());
      const leading = { policies, kept, sinceNanos, leadership, replaced, ended };
      this.#leading = leading;
      await this.#makeAll(leading, AbortSignal.any([stop, lease.lost, replaced.signal]));
      return true;
    } finally {
      this.#leading = null;
      onEnd();
    }
  }

  /** Returns when there is nothing to be made, or others may be to make it. */
  async #makeAll(leading: Leading, signal: AbortSignal): Promise<void> {
    const { env } = this.#options;
    while (!signal.aborted) {
      const targets = this.#targets();
      const share = this.#options.share();
      this.#noteShares(targets);
      const isSame = share !== null && isSameShare(share, leading.leadership.share);
      if (targets.length === 0 || !isSame) return;
      let wait = lookMillis;
      for (const target of targets) {
        try {
          if (await this.#advance(target, leading, signal)) wait = 0;
        } catch (error) {
          if (signal.aborted || !(error instanceof TsdbError)) throw error;
          // Others go on, and this one from where it was.
          this.#tell(error);
          wait = pauseMillis;
        }
      }
      if (wait > 0) await env.clock.sleep(wait, signal).catch(() => {});
    }
  }

  /** @returns whether more is due */
  async #advance({ name, policy }: Target, call: Leading, signal: AbortSignal): Promise<boolean> {
    const { policies } = call;
    const { env, time, log, topology, rules, session, metrics } = this.#options;
    const { sets, knownNanos } = rules.known;
    const rows = new RollupRows({ session, topology, clock: env.clock, time });
    const { keptFromNanos } = rows;
    if (knownNanos === null || keptFromNanos === null) return false;
    const key = `${name} ${policy.resolutionNanos}:${policy.retentionNanos}`;
    let rollups = policies.get(key);
    if (rollups === undefined) {
      const storage = this.#storageOf({ name, policy }, call);
      const { share } = call.leadership;
      const parts =
        this.#options.parts?.(policy, share) ??
        new KeptParts(new StoredParts(policy, rows, env.random), env.clock, call.kept, key);
      policies.set(key, (rollups = new PolicyRollups(policy, parts, storage, env.clock, log)));
    }
    const before = { ...rollups.counts };
    const nowNanos = time.earliestNanos();
    const buffers = readySamples(topology.view.namespaces).map(
      ({ options }) => options.retentionOptions.bufferPastNanos,
    );
    try {
      return await rollups.advance(
        {
          nowNanos,
          sets,
          rulesKnownNanos: rulesKnownUntil(knownNanos),
          bufferPastNanos: buffers.reduce((a, b) => (b > a ? b : a), 0n),
          keptFromNanos,
        },
        env.clock.deadline(stepMillisMax, signal),
      );
    } finally {
      const { counts } = rollups;
      metrics.windows.increase(counts.windows - before.windows);
      metrics.rows.increase(counts.rows - before.rows);
      metrics.corrections.increase(counts.corrections - before.corrections);
      // Also of what cannot be made, which would be seen nowhere else.
      const { resolutionNanos } = policy;
      const dueNanos =
        rollups.endNanos === null
          ? call.sinceNanos
          : rollups.endNanos + resolutionNanos + latenessNanos(resolutionNanos);
      const lagSeconds = Number((time.earliestNanos() - dueNanos) / secondNanos);
      metrics.lagSeconds.set(Math.max(0, lagSeconds), { namespace: name });
    }
  }

  #storageOf({ name, policy }: Target, { leadership, replaced }: Leading): RollupStorage {
    const { kv, cluster, session, idScheme, log } = this.#options;
    const marks = new RollupMarks(kv, cluster);
    const stored = new StoredRollups(session, name, idScheme, log);
    return {
      eachStored: (query, range, visit, signal) => stored.eachLast(query, range, visit, signal),
      write: (some, signal) => stored.write(some, signal),
      finalEnd: (signal) => marks.read(policy, leadership.share, signal),
      noteFinalEnd: async (endNanos, signal) => {
        if (await marks.write(policy, endNanos, leadership, signal)) return;
        replaced.abort(new TsdbError('UNAVAILABLE', 'somebody else makes rollups by now'));
        throw replaced.signal.reason;
      },
    };
  }

  /** Namespaces for which rules make rollups, or have made some. */
  #targets(): Target[] {
    const { topology, rules, session } = this.#options;
    const { isLoaded, awaitsApproval, namespaces, placement } = topology.view;
    const { sets, knownNanos } = rules.known;
    if (!isLoaded || awaitsApproval || placement === null || knownNanos === null) return [];
    if (session.formatLevel < resolutionsFormatLevel) return [];
    const named = sets.all.flatMap((of) => of.rollupPolicies);
    if (named.length === 0) return [];
    return [...namespaces.values()].flatMap((namespace) => {
      if (!isReady(namespace) || !isOfWindows(namespace)) return [];
      const policy = {
        resolutionNanos: aggregationOf(namespace)!.resolutionNanos,
        retentionNanos: namespace.options.retentionOptions.retentionPeriodNanos,
      };
      const isNamed = named.some((each) => isSamePolicy(each, policy));
      return isNamed ? [{ name: namespace.name, policy }] : [];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the process is stopping'));
    await this.#running;
  }
}

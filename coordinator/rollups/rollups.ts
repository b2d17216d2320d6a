/** Makes the rollups of a cluster (docs/AGGREGATION.md, Rollups) for as long as this process leads, by a lease in the key-value store. */
import type { KnownRules } from '#cluster/aggregation_rules/sets/follower.ts';
import type { StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import { type ClusterName, rollupsPrefix } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { aggregationOf, isReady } from '#cluster/namespaces/namespaces.ts';
import { isOfWindows, readySamples } from '#cluster/namespaces/samples.ts';
import type { Session } from '#cluster/session/session.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { resolutionsFormatLevel } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { IdScheme } from '#lib/series_id/scheme.ts';
import { type Leadership, RollupMarks } from './marks.ts';
import type { RollupMetrics } from './metrics.ts';
import { isSamePolicy, PolicyRollups, type RollupStorage } from './policy_rollups.ts';
import { RollupRows } from './rows.ts';
import { StoredRollups } from './stored_rollups.ts';

export interface RollupsOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  readonly topology: Pick<Topology, 'view'>;
  readonly session: Pick<Session, 'fetch' | 'write' | 'formatLevel'>;
  readonly rules: { readonly known: KnownRules };
  readonly idScheme: IdScheme;
  readonly metrics: RollupMetrics;
}

const lookMillis = 1_000;
const leaseSeconds = 10;
/** Until the next attempt, where somebody else leads or something has failed. */
const pauseMillis = 5_000;
/** For some windows of a policy. */
const stepMillisMax = 300_000;
/** How often it is told that they cannot be made. */
const tellMillis = 60_000;
const secondNanos = 1_000_000_000n;

/** An aggregated namespace. */
interface Target {
  readonly name: string;
  readonly policy: StoragePolicy;
}

/** What a leader knows, for as long as it is one. */
interface Leading {
  readonly policies: Map<string, PolicyRollups>;
  readonly leadership: Leadership;
  /** Aborts when somebody else leads. */
  readonly replaced: AbortController;
}

export class Rollups implements AsyncDisposable {
  readonly #options: RollupsOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #toldMillis = Number.NEGATIVE_INFINITY;

  constructor(options: RollupsOptions) {
    this.#options = options;
  }

  start(): this {
    this.#running = this.#run(this.#stop.signal);
    return this;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { env, metrics } = this.#options;
    while (!signal.aborted) {
      let wait = pauseMillis;
      try {
        if (this.#targets().length === 0) wait = lookMillis;
        else await this.#lead(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof TsdbError)) throw error;
        this.#tell(error);
      } finally {
        metrics.leads.set(0);
      }
      await env.clock.sleep(wait, signal).catch(() => {});
    }
  }

  #tell(error: TsdbError): void {
    const { env, log, metrics } = this.#options;
    metrics.failures.increase(1);
    const nowMillis = env.clock.monotonicMillis();
    if (nowMillis - this.#toldMillis < tellMillis) return;
    this.#toldMillis = nowMillis;
    log.warn({ error: messageOf(error) }, 'rollups are not made yet');
  }

  /** Returns when somebody else leads, or when this process does no longer. */
  async #lead(stop: AbortSignal): Promise<void> {
    const { kv, cluster, env, log, metrics } = this.#options;
    const key = `${rollupsPrefix(cluster)}leader`;
    if ((await kv.get(key, stop)) !== null) return;
    await using lease = await kv.lease(leaseSeconds, stop);
    const { succeeded, revision } = await kv.transact(
      [{ key, target: 'createRevision', equals: 0 }],
      [{ kind: 'put', key, value: new Uint8Array(0), leaseId: lease.id }],
      stop,
    );
    if (!succeeded) return;
    log.info({}, 'this process makes rollups');
    metrics.leads.set(1);
    const leadership = { key, createRevision: revision };
    const replaced = new AbortController();
    const signal = AbortSignal.any([stop, lease.lost, replaced.signal]);
    const policies = new Map<string, PolicyRollups>();
    while (!signal.aborted) {
      const targets = this.#targets();
      if (targets.length === 0) return;
      let wait = lookMillis;
      for (const target of targets) {
        try {
          const call = { policies, leadership, replaced };
          if (await this.#advance(target, call, signal)) wait = 0;
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
    const { env, log, topology, rules, session, metrics } = this.#options;
    const { sets, knownNanos } = rules.known;
    const rows = new RollupRows({ session, topology, clock: env.clock });
    const { keptFromNanos } = rows;
    if (knownNanos === null || keptFromNanos === null) return false;
    const key = `${name} ${policy.resolutionNanos}:${policy.retentionNanos}`;
    let rollups = policies.get(key);
    if (rollups === undefined) {
      const storage = this.#storageOf({ name, policy }, rows, call);
      policies.set(key, (rollups = new PolicyRollups(policy, storage, env.clock, log)));
    }
    const before = { ...rollups.counts };
    const nowNanos = env.clock.nowNanos();
    const buffers = readySamples(topology.view.namespaces).map(
      ({ options }) => options.retentionOptions.bufferPastNanos,
    );
    const isMoreDue = await rollups.advance(
      {
        nowNanos,
        sets,
        rulesKnownNanos: knownNanos,
        bufferPastNanos: buffers.reduce((a, b) => (b > a ? b : a), 0n),
        keptFromNanos,
      },
      env.clock.deadline(stepMillisMax, signal),
    );
    const { counts } = rollups;
    metrics.windows.increase(counts.windows - before.windows);
    metrics.rows.increase(counts.rows - before.rows);
    metrics.corrections.increase(counts.corrections - before.corrections);
    const lagNanos = nowNanos - (rollups.endNanos ?? nowNanos);
    metrics.lagSeconds.set(Number(lagNanos / secondNanos), { namespace: name });
    return isMoreDue;
  }

  #storageOf(
    { name, policy }: Target,
    rows: RollupRows,
    { leadership, replaced }: Leading,
  ): RollupStorage {
    const { kv, cluster, session, idScheme } = this.#options;
    const marks = new RollupMarks(kv, cluster);
    const stored = new StoredRollups(session, name, idScheme);
    return {
      each: (query, range, visit, signal) => rows.each(query, range, visit, signal),
      eachStored: (query, range, visit, signal) => stored.eachLast(query, range, visit, signal),
      write: (some, signal) => stored.write(some, signal),
      finalEnd: (signal) => marks.read(policy, signal),
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

/**
 * Leader election by a Lease of the Kubernetes API, as client-go does it: who holds the lease acts;
 * a lease that was not renewed for its duration may be taken; the holder gives it back when it
 * stops.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { type KubeObject, resource } from '../resource/kube_objects.ts';
import { type KubeClient, KubeError } from './kube_api.ts';

const leaseSeconds = 15;
/**
 * The holder stops acting when it could not renew for this long: before another may take the lease.
 */
const renewDeadlineMillis = 10_000;
const retryMillis = 2_000;

export interface LeaseObject extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly renewTime?: string;
    readonly acquireTime?: string;
    readonly leaseTransitions?: number;
  };
}

export interface LeaderOptions {
  readonly api: KubeClient;
  readonly env: Env;
  readonly log: Log;
  readonly namespace: string;
  readonly name: string;
  /** Unique for this process: the pod's name and something random. */
  readonly identity: string;
}

/**
 * Waits for the lease, runs `lead` with a signal that aborts when the lease is lost or the parent
 * aborts, gives the lease back, and returns: after a loss the process should end and start anew.
 * `mayWrite` throws as soon as another may hold the lease: a process that was stopped and goes on
 * has not noticed the loss yet.
 */
export async function leadWhileElected(
  options: LeaderOptions,
  lead: (signal: AbortSignal, mayWrite: () => void) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const elector = new Elector(options);
  await elector.acquire(signal);
  if (signal.aborted) return;
  options.log.info({ identity: options.identity }, 'leading');
  const lost = new AbortController();
  const stopRenewing = new AbortController();
  const renewing = elector.renewUntilLost(lost, stopRenewing.signal);
  try {
    await lead(AbortSignal.any([signal, lost.signal]), () => elector.requireLease());
  } finally {
    stopRenewing.abort();
    await renewing;
    if (!lost.signal.aborted) await elector.release();
  }
}

class Elector {
  readonly #options: LeaderOptions;
  /** What we last saw of the lease, and when by our own clock: clocks of others are not trusted. */
  #seen = { renewal: '', atMillis: 0 };
  /** When the request was sent that took or renewed the lease. */
  #renewedAtMillis = Number.NEGATIVE_INFINITY;

  constructor(options: LeaderOptions) {
    this.#options = options;
  }

  async acquire(signal: AbortSignal): Promise<void> {
    const { env, log } = this.#options;
    while (!signal.aborted) {
      try {
        if ((await this.#tryAcquire(signal)) === 'ours') return;
      } catch (error) {
        if (!signal.aborted) log.warn({ error: messageOf(error) }, 'lease not read');
      }
      await env.clock
        .sleep(retryMillis * (0.8 + env.random.fraction() * 0.4), signal)
        .catch(() => {});
    }
  }

  async renewUntilLost(lost: AbortController, stop: AbortSignal): Promise<void> {
    const { env, log } = this.#options;
    while (!stop.aborted) {
      await env.clock.sleep(retryMillis, stop).catch(() => {});
      if (stop.aborted) return;
      const attempt = env.clock.deadline(retryMillis * 2, stop);
      try {
        if ((await this.#tryAcquire(attempt)) === 'of another') {
          log.error({}, 'another process holds the lease');
          lost.abort(new Error('the lease was lost'));
          return;
        }
      } catch (error) {
        if (stop.aborted) return;
        log.warn({ error: messageOf(error) }, 'lease not renewed');
      }
      if (env.clock.monotonicMillis() - this.#renewedAtMillis > renewDeadlineMillis) {
        log.error({}, 'the lease could not be renewed in time');
        lost.abort(new Error('the lease could not be renewed'));
        return;
      }
    }
  }

  requireLease(): void {
    const age = this.#options.env.clock.monotonicMillis() - this.#renewedAtMillis;
    if (age > renewDeadlineMillis) throw new Error('the lease was not renewed in time');
  }

  /**
   * Takes or renews the lease; 'unknown' when it changed meanwhile, so that it must be read again.
   */
  async #tryAcquire(signal: AbortSignal): Promise<'ours' | 'of another' | 'unknown'> {
    const { api, env, identity, name, namespace } = this.#options;
    const startedAtMillis = env.clock.monotonicMillis();
    const current = (await api.get(resource.lease, namespace, name, signal)) as LeaseObject | null;
    const now = isoMicros(env);
    const metadata = { name, namespace };
    const ours = {
      holderIdentity: identity,
      leaseDurationSeconds: leaseSeconds,
      acquireTime: now,
      renewTime: now,
      leaseTransitions: 0,
    };
    const { apiVersion, kind } = resource.lease;
    try {
      if (current === null) {
        await api.create(resource.lease, { apiVersion, kind, metadata, spec: ours }, signal);
        this.#renewedAtMillis = startedAtMillis;
        return 'ours';
      }
      const spec = current.spec ?? {};
      const held = (spec.holderIdentity ?? '') !== '' && spec.holderIdentity !== identity;
      if (
        held &&
        !this.#hasExpired(spec.renewTime ?? '', spec.leaseDurationSeconds ?? leaseSeconds)
      ) {
        return 'of another';
      }
      const transitions = (spec.leaseTransitions ?? 0) + (held ? 1 : 0);
      const acquireTime = spec.holderIdentity === identity ? (spec.acquireTime ?? now) : now;
      const next = { ...ours, acquireTime, leaseTransitions: transitions };
      await api.replace(resource.lease, { ...current, spec: next }, signal);
      this.#renewedAtMillis = startedAtMillis;
      return 'ours';
    } catch (error) {
      if (error instanceof KubeError && error.status === 409) return 'unknown';
      throw error;
    }
  }

  #hasExpired(renewal: string, seconds: number): boolean {
    const now = this.#options.env.clock.monotonicMillis();
    if (renewal !== this.#seen.renewal) {
      this.#seen = { renewal, atMillis: now };
      return false;
    }
    return now - this.#seen.atMillis > seconds * 1000;
  }

  async release(): Promise<void> {
    const { api, env, identity, log, name, namespace } = this.#options;
    const signal = env.clock.deadline(retryMillis, new AbortController().signal);
    try {
      const current = (await api.get(
        resource.lease,
        namespace,
        name,
        signal,
      )) as LeaseObject | null;
      if (current?.spec?.holderIdentity !== identity) return;
      const spec = { ...current.spec, holderIdentity: '', leaseDurationSeconds: 1 };
      await api.replace(resource.lease, { ...current, spec }, signal);
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'lease not given back; it expires by itself');
    }
  }
}

/** Now with microseconds, as Lease times are written. */
export function isoMicros(env: Env): string {
  const nanos = env.clock.nowNanos();
  const micros = String((nanos / 1000n) % 1_000_000n).padStart(6, '0');
  return `${new Date(Number(nanos / 1_000_000n)).toISOString().slice(0, 19)}.${micros}Z`;
}

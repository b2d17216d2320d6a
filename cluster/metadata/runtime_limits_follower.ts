/**
 * Follows the limits in the key-value store; a value that cannot be used is reported and changes
 * nothing.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { ClusterName } from '../kv/keys.ts';
import { type Kv, RevisionCompacted } from '../kv/kv.ts';
import {
  noRuntimeLimits,
  type RuntimeLimitKey,
  runtimeLimitKeys,
  runtimeLimitPath,
  type RuntimeLimits,
  withRuntimeLimit,
} from './runtime_limits.ts';

export interface RuntimeLimitsFollowerOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  /** Called with the limits that stand, after each change. */
  readonly onChange: (limits: RuntimeLimits) => void;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;

export class RuntimeLimitsFollower implements AsyncDisposable {
  readonly #options: RuntimeLimitsFollowerOptions;
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #limits: RuntimeLimits = noRuntimeLimits;
  /** Values that were not used, for metrics. */
  ignored = 0;

  constructor(options: RuntimeLimitsFollowerOptions) {
    this.#options = options;
  }

  /** Reads and follows the limits from now on. */
  start(): this {
    this.#running = Promise.all(runtimeLimitKeys.map((key) => this.#follow(key)));
    return this;
  }

  async #follow(key: RuntimeLimitKey): Promise<void> {
    const { kv, cluster, env, log } = this.#options;
    const { signal } = this.#stop;
    const path = runtimeLimitPath(cluster, key);
    for (let delay = retryMillisFirst; !signal.aborted; ) {
      try {
        const { items, revision } = await kv.list(path, signal);
        this.#take(key, items.find((item) => item.key === path)?.value ?? null);
        delay = retryMillisFirst;
        for await (const { events } of kv.watch(path, revision + 1, signal)) {
          for (const event of events) {
            if (event.kind === 'put' && event.item.key === path) this.#take(key, event.item.value);
            else if (event.kind === 'delete' && event.key === path) this.#take(key, null);
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RevisionCompacted) continue;
        log.warn({ key, error: messageOf(error) }, 'cannot follow a limit; retrying');
        await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal).catch(() => {});
        delay = Math.min(retryMillisMax, delay * 2);
      }
    }
  }

  #take(key: RuntimeLimitKey, value: Uint8Array | null): void {
    const { log, onChange } = this.#options;
    const text = value === null ? null : new TextDecoder().decode(value);
    let next: RuntimeLimits;
    try {
      const json: unknown = text === null ? null : JSON.parse(text);
      next = withRuntimeLimit(this.#limits, key, json, 'stored');
    } catch (error) {
      this.ignored += 1;
      const fields = { key, value: text!.slice(0, 200), reason: messageOf(error) };
      log.error(fields, 'ignoring the value of a limit: the one before it stands');
      return;
    }
    const isNew = JSON.stringify(next) !== JSON.stringify(this.#limits);
    this.#limits = next;
    if (!isNew) return;
    log.info({ key, value: text ?? 'as configured' }, 'limit changed');
    onChange(next);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the process is stopping'));
    await this.#running;
  }
}

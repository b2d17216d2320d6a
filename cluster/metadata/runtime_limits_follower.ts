/**
 * Follows the limits in the key-value store; a value that cannot be used is reported and changes
 * nothing.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { ClusterName } from '../kv/keys.ts';
import { followKey } from '../kv/follow_key.ts';
import type { Kv } from '../kv/kv.ts';
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
  /** Those that are followed; all when they are not given. */
  readonly keys?: readonly RuntimeLimitKey[];
  /** Called with the limits that stand, after each change. */
  readonly onChange: (limits: RuntimeLimits) => void;
}

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
    const { keys = runtimeLimitKeys } = this.#options;
    this.#running = Promise.all(keys.map((key) => this.#follow(key)));
    return this;
  }

  #follow(key: RuntimeLimitKey): Promise<void> {
    const { kv, cluster, env, log } = this.#options;
    const path = runtimeLimitPath(cluster, key);
    const onValue = (value: Uint8Array | null): void => this.#take(key, value);
    return followKey({ kv, env, log, key: path, onValue }, this.#stop.signal);
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

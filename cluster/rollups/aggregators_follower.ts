/** Follows the placement of aggregators, for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { followPrefix } from '../kv/follow_prefix.ts';
import { aggregatorService, assignmentsKey, type ClusterName, placementKey } from '../kv/keys.ts';
import type { KeyValue, Kv } from '../kv/kv.ts';
import { storedPlacement } from '../placement/store.ts';
import type { KnownAggregators } from './share.ts';

export interface AggregatorsFollowerOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
}

const rereadMillis = 30_000;

export class AggregatorsFollower implements AsyncDisposable {
  readonly #options: AggregatorsFollowerOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #known: KnownAggregators | null = null;
  /** Of a value that cannot be read, which is told once. */
  #damagedRevision = 0;

  constructor(options: AggregatorsFollowerOptions) {
    this.#options = options;
  }

  start(): this {
    const { kv, cluster, env, log } = this.#options;
    const prefix = placementKey(cluster, aggregatorService);
    const onItems = (items: ReadonlyMap<string, KeyValue>): void => this.#take(items);
    const options = { kv, env, log, prefix, rereadMillis, onItems };
    this.#running = followPrefix(options, this.#stop.signal);
    return this;
  }

  /** Null until it was read, and while it cannot be. */
  get known(): KnownAggregators | null {
    return this.#known;
  }

  #take(items: ReadonlyMap<string, KeyValue>): void {
    const { cluster, log } = this.#options;
    const item = items.get(placementKey(cluster, aggregatorService));
    if (item === undefined) {
      this.#known = { placement: null, modRevision: 0 };
      return;
    }
    const { modRevision } = item;
    if (this.#known?.modRevision === modRevision) return;
    try {
      const assignments = items.get(assignmentsKey(cluster, aggregatorService)) ?? null;
      const { value: placement } = storedPlacement(item, assignments);
      this.#known = { placement, modRevision };
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.#known = null;
      if (this.#damagedRevision === modRevision) return;
      this.#damagedRevision = modRevision;
      log.error({ error: messageOf(error) }, 'the placement of aggregators cannot be read');
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the process is stopping'));
    await this.#running;
  }
}

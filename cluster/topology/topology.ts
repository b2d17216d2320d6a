/**
 * The cluster as this process knows it: placement and namespaces, read from the key-value store and
 * followed by watches. While the store cannot be reached the last known state stands.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import {
  assignmentsKey,
  type ClusterName,
  namespaceNumbersKey,
  namespacesKey,
  placementKey,
  storageService,
} from '../kv/keys.ts';
import { type KeyValue, type Kv, RevisionCompacted } from '../kv/kv.ts';
import { emptyRegistry, type NamespaceRegistry } from '../namespaces/namespaces.ts';
import { storedRegistry } from '../namespaces/store.ts';
import { Ownership } from './ownership.ts';
import type { Placement } from '../placement/placement.ts';
import { storedPlacement } from '../placement/store.ts';

/** One state of the cluster; never changes. */
export interface TopologyView {
  /** False until the store was read for the first time. */
  readonly isLoaded: boolean;
  readonly placement: Placement | null;
  /** 0 without a placement. */
  readonly placementVersion: number;
  readonly ownership: Ownership | null;
  readonly namespaces: NamespaceRegistry;
  /** `modRevision` of their key; 0 when there is none. */
  readonly namespacesRevision: number;
}

export interface TopologySource {
  readonly view: TopologyView;
  /** Reads the store now; resolves to the view then. Rejects when the store cannot be reached. */
  refresh(signal: AbortSignal): Promise<TopologyView>;
}

export const emptyView: TopologyView = {
  isLoaded: false,
  placement: null,
  placementVersion: 0,
  ownership: null,
  namespaces: emptyRegistry,
  namespacesRevision: 0,
};

export interface TopologyOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  /** Default 'tsdb'. */
  readonly service?: string;
  readonly env: Env;
  readonly log: Log;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;

/** What one watched key holds, and the revision that said so. */
interface Known {
  readonly modRevision: number;
  readonly item: KeyValue | null;
}

export class Topology implements TopologySource, AsyncDisposable {
  #current: TopologyView = emptyView;
  readonly #options: TopologyOptions;
  readonly #placementKey: string;
  readonly #assignmentsKey: string;
  readonly #namespacesKey: string;
  readonly #numbersKey: string;
  readonly #known = new Map<string, Known>();
  /** The newest assignments and numbers of namespaces that were seen, by key. */
  readonly #beside = new Map<string, KeyValue>();
  readonly #listeners = new Set<(view: TopologyView) => void>();
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: TopologyOptions) {
    this.#options = options;
    this.#placementKey = placementKey(options.cluster, options.service ?? storageService);
    this.#assignmentsKey = assignmentsKey(options.cluster, options.service ?? storageService);
    this.#namespacesKey = namespacesKey(options.cluster);
    this.#numbersKey = namespaceNumbersKey(options.cluster);
  }

  /** Reads and follows the store from now on; `whenLoaded` waits for the first state. */
  start(): this {
    this.#running = Promise.all([
      this.#follow(this.#placementKey),
      this.#follow(this.#namespacesKey),
    ]);
    return this;
  }

  get view(): TopologyView {
    return this.#current;
  }

  /** Calls back after each change, with the view that stands. */
  subscribe(listener: (view: TopologyView) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** The first view of which this holds, at once when it is the current one. */
  until(holds: (view: TopologyView) => boolean, signal: AbortSignal): Promise<TopologyView> {
    return new Promise((resolve, reject) => {
      if (holds(this.#current)) return resolve(this.#current);
      if (signal.aborted) return reject(signal.reason as Error);
      const settle = () => {
        subscription[Symbol.dispose]();
        signal.removeEventListener('abort', onAbort);
      };
      const onAbort = () => {
        settle();
        reject(signal.reason as Error);
      };
      const subscription = this.subscribe((view) => {
        if (!holds(view)) return;
        settle();
        resolve(view);
      });
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  whenLoaded(signal: AbortSignal): Promise<TopologyView> {
    return this.until(({ isLoaded }) => isLoaded, signal);
  }

  async refresh(signal: AbortSignal): Promise<TopologyView> {
    const { kv } = this.#options;
    for (const key of [this.#placementKey, this.#namespacesKey]) {
      const { items, revision } = await kv.list(key, signal);
      this.#adoptListed(key, items, revision);
    }
    return this.#current;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the topology is closed'));
    await this.#running;
  }

  /** Lists one key and watches it from there, again and again until closed. */
  async #follow(key: string): Promise<void> {
    const { kv, env, log } = this.#options;
    const { signal } = this.#stop;
    let delayMillis = retryMillisFirst;
    while (!signal.aborted) {
      try {
        const { items, revision } = await kv.list(key, signal);
        this.#adoptListed(key, items, revision);
        delayMillis = retryMillisFirst;
        for await (const { events } of kv.watch(key, revision + 1, signal)) {
          const items = events.flatMap((event) => (event.kind === 'put' ? [event.item] : []));
          for (const event of events) {
            if (event.kind === 'put' && event.item.key === key) {
              const { modRevision } = event.item;
              this.#noteBeside(items, modRevision);
              this.#adopt(key, event.item, modRevision);
            } else if (event.kind === 'delete' && event.key === key) {
              this.#adopt(key, null, event.modRevision);
            }
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RevisionCompacted) continue;
        log.warn({ key, error: messageOf(error) }, 'cannot follow the key-value store; retrying');
        await env.clock.sleep(delayMillis * (0.5 + env.random.fraction()), signal).catch(() => {});
        delayMillis = Math.min(retryMillisMax, delayMillis * 2);
      }
    }
  }

  #adoptListed(key: string, items: readonly KeyValue[], revision: number): void {
    const item = items.find((each) => each.key === key) ?? null;
    this.#noteBeside(items, revision);
    this.#adopt(key, item, item?.modRevision ?? revision);
  }

  /** What came with the placement or the namespaces of this revision, or is older. */
  #noteBeside(items: readonly KeyValue[], revision: number): void {
    for (const item of items) {
      const isBeside = item.key === this.#assignmentsKey || item.key === this.#numbersKey;
      if (!isBeside || item.modRevision > revision) continue;
      const known = this.#beside.get(item.key);
      if (item.modRevision > (known?.modRevision ?? 0)) this.#beside.set(item.key, item);
    }
  }

  /**
   * Takes a key's state unless a later one is known; a value that cannot be read changes nothing.
   */
  #adopt(key: string, item: KeyValue | null, modRevision: number): void {
    const before = this.#known.get(key);
    if (before !== undefined && before.modRevision >= modRevision) return;
    const isSame = before !== undefined && before.item === null && item === null;
    this.#known.set(key, { modRevision, item });
    if (isSame) return;
    let next: TopologyView;
    try {
      next = key === this.#placementKey ? this.#withPlacement(item) : this.#withNamespaces(item);
    } catch (error) {
      this.#options.log.error({ key, error: messageOf(error) }, 'ignoring a damaged value');
      return;
    }
    this.#current = { ...next, isLoaded: this.#known.size === 2 };
    for (const listener of this.#listeners) listener(this.#current);
  }

  #withPlacement(item: KeyValue | null): TopologyView {
    if (item === null) {
      return { ...this.#current, placement: null, placementVersion: 0, ownership: null };
    }
    const { value, version } = storedPlacement(
      item,
      this.#beside.get(this.#assignmentsKey) ?? null,
    );
    return {
      ...this.#current,
      placement: value,
      placementVersion: version,
      ownership: new Ownership(value),
    };
  }

  #withNamespaces(item: KeyValue | null): TopologyView {
    const numbers = this.#beside.get(this.#numbersKey) ?? null;
    const namespaces = item === null ? emptyRegistry : storedRegistry(item, numbers).value;
    return { ...this.#current, namespaces, namespacesRevision: item?.modRevision ?? 0 };
  }
}

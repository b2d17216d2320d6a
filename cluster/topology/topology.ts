/**
 * The cluster as this process knows it: placement and namespaces, read from the key-value store and
 * followed by watches. While the store cannot be reached the last known state stands; so it does when
 * what the store has does not follow from it (kv/lineage.ts), until that is approved.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { untilAborted } from '#lib/env/wait.ts';
import type { Log } from '#lib/log.ts';
import {
  assignmentsKey,
  type ClusterName,
  lineageKey,
  namespaceNumbersKey,
  namespacesKey,
  placementKey,
  storageService,
} from '../kv/keys.ts';
import {
  type KeyValue,
  type Kv,
  type Listing,
  RevisionCompacted,
  type WatchEvent,
} from '../kv/kv.ts';
import {
  breakBetween,
  lineageToStored,
  nextLineage,
  type SeenKey,
  type StoreLineage,
  storedLineage,
} from '../kv/lineage.ts';
import { encodeJson } from '../kv/stored_json.ts';
import { emptyRegistry, type NamespaceRegistry } from '../namespaces/namespaces.ts';
import {
  type EndedNamespaces,
  joinedRegistry,
  noneEnded,
  withoutEnded,
} from '../namespaces/numbers.ts';
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
  /** Those that were deleted, be it long ago. */
  readonly endedNamespaces: EndedNamespaces;
  /** `modRevision` of their key; 0 when there is none. */
  readonly namespacesRevision: number;
  /** Lineage of the store (kv/lineage.ts) that placement and namespaces are of. */
  readonly lineageId: string;
  /** The one that the store has now: another one as long as it awaits approval. */
  readonly storeLineageId: string;
  /** Lineages that it goes on from, the oldest first. */
  readonly storeFollows: readonly string[];
  /** Nobody changes placement or namespaces. */
  readonly awaitsApproval: boolean;
}

/** What a process knows of the store: a start goes on from what the one before it knew. */
export interface KnownStore {
  readonly lineageId: string;
  /** The highest one that was seen. */
  readonly revision: number;
  /** Null where the store had none. */
  readonly placement: KeyValue | null;
  readonly assignments: KeyValue | null;
  readonly namespaces: KeyValue | null;
  readonly numbers: KeyValue | null;
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
  endedNamespaces: noneEnded,
  namespacesRevision: 0,
  lineageId: '',
  storeLineageId: '',
  storeFollows: [],
  awaitsApproval: false,
};

export interface TopologyOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  /** Default 'tsdb'. */
  readonly service?: string;
  readonly env: Env;
  readonly log: Log;
  /** What the process before this one knew; null for nothing. */
  readonly remembered?: () => Promise<KnownStore | null>;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;
/** A watch says nothing of a store that went back: how often all is read anew. */
const rereadMillis = 10_000;

/** What one watched key holds, and the revision that said so. */
interface Known extends SeenKey {
  readonly item: KeyValue | null;
}

/** What was known when a read began. */
interface Before {
  readonly revision: number;
  readonly known: ReadonlyMap<string, Known>;
}

export class Topology implements TopologySource, AsyncDisposable {
  #current: TopologyView = emptyView;
  readonly #options: TopologyOptions;
  readonly #placementKey: string;
  readonly #assignmentsKey: string;
  readonly #lineageKey: string;
  readonly #namespacesKey: string;
  readonly #numbersKey: string;
  readonly #known = new Map<string, Known>();
  /** The lineage that approval is waited for, as of the highest revision that was seen. */
  #awaited: { readonly lineageId: string; readonly revision: number } | null = null;
  /** What of the watched keys, and those beside them, could be read last: the next start goes on from that. */
  readonly #readable = new Map<string, KeyValue | null>();
  /** Why the values of watched keys cannot be read that stand now. */
  readonly #damaged = new Map<string, string>();
  /** The newest assignments and numbers of namespaces that were seen, by key. */
  readonly #beside = new Map<string, KeyValue>();
  readonly #listeners = new Set<(view: TopologyView) => void>();
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  /** The highest revision that was seen of the lineage that is followed. */
  #revision = 0;
  /** Null until something is known of the store. */
  #lineageId: string | null = null;
  /** Ends the watches when the store turns out to have gone back. */
  #renewal = new AbortController();
  #remembering: Promise<void> | null = null;
  /** One at a time, so that what is known when one begins is older than what it reads. */
  #reading: Promise<void> = Promise.resolve();
  /** The one after it, which begins after whoever waits for it has asked. */
  #nextReading: Promise<void> | null = null;

  constructor(options: TopologyOptions) {
    this.#options = options;
    this.#placementKey = placementKey(options.cluster, options.service ?? storageService);
    this.#assignmentsKey = assignmentsKey(options.cluster, options.service ?? storageService);
    this.#lineageKey = lineageKey(options.cluster, options.service ?? storageService);
    this.#namespacesKey = namespacesKey(options.cluster);
    this.#numbersKey = namespaceNumbersKey(options.cluster);
  }

  /** Reads and follows the store from now on; `whenLoaded` waits for the first state. */
  start(): this {
    const { env, log } = this.#options;
    env.clock.every(
      rereadMillis,
      async () => void (await this.refresh(this.#stop.signal)),
      (error) => log.debug({ error: messageOf(error) }, 'cannot read placement and namespaces'),
      this.#stop.signal,
    );
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

  /** What the process before this one knew, or what the store has when it was read meanwhile. */
  async recall(): Promise<TopologyView> {
    await this.#remember();
    return this.#current;
  }

  whenLoaded(signal: AbortSignal): Promise<TopologyView> {
    return this.until(({ isLoaded }) => isLoaded, signal);
  }

  async refresh(signal: AbortSignal): Promise<TopologyView> {
    await this.#read(signal);
    return this.#current;
  }

  /** Keys of which the values that stand cannot be read: what was known before goes on. */
  get damagedKeys(): readonly string[] {
    return [...this.#damaged.keys()];
  }

  /** What is to be remembered for the next start; null as long as nothing is known. */
  get known(): KnownStore | null {
    if (this.#lineageId === null) return null;
    return {
      lineageId: this.#lineageId,
      revision: this.#revision,
      placement: this.#readable.get(this.#placementKey) ?? null,
      assignments: this.#readable.get(this.#assignmentsKey) ?? null,
      namespaces: this.#readable.get(this.#namespacesKey) ?? null,
      numbers: this.#readable.get(this.#numbersKey) ?? null,
    };
  }

  /**
   * Gives the store a lineage of its own, for those who know that it has gone back.
   * @param reason in words, for the log
   */
  async forsake(reason: string, signal: AbortSignal): Promise<void> {
    const { kv } = this.#options;
    const { storeLineageId } = this.#current;
    await this.#read(signal);
    if (this.#current.storeLineageId !== storeLineageId) return;
    await this.#declare(storedLineage(await kv.get(this.#lineageKey, signal)), reason);
    await this.#read(signal);
  }

  async #declare(stored: StoreLineage, reason: string): Promise<void> {
    const { kv, env, log, remembered } = this.#options;
    // Who remembers nothing tells nobody what it knew either (node/identity/store_memory.ts), so that
    // an approval would never go on from its lineage where no other process knows of that.
    const untold = remembered === undefined && this.#lineageId !== null ? [this.#lineageId] : [];
    const next = nextLineage(stored, env.random.bytes(8).toHex(), untold);
    log.error(
      { reason, lineage: next.id },
      'the key-value store has gone back, or is another one: placement and namespaces stay as they are known until "tsdbctl placement approve"',
    );
    await kv.transact(
      [{ key: this.#lineageKey, target: 'modRevision', equals: stored.modRevision }],
      [{ kind: 'put', key: this.#lineageKey, value: encodeJson(lineageToStored(next)) }],
      this.#stop.signal,
    );
  }

  /** What is known is of another lineage than the store's. */
  get #isBehind(): boolean {
    return this.#current.lineageId !== this.#current.storeLineageId;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the topology is closed'));
    await this.#running;
  }

  /** Takes what the process before this one knew, once. */
  #remember(): Promise<void> {
    this.#remembering ??= (async () => {
      const known = (await this.#options.remembered?.()) ?? null;
      if (known === null || this.#lineageId !== null) return;
      this.#lineageId = known.lineageId;
      this.#revision = known.revision;
      const { placement, namespaces, revision } = known;
      for (const item of [known.assignments, known.numbers]) {
        if (item !== null) this.#beside.set(item.key, item);
      }
      this.#current = {
        ...this.#current,
        lineageId: known.lineageId,
        storeLineageId: known.lineageId,
      };
      this.#adopt(this.#placementKey, placement, placement?.modRevision ?? revision);
      this.#adopt(this.#namespacesKey, namespaces, namespaces?.modRevision ?? revision);
    })();
    return this.#remembering;
  }

  /** Reads everything, begun after this call, and takes it when it follows from what is known. */
  #read(signal: AbortSignal): Promise<void> {
    this.#nextReading ??= this.#reading.then(() => {
      this.#nextReading = null;
      const reading = this.#readNow();
      this.#reading = reading.catch(() => {});
      return reading;
    });
    return untilAborted(this.#nextReading, signal);
  }

  async #readNow(): Promise<void> {
    const { kv } = this.#options;
    const { signal } = this.#stop;
    await this.#remember();
    for (;;) {
      const before: Before = { revision: this.#revision, known: new Map(this.#known) };
      const awaited = this.#awaited;
      const placement = await kv.list(this.#placementKey, signal);
      const namespaces = await kv.list(this.#namespacesKey, signal);
      const lineage = storedLineage(itemOf(placement, this.#lineageKey));
      const known = this.#lineageId;
      let reason: string | null;
      if (known === null) reason = null;
      else if (known === lineage.id) reason = this.#breakSince(before, placement, namespaces);
      else if (awaited?.lineageId === lineage.id && namespaces.revision < awaited.revision) {
        // It went back once more, and what instances said of it may be of before.
        reason = wentBack(namespaces.revision, awaited.revision);
      } else if (lineage.awaitsApproval) return this.#await(lineage, namespaces);
      else if (lineage.follows.includes(known)) {
        return this.#takeAnew(lineage, placement, namespaces);
      } else reason = `its lineage is ${lineage.id}, and was ${known}`;
      if (reason === null) return this.#take(lineage, placement, namespaces);
      await this.#declare(lineage, reason);
    }
  }

  #breakSince({ revision, known }: Before, ...listings: readonly Listing[]): string | null {
    for (const [i, key] of [this.#placementKey, this.#namespacesKey].entries()) {
      const listing = listings[i]!;
      if (listing.revision < revision) {
        return wentBack(listing.revision, revision);
      }
      const seen = known.get(key);
      const item = itemOf(listing, key);
      const now = { item, modRevision: item?.modRevision ?? listing.revision };
      const reason = seen === undefined ? null : breakBetween(seen, now);
      if (reason !== null) return `${key}: ${reason}`;
    }
    return null;
  }

  #take(lineage: StoreLineage, placement: Listing, namespaces: Listing): void {
    const wasBehind = this.#isBehind;
    if (wasBehind) this.#known.clear();
    this.#lineageId = lineage.id;
    this.#revision = Math.max(this.#revision, placement.revision, namespaces.revision);
    const { id, follows, awaitsApproval } = lineage;
    const { isLoaded, storeLineageId, awaitsApproval: awaited } = this.#current;
    const isSame = isLoaded && id === storeLineageId && awaitsApproval === awaited;
    this.#current = {
      ...this.#current,
      lineageId: id,
      storeLineageId: id,
      storeFollows: follows,
      awaitsApproval,
    };
    this.#adoptListed(this.#placementKey, placement);
    this.#adoptListed(this.#namespacesKey, namespaces);
    this.#checkReadable();
    this.#current = { ...this.#current, isLoaded: true };
    if (!isSame) this.#tell();
    if (wasBehind) this.#renew();
  }

  /**
   * A value that cannot be read is not one that is not there: who has known none before has not read
   * the store.
   * @throws {TsdbError} UNAVAILABLE
   */
  #checkReadable(): void {
    for (const [key, reason] of this.#damaged) {
      if (!this.#readable.has(key)) throw new TsdbError('UNAVAILABLE', reason);
    }
  }

  /** Revisions and versions of the lineage before this one say nothing any more. */
  #takeAnew(lineage: StoreLineage, placement: Listing, namespaces: Listing): void {
    if (this.#isBehind) {
      this.#options.log.info({ lineage: lineage.id }, 'the key-value store is approved');
    }
    this.#known.clear();
    this.#beside.clear();
    this.#revision = 0;
    this.#take(lineage, placement, namespaces);
    this.#renew();
  }

  /** What is known stands, with the namespaces that are not known: none that was deleted comes back. */
  #await(lineage: StoreLineage, namespaces: Listing): void {
    this.#awaited = { lineageId: lineage.id, revision: namespaces.revision };
    const isNew = this.#current.storeLineageId !== lineage.id;
    if (isNew) {
      this.#options.log.warn(
        { lineage: lineage.id },
        'the lineage of the key-value store awaits "tsdbctl placement approve"',
      );
    }
    const item = itemOf(namespaces, this.#namespacesKey);
    const numbers = itemOf(namespaces, this.#numbersKey);
    const stored = item === null ? emptyRegistry : storedRegistry(item, numbers).value;
    const { namespaces: own, endedNamespaces, isLoaded } = this.#current;
    const joined = joinedRegistry(own, withoutEnded(stored, endedNamespaces));
    const isSame = [...joined].every(([name, { number }]) => own.get(name)?.number === number);
    this.#current = {
      ...this.#current,
      namespaces: isSame ? own : joined,
      storeLineageId: lineage.id,
      storeFollows: lineage.follows,
      awaitsApproval: true,
      isLoaded: true,
    };
    if (isNew || !isSame || !isLoaded) this.#tell();
    if (isNew) this.#renew();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener(this.#current);
  }

  /** Watches begin from what is read now. */
  #renew(): void {
    this.#renewal.abort();
    this.#renewal = new AbortController();
  }

  /** Lists everything and watches one key from there, again and again until closed. */
  async #follow(key: string): Promise<void> {
    const { kv, env, log } = this.#options;
    const { signal } = this.#stop;
    let delayMillis = retryMillisFirst;
    let isFailing = false;
    while (!signal.aborted) {
      try {
        const { revision } = await kv.list(key, signal);
        await this.#read(signal);
        delayMillis = retryMillisFirst;
        if (isFailing) log.info({ key }, 'the key-value store is followed again');
        isFailing = false;
        const until = AbortSignal.any([signal, this.#renewal.signal]);
        for await (const { events } of kv.watch(key, revision + 1, until)) {
          if (until.aborted) break;
          await this.#note(key, events);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RevisionCompacted) continue;
        // Once for as long as it lasts: a process follows a dozen keys.
        const fields = { key, error: messageOf(error) };
        if (!isFailing) log.warn(fields, 'cannot follow the key-value store; retrying');
        isFailing = true;
        await env.clock.sleep(delayMillis * (0.5 + env.random.fraction()), signal).catch(() => {});
        delayMillis = Math.min(retryMillisMax, delayMillis * 2);
      }
    }
  }

  async #note(key: string, events: readonly WatchEvent[]): Promise<void> {
    const isOfLineage = events.some(
      (event) => event.kind === 'put' && event.item.key === this.#lineageKey,
    );
    if (isOfLineage || this.#isBehind || this.#damaged.size > 0) {
      await this.#read(this.#stop.signal);
      return;
    }
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

  #adoptListed(key: string, { items, revision }: Listing): void {
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
    // What could not be read may be right now, by the key beside it.
    const isToRetry = this.#damaged.has(key) && before?.modRevision === modRevision;
    if (before !== undefined && before.modRevision >= modRevision && !isToRetry) return;
    const isSame = before !== undefined && before.item === null && item === null;
    this.#known.set(key, { modRevision, item });
    if (isSame) return;
    let next: TopologyView;
    try {
      next = key === this.#placementKey ? this.#withPlacement(item) : this.#withNamespaces(item);
    } catch (error) {
      const reason = messageOf(error);
      if (this.#damaged.get(key) === reason) return;
      this.#damaged.set(key, reason);
      this.#options.log.error(
        { key, error: reason },
        'ignoring a damaged value: what was known before stands until it is right',
      );
      return;
    }
    this.#damaged.delete(key);
    this.#readable.set(key, item);
    const beside = key === this.#placementKey ? this.#assignmentsKey : this.#numbersKey;
    this.#readable.set(beside, this.#beside.get(beside) ?? null);
    this.#current = next;
    this.#tell();
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
    const stored = item === null ? null : storedRegistry(item, numbers);
    return {
      ...this.#current,
      namespaces: stored?.value ?? emptyRegistry,
      endedNamespaces: stored?.ended ?? noneEnded,
      namespacesRevision: item?.modRevision ?? 0,
    };
  }
}

function wentBack(revision: number, seen: number): string {
  return `its revision is ${revision}, and was ${seen}`;
}

function itemOf({ items }: Listing, key: string): KeyValue | null {
  return items.find((item) => item.key === key) ?? null;
}

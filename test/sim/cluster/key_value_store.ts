/**
 * The key-value store itself, which outlives its clients' connections: it may be brought back to
 * what a backup has of it, as `etcdctl snapshot restore` does.
 */
import type { KeyValue, Operation, WatchBatch, WatchEvent } from '#cluster/kv/kv.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import type { Clock } from '#lib/env/env.ts';

/** The store at a moment. */
export interface Backup {
  readonly revision: number;
  readonly compactRevision: number;
  /** All batches up to it. */
  readonly past: readonly WatchBatch[];
}

/** No process reads or watches it. */
const raisedKey = 'raised';

export class KeyValueStore {
  readonly #clock: Clock;
  #memory: MemoryKvStore;
  /** All batches since the beginning. */
  #past: WatchBatch[] = [];
  #isAway = false;
  readonly #listeners = new Set<() => void>();
  /** Called when it goes away, which ends all connections, and when it is there again. */
  readonly onPresence: Set<() => void> = new Set();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#memory = this.#follow(new MemoryKvStore({ clock }));
  }

  /** What clients connect to; null while it is away. */
  get memory(): MemoryKvStore | null {
    return this.#isAway ? null : this.#memory;
  }

  get(key: string): KeyValue | null {
    return this.#memory.get(key);
  }

  /** Calls the listener after every change. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  compact(): void {
    const { revision, compactRevision } = this.#memory;
    if (revision > compactRevision) this.#memory.compact();
  }

  backUp(): Backup {
    const { revision, compactRevision } = this.#memory;
    return { revision, compactRevision, past: [...this.#past] };
  }

  goAway(): void {
    this.#isAway = true;
    for (const tell of this.onPresence) tell();
  }

  /**
   * It is there again, with keys and revisions of the backup.
   * @param raisedBy revisions that it is ahead of the backup, none of which a watch may ask for:
   *   `--bump-revision` and `--mark-compacted` of etcd. Keys keep the revisions that they have in
   *   the backup in either case. 0 for none
   */
  restore({ past, compactRevision }: Backup, raisedBy: number): void {
    const memory = new MemoryKvStore({ clock: this.#clock });
    this.#past = [...past];
    for (const { events } of this.#past) memory.transact([], events.map(operationOf));
    this.#memory = this.#follow(memory);
    const raise = { kind: 'put', key: raisedKey, value: new Uint8Array(0) } as const;
    for (let left = raisedBy; left > 0; left -= 1) memory.transact([], [raise]);
    const compacted = raisedBy > 0 ? memory.revision : compactRevision;
    if (compacted > 0) memory.compact(compacted);
    this.#isAway = false;
    for (const tell of this.onPresence) tell();
    for (const tell of this.#listeners) tell();
  }

  #follow(memory: MemoryKvStore): MemoryKvStore {
    let next = memory.revision + 1;
    memory.onChange(() => {
      for (const batch of memory.since(next)) {
        this.#past.push(batch);
        next = batch.revision + 1;
      }
      for (const tell of this.#listeners) tell();
    });
    return memory;
  }
}

function operationOf(event: WatchEvent): Operation {
  if (event.kind === 'delete') return event;
  const { key, value } = event.item;
  return { kind: 'put', key, value };
}

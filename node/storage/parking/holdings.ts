/**
 * What this folder holds (persist/held_file.ts), whoever owns it now: shards that a placement took away,
 * and namespaces that a registry lost, are held until they are parked, or removed because they were
 * handed over or deleted.
 */
import {
  type EndedNamespaces,
  hasEnded,
  isSameNamespace,
  namespaceNumber,
} from '#cluster/namespaces/numbers.ts';
import {
  type Namespace,
  type NamespaceRegistry,
  registryOf,
} from '#cluster/namespaces/namespaces.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { type Held, heldFile, readHeld, writeHeld } from '../../persist/held_file.ts';

export const nothingHeld: Held = { shardCount: 0, shards: new Set(), namespaces: registryOf([]) };

export class Holdings implements Held {
  readonly #env: Env;
  readonly #dataFolder: string;
  #held: Held;
  /** Counts what was added and taken away. */
  #changes = 0;
  /** Of these, what is on disk. */
  #savedChanges = 0;
  #saving: Promise<void> | null = null;

  private constructor(env: Env, dataFolder: string, held: Held) {
    this.#env = env;
    this.#dataFolder = dataFolder;
    this.#held = held;
  }

  /** @param former what a folder holds that does not say it, or not in a way that can be read */
  static async open(env: Env, log: Log, dataFolder: string, former: Held): Promise<Holdings> {
    let held: Held | null = null;
    try {
      held = await readHeld(env.disk, dataFolder);
    } catch (error) {
      log.error(
        { path: `${dataFolder}/${heldFile}`, error: messageOf(error) },
        'what the folder holds cannot be read: taken for what was known last of placement and namespaces',
      );
    }
    return new Holdings(env, dataFolder, held ?? former);
  }

  get shardCount(): number {
    return this.#held.shardCount;
  }

  get shards(): ReadonlySet<number> {
    return this.#held.shards;
  }

  get namespaces(): NamespaceRegistry {
    return this.#held.namespaces;
  }

  /** Shards of a placement with so many of them have nothing to do with those that are here. */
  isOfOtherCount(shardCount: number): boolean {
    return this.#held.shards.size > 0 && this.#held.shardCount !== shardCount;
  }

  /**
   * Holds shards and namespaces from now on, of which rows will be taken. A namespace that is here
   * stays what it is until it is gone, unless it was deleted.
   * @throws {TsdbError} UNAVAILABLE when the disk fails
   */
  async add(
    shardCount: number,
    shards: readonly number[],
    registry: NamespaceRegistry,
    ended: EndedNamespaces,
  ): Promise<void> {
    const before = this.#held;
    const isNew = shards.some((id) => !before.shards.has(id));
    const namespaces = new Map(before.namespaces);
    let isChanged = isNew;
    for (const next of registry.values()) {
      const known = namespaces.get(next.name);
      if (known === next) continue;
      const isOther = known !== undefined && !isSameNamespace(known, next, ended);
      if (isOther && !hasEnded(known, ended)) continue;
      namespaces.set(next.name, next);
      isChanged = true;
    }
    if (isChanged) {
      this.#change({
        shardCount: shards.length > 0 ? shardCount : before.shardCount,
        shards: before.shards.union(new Set(shards)),
        namespaces,
      });
    }
    await this.save();
  }

  /** Whether rows of these may be taken: it is on disk that they are here. */
  hasAll(shards: readonly number[]): boolean {
    return shards.every((id) => this.#held.shards.has(id));
  }

  /** Rows of these are not here any more. It is on disk after `save`. */
  removeShards(ids: Iterable<number>): void {
    const shards = this.#held.shards.difference(new Set(ids));
    if (shards.size < this.#held.shards.size) this.#change({ ...this.#held, shards });
  }

  /** The same of a namespace, unless another one of its name is here by now. */
  removeNamespace(gone: Namespace): void {
    const known = this.#held.namespaces.get(gone.name);
    if (known === undefined || namespaceNumber(known) !== namespaceNumber(gone)) return;
    const namespaces = new Map(this.#held.namespaces);
    namespaces.delete(gone.name);
    this.#change({ ...this.#held, namespaces });
  }

  #change(held: Held): void {
    this.#held = held;
    this.#changes += 1;
  }

  /**
   * Resolves when the folder says what it holds now.
   * @throws {TsdbError} UNAVAILABLE when the disk fails: to be called again
   */
  async save(): Promise<void> {
    while (this.#savedChanges < this.#changes) {
      this.#saving ??= this.#write().finally(() => {
        this.#saving = null;
      });
      await this.#saving;
    }
  }

  async #write(): Promise<void> {
    const changes = this.#changes;
    try {
      await writeHeld(this.#env.disk, this.#dataFolder, this.#held);
    } catch (error) {
      throw new TsdbError('UNAVAILABLE', `cannot write ${heldFile}: ${messageOf(error)}`, {
        cause: error,
      });
    }
    this.#savedChanges = changes;
  }
}

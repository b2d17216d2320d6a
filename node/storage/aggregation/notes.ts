/**
 * From which raw filesets the windows of each slice were made, in a file of the data folder. What is not noted is made
 * once more, and comes to the same bytes.
 */
import type { Disk } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { readCheckedJson, writeCheckedJson } from '../../persist/checked_json.ts';
import type { Slice } from './slices.ts';

export const notesFile = 'windows.json';

/** Number of an aggregated namespace and shard, "1700000000001/3". */
export type ShardKey = `${number}/${number}`;
/** Of a slice, with its start and its length, "1700000000001/3/1700000000000000000+43200000000000". */
export type SliceKey = `${ShardKey}/${bigint}+${bigint}`;

export function sliceKey(shard: ShardKey, { startNanos, endNanos }: Slice): SliceKey {
  return `${shard}/${startNanos}+${endNanos - startNanos}`;
}

/** What is known of a slice. Its length is its own, whatever slices are cut to later. */
export interface SliceNote extends Slice {
  /** Names the raw filesets and the deletions that they were read without. */
  readonly madeOf: string;
  /** Version of the last deletion of the aggregated namespace in its time, which cuts windows by theirs; -1 for none. */
  readonly deletions: number;
  /** There were any: the fileset that has them may be lost since. */
  readonly hasWindows: boolean;
  /** Some of what they were made of is gone, whatever is said of the raw rows later. */
  readonly isFrozen?: true;
}

type StoredNote = Omit<SliceNote, keyof Slice>;

export class SliceNotes {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #shards = new Map<ShardKey, Map<SliceKey, SliceNote>>();
  #isChanged = false;

  private constructor(disk: Disk, path: string) {
    this.#disk = disk;
    this.#path = path;
  }

  /** What is damaged says nothing: all is made once more. */
  static async open(disk: Disk, log: Log, dataFolder: string): Promise<SliceNotes> {
    const path = `${dataFolder}/${notesFile}`;
    const notes = new SliceNotes(disk, path);
    try {
      const stored = await readCheckedJson(disk, path);
      const all = Object.entries((stored ?? {}) as Record<string, StoredNote>);
      notes.#take(all.map(([key, note]) => ({ ...partsOfKey(key), note })));
    } catch (error) {
      log.error(
        { path, error: messageOf(error) },
        'notes of windows are damaged: these are made anew',
      );
    }
    return notes;
  }

  /** All of them or none. */
  #take(
    all: readonly { readonly shard: ShardKey; readonly slice: Slice; readonly note: StoredNote }[],
  ): void {
    for (const { shard, slice, note } of all) this.set(shard, { ...slice, ...note });
    this.#isChanged = false;
  }

  /** Shards that have any. */
  shards(): ShardKey[] {
    return [...this.#shards.keys()];
  }

  of(shard: ShardKey): SliceNote[] {
    return [...(this.#shards.get(shard)?.values() ?? [])];
  }

  get(shard: ShardKey, slice: Slice): SliceNote | undefined {
    return this.#shards.get(shard)?.get(sliceKey(shard, slice));
  }

  set(shard: ShardKey, note: SliceNote): void {
    let notes = this.#shards.get(shard);
    if (notes === undefined) this.#shards.set(shard, (notes = new Map()));
    notes.set(sliceKey(shard, note), note);
    this.#isChanged = true;
  }

  delete(shard: ShardKey, slice: Slice): void {
    const notes = this.#shards.get(shard);
    if (notes?.delete(sliceKey(shard, slice)) !== true) return;
    if (notes.size === 0) this.#shards.delete(shard);
    this.#isChanged = true;
  }

  /** @throws what the disk rejects with; to be called again then */
  async save(): Promise<void> {
    if (!this.#isChanged) return;
    this.#isChanged = false;
    try {
      await writeCheckedJson(this.#disk, this.#path, this.#stored());
    } catch (error) {
      this.#isChanged = true;
      throw error;
    }
  }

  #stored(): Record<string, StoredNote> {
    const stored: Record<string, StoredNote> = {};
    for (const notes of this.#shards.values()) {
      for (const [key, { madeOf, deletions, hasWindows, isFrozen }] of notes) {
        const note = { madeOf, deletions, hasWindows };
        stored[key] = isFrozen === true ? { ...note, isFrozen } : note;
      }
    }
    return stored;
  }
}

const keyPattern = /^(?<shard>\d+\/\d+)\/(?<start>-?\d+)\+(?<nanos>\d+)$/;

/** @throws {Error} when it is none, as one that does not say how long the slice is */
export function partsOfKey(key: string): { readonly shard: ShardKey; readonly slice: Slice } {
  const parts = keyPattern.exec(key)?.groups;
  if (parts === undefined) throw new Error(`no slice has the key ${key}`);
  const startNanos = BigInt(parts['start']!);
  const endNanos = startNanos + BigInt(parts['nanos']!);
  return { shard: parts['shard'] as ShardKey, slice: { startNanos, endNanos } };
}

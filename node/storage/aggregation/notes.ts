/**
 * From which raw filesets the windows of each slice were made, in a file of the data folder. What is not noted is made
 * once more, and comes to the same bytes.
 */
import type { Disk } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { readCheckedJson, writeCheckedJson } from '../../persist/checked_json.ts';

export const notesFile = 'windows.json';

/** By number of the aggregated namespace, shard and start of the slice, "1700000000001/3/1700000000000000000". */
export type SliceKey = `${number}/${number}/${bigint}`;

export function partsOfKey(key: SliceKey): {
  readonly number: number;
  readonly shard: number;
  readonly startNanos: bigint;
} {
  const [number, shard, startNanos] = key.split('/') as [string, string, string];
  return { number: Number(number), shard: Number(shard), startNanos: BigInt(startNanos) };
}

export interface SliceNote {
  /** Names the raw filesets and the deletions that they were read without. */
  readonly madeOf: string;
  /** Version of the last deletion of the aggregated namespace in its time, which cuts windows by theirs; -1 for none. */
  readonly deletions: number;
  /** There were any: the fileset that has them may be lost since. */
  readonly hasWindows: boolean;
  /** Some of what they were made of is gone, whatever is said of the raw rows later. */
  readonly isFrozen?: true;
}

export class SliceNotes {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #notes: Map<SliceKey, SliceNote>;
  #isChanged = false;

  private constructor(disk: Disk, path: string, notes: Map<SliceKey, SliceNote>) {
    this.#disk = disk;
    this.#path = path;
    this.#notes = notes;
  }

  /** What is damaged says nothing: all is made once more. */
  static async open(disk: Disk, log: Log, dataFolder: string): Promise<SliceNotes> {
    const path = `${dataFolder}/${notesFile}`;
    let stored: unknown = null;
    try {
      stored = await readCheckedJson(disk, path);
    } catch (error) {
      log.error(
        { path, error: messageOf(error) },
        'notes of windows are damaged: these are made anew',
      );
    }
    const notes = Object.entries((stored ?? {}) as Record<SliceKey, SliceNote>);
    return new SliceNotes(disk, path, new Map(notes as [SliceKey, SliceNote][]));
  }

  entries(): Iterable<[SliceKey, SliceNote]> {
    return this.#notes.entries();
  }

  get(key: SliceKey): SliceNote | undefined {
    return this.#notes.get(key);
  }

  set(key: SliceKey, note: SliceNote): void {
    this.#notes.set(key, note);
    this.#isChanged = true;
  }

  delete(key: SliceKey): void {
    if (this.#notes.delete(key)) this.#isChanged = true;
  }

  /** Forgets the others. @returns what is forgotten */
  retain(isKept: (key: SliceKey) => boolean): SliceKey[] {
    const gone = [...this.#notes.keys()].filter((key) => !isKept(key));
    for (const key of gone) this.delete(key);
    return gone;
  }

  /** @throws what the disk rejects with; to be called again then */
  async save(): Promise<void> {
    if (!this.#isChanged) return;
    this.#isChanged = false;
    try {
      await writeCheckedJson(this.#disk, this.#path, Object.fromEntries(this.#notes));
    } catch (error) {
      this.#isChanged = true;
      throw error;
    }
  }
}

/**
 * From which raw filesets the windows of each slice were made, in a file of the data folder. What is not noted is made
 * once more, and comes to the same bytes.
 */
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Disk } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Pace } from '../flush/pace.ts';
import type { MadeOf } from './made_of.ts';
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
  readonly madeOf: MadeOf;
  /** Version of the last deletion of the aggregated namespace in its time, which cuts windows by theirs; -1 for none. */
  readonly deletions: number;
  /** Of the rules by which series have windows in it (`rulesDigestOf`). */
  readonly rules: string;
  /** There were any: the fileset that has them may be lost since. */
  readonly hasWindows: boolean;
  /** Some of what they were made of is gone, whatever is said of the raw rows later. */
  readonly isFrozen?: true;
}

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
      if ((await disk.size(path)) !== null) {
        for (const { shard, its } of readNotes(await disk.readFile(path))) {
          for (const note of its) notes.set(shard, note);
        }
      }
    } catch (error) {
      notes.#shards.clear();
      log.error(
        { path, error: messageOf(error) },
        'notes of windows are damaged: these are made anew',
      );
    }
    notes.#isChanged = false;
    return notes;
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

  /**
   * One shard after the other, between which others get a turn: what changes meanwhile may be in it or not, and the next call
   * saves it.
   * @throws what the disk rejects with; to be called again then
   */
  async save(pace: Pace): Promise<void> {
    if (!this.#isChanged) return;
    this.#isChanged = false;
    try {
      const lines: Uint8Array[] = [];
      let checksum = 0;
      for (const shard of this.shards()) {
        const line = encoder.encode(`${lineOf(shard, this.of(shard))}\n`);
        checksum = crc32c(line, checksum);
        lines.push(line);
        await pace.rest(null);
      }
      const head = encoder.encode(`${shownChecksum(checksum)}\n`);
      await this.#disk.writeFileAtomic(this.#path, Buffer.concat([head, ...lines]));
    } catch (error) {
      this.#isChanged = true;
      throw error;
    }
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

/** As JSON: start and length, then what is known of the slice. */
type StoredNote = readonly [
  startNanos: string,
  nanos: string,
  madeOf: MadeOf,
  deletions: number,
  hasWindows: 0 | 1,
  isFrozen: 0 | 1,
  /** Not there where there were none. */
  rules?: string,
];

const shownChecksum = (checksum: number): string => checksum.toString(16).padStart(8, '0');

function lineOf(shard: ShardKey, notes: readonly SliceNote[]): string {
  const stored = notes.map((note): StoredNote => {
    const { startNanos, endNanos, madeOf, deletions, hasWindows, isFrozen, rules } = note;
    const nanos = endNanos - startNanos;
    const flags = [hasWindows ? 1 : 0, isFrozen === true ? 1 : 0] as const;
    const stored = [String(startNanos), String(nanos), madeOf, deletions, ...flags] as const;
    return rules === '' ? stored : [...stored, rules];
  });
  return JSON.stringify([shard, stored]);
}

/**
 * The CRC-32C of all lines but the first, which has it; then a line of JSON for each shard.
 * @throws {Error} when it is not as it was written
 */
function* readNotes(bytes: Uint8Array): Generator<{ shard: ShardKey; its: SliceNote[] }> {
  const body = bytes.indexOf(10) + 1;
  const checksum = shownChecksum(crc32c(bytes, 0, body));
  if (decoder.decode(bytes.subarray(0, body)) !== `${checksum}\n`) {
    throw new Error('the checksum is wrong');
  }
  for (let at = body; at < bytes.length; ) {
    const end = bytes.indexOf(10, at);
    const line: unknown = JSON.parse(decoder.decode(bytes.subarray(at, end)));
    // Of an earlier form.
    if (!Array.isArray(line)) throw new Error('a line is not of one shard');
    const [shard, stored] = line as [ShardKey, StoredNote[]];
    yield { shard, its: stored.map(noteOf) };
    at = end + 1;
  }
}

function noteOf(stored: StoredNote): SliceNote {
  const [start, nanos, madeOf, deletions, hasWindows, isFrozen, rules = ''] = stored;
  const startNanos = BigInt(start);
  const slice = { startNanos, endNanos: startNanos + BigInt(nanos) };
  const note = { ...slice, madeOf, deletions, rules, hasWindows: hasWindows === 1 };
  return isFrozen === 1 ? { ...note, isFrozen: true } : note;
}

/**
 * The ledger of doubt as two files of the data folder with the same content, so that damage of one
 * costs nothing (docs/formats/doubt.md).
 */
import type { Disk } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import { messageOf } from '#lib/errors.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { UnixNanos } from '#lib/time.ts';

/** Blocks of shards of which acknowledged rows may be missing, since one event. */
export interface StoredDoubt {
  readonly cause: string;
  readonly foundNanos: UnixNanos;
  readonly namespace: string;
  /** Starts of the blocks, by shard. A set is never changed, but another one put in its place. */
  readonly blocks: ReadonlyMap<number, ReadonlySet<UnixNanos>>;
}

export interface StoredLedger {
  /** Counts the times that it was written. */
  readonly sequence: number;
  readonly doubts: readonly StoredDoubt[];
}

const formatVersion = 1;
const copyNames = ['doubts-0.json', 'doubts-1.json'] as const;
const checksumPattern = /^[0-9a-f]{8}$/;
const nanosPattern = /^-?\d{1,19}$/;

/** First and last start of blocks at one distance, and that; '0' of a single block. */
export type StoredRun = readonly [first: string, last: string, step: string];

/**
 * Runs of sets. Of a million blocks those of a few shards change between two saves, and all of them
 * would hold the main loop for a second.
 */
const knownRuns = new WeakMap<ReadonlySet<UnixNanos>, readonly StoredRun[]>();

/** Blocks as the file has them, ascending. */
export function runsOf(starts: ReadonlySet<UnixNanos>): readonly StoredRun[] {
  const known = knownRuns.get(starts);
  if (known !== undefined) return known;
  const ascending = [...starts].sort((a, b) => (a < b ? -1 : 1));
  const runs: StoredRun[] = [];
  for (let at = 0; at < ascending.length; ) {
    const first = ascending[at]!;
    const step = at + 1 < ascending.length ? ascending[at + 1]! - first : 0n;
    let last = at;
    while (last + 1 < ascending.length && ascending[last + 1]! - ascending[last]! === step) last++;
    runs.push([String(first), String(ascending[last]!), last === at ? '0' : String(step)]);
    at = last + 1;
  }
  knownRuns.set(starts, runs);
  return runs;
}

function startsOf(runs: readonly StoredRun[]): Set<UnixNanos> {
  const starts = new Set<UnixNanos>();
  for (const [firstText, lastText, stepText] of runs) {
    const [first, last, step] = [nanosOf(firstText), nanosOf(lastText), nanosOf(stepText)];
    const isRun = step > 0n ? last >= first && (last - first) % step === 0n : first === last;
    if (!isRun) throw new Error(`not a run of blocks: ${firstText} ${lastText} ${stepText}`);
    for (let start = first; start <= last; start += step > 0n ? step : 1n) starts.add(start);
  }
  return starts;
}

/** Shards of one doubt that have the same blocks stand together: usually all of them. */
function encode({ sequence, doubts }: StoredLedger): Uint8Array {
  const json = JSON.stringify({
    version: formatVersion,
    sequence,
    doubts: doubts.map(({ cause, foundNanos, namespace, blocks }) => {
      const groupOf = new Map<
        string,
        { shards: number[]; blockStartsNanos: readonly StoredRun[] }
      >();
      for (const [shard, starts] of blocks) {
        const runs = runsOf(starts);
        const text = runs.join(';');
        const group = groupOf.get(text);
        if (group === undefined) groupOf.set(text, { shards: [shard], blockStartsNanos: runs });
        else group.shards.push(shard);
      }
      const groups = [...groupOf.values()];
      return { cause, foundNanos: String(foundNanos), namespace, groups };
    }),
  });
  const body = new TextEncoder().encode(json);
  const checksum = crc32c(body).toString(16).padStart(8, '0');
  return new TextEncoder().encode(`${checksum}\n${json}\n`);
}

/** @throws {Error} when anything is not as it was written */
function decode(bytes: Uint8Array): StoredLedger {
  const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  const [checksum = '', json = ''] = text.split('\n');
  const isWhole =
    checksumPattern.test(checksum) &&
    Number.parseInt(checksum, 16) === crc32c(new TextEncoder().encode(json));
  if (!isWhole) throw new Error('the checksum is wrong');
  const plain = JSON.parse(json) as {
    version: number;
    sequence: number;
    doubts: {
      cause: string;
      foundNanos: string;
      namespace: string;
      groups: { shards: number[]; blockStartsNanos: StoredRun[] }[];
    }[];
  };
  if (plain.version !== formatVersion) {
    throw new Error(`the format version is unknown: ${plain.version}`);
  }
  const doubts = plain.doubts.map(({ cause, foundNanos, namespace, groups }) => {
    const blocks = new Map<number, ReadonlySet<UnixNanos>>();
    for (const { shards, blockStartsNanos } of groups) {
      const starts = startsOf(blockStartsNanos);
      for (const shard of shards) blocks.set(shard, starts);
    }
    return { cause, foundNanos: nanosOf(foundNanos), namespace, blocks };
  });
  return { sequence: plain.sequence, doubts };
}

function nanosOf(text: string): UnixNanos {
  if (!nanosPattern.test(text)) throw new Error(`a time is no number: ${text}`);
  return BigInt(text);
}

/** Resolves when both copies are on disk: before that nobody relies on either. */
export async function writeLedger(
  disk: Disk,
  dataFolder: string,
  ledger: StoredLedger,
): Promise<void> {
  const bytes = encode(ledger);
  for (const name of copyNames) await disk.writeFileAtomic(`${dataFolder}/${name}`, bytes);
}

/** @returns null when there is none; why when there is one that cannot be read */
export async function readLedger(
  disk: Disk,
  dataFolder: string,
): Promise<StoredLedger | null | string> {
  let newest: StoredLedger | null = null;
  let damage: string | null = null;
  for (const copy of await readLedgerCopies(disk, dataFolder)) {
    if (typeof copy === 'string') damage = copy;
    else if (newest === null || copy.sequence > newest.sequence) newest = copy;
  }
  return newest ?? damage;
}

/** The copies that are there; of those that cannot be read, why. */
export async function readLedgerCopies(
  disk: Disk,
  dataFolder: string,
): Promise<(StoredLedger | string)[]> {
  const copies: (StoredLedger | string)[] = [];
  for (const name of copyNames) {
    const path = `${dataFolder}/${name}`;
    if ((await disk.size(path)) === null) continue;
    let bytes: Uint8Array;
    try {
      bytes = await disk.readFile(path);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      copies.push(`${name}: the disk cannot read it`);
      continue;
    }
    try {
      copies.push(decode(bytes));
    } catch (error) {
      copies.push(`${name}: ${messageOf(error)}`);
    }
  }
  return copies;
}

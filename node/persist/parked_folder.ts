/**
 * Where data lie that were taken from this node without a handover or an order to delete them
 * (docs/formats/parked.md): `parked/<number>/` is what one namespace lost at one time, with what it is
 * in `parked.json` and the shards' folders, as they were in use, in `data/`.
 */
import type { Disk } from '#lib/env/env.ts';
import type { UnixNanos } from '#lib/time.ts';
import { readCheckedJson, writeCheckedJson } from './checked_json.ts';

const formatVersion = 1;
const keptFile = 'kept.json';
const numberPattern = /^\d{1,15}$/;

/** What one folder of parked data holds. */
export interface ParkedInfo {
  readonly namespace: string;
  /** Of the namespace (cluster/namespaces/numbers.ts). */
  readonly number: number;
  readonly blockSizeNanos: bigint;
  readonly retentionNanos: bigint;
  /** Of the placement that the shards are of. */
  readonly shardCount: number;
  /** In words. */
  readonly reason: string;
  readonly parkedNanos: UnixNanos;
  /** No fileset in it was made later. */
  readonly createdNanos: UnixNanos;
  /** End of its last block; null when it does not go with its retention. */
  readonly endNanos: UnixNanos | null;
  /** Bytes of the shards' filesets. */
  readonly bytesByShard: ReadonlyMap<number, number>;
}

/** How long it has been kept, by a clock that runs while the node does. */
export interface Kept {
  readonly millis: number;
  /** Blocks that end here or before are past retention, whatever that is by now. */
  readonly expiredBeforeNanos: UnixNanos;
}

export function parkedRoot(dataFolder: string): string {
  return `${dataFolder}/parked`;
}

export function parkedFolder(dataFolder: string, number: number): string {
  return `${parkedRoot(dataFolder)}/${number}`;
}

/** The folders of the shards are in it. */
export function parkedData(dataFolder: string, number: number): string {
  return `${parkedFolder(dataFolder, number)}/data`;
}

/** Ascending: the lowest one was parked first. */
export async function listParked(disk: Disk, dataFolder: string): Promise<number[]> {
  const names = await disk.list(parkedRoot(dataFolder));
  const numbers = names.filter((name) => numberPattern.test(name)).map(Number);
  return numbers.sort((a, b) => a - b);
}

/** Shards whose folders are there. */
export async function listParkedShards(
  disk: Disk,
  dataFolder: string,
  number: number,
): Promise<number[]> {
  const names = await disk.list(parkedData(dataFolder, number));
  return names.filter((name) => numberPattern.test(name)).map(Number);
}

export async function writeParkedInfo(
  disk: Disk,
  dataFolder: string,
  number: number,
  info: ParkedInfo,
): Promise<void> {
  const { bytesByShard, endNanos, ...rest } = info;
  await writeCheckedJson(disk, `${parkedFolder(dataFolder, number)}/parked.json`, {
    version: formatVersion,
    ...rest,
    blockSizeNanos: String(info.blockSizeNanos),
    retentionNanos: String(info.retentionNanos),
    parkedNanos: String(info.parkedNanos),
    createdNanos: String(info.createdNanos),
    endNanos: endNanos === null ? null : String(endNanos),
    shards: Object.fromEntries([...bytesByShard].map(([shard, bytes]) => [shard, { bytes }])),
  });
}

/**
 * @returns null when there is none: the node ended before it was there, and nothing was moved
 * @throws {Error} when it is damaged, and what the disk rejects with
 */
export async function readParkedInfo(
  disk: Disk,
  dataFolder: string,
  number: number,
): Promise<ParkedInfo | null> {
  const json = await readCheckedJson(disk, `${parkedFolder(dataFolder, number)}/parked.json`);
  if (json === null) return null;
  const plain = json as {
    readonly version: number;
    readonly endNanos: string | null;
    readonly shards: Readonly<Record<string, { readonly bytes: number }>>;
  } & Record<'blockSizeNanos' | 'retentionNanos' | 'parkedNanos' | 'createdNanos', string> &
    Pick<ParkedInfo, 'namespace' | 'number' | 'shardCount' | 'reason'>;
  if (plain.version !== formatVersion)
    throw new Error(`format version is unknown: ${plain.version}`);
  const { namespace, shardCount, reason, endNanos, shards } = plain;
  return {
    namespace,
    number: plain.number,
    blockSizeNanos: BigInt(plain.blockSizeNanos),
    retentionNanos: BigInt(plain.retentionNanos),
    shardCount,
    reason,
    parkedNanos: BigInt(plain.parkedNanos),
    createdNanos: BigInt(plain.createdNanos),
    endNanos: endNanos === null ? null : BigInt(endNanos),
    bytesByShard: new Map(
      Object.entries(shards).map(([shard, { bytes }]) => [Number(shard), bytes]),
    ),
  };
}

/** By number of the folder. */
export async function writeKept(
  disk: Disk,
  dataFolder: string,
  kept: ReadonlyMap<number, Kept>,
): Promise<void> {
  const json = Object.fromEntries(
    [...kept].map(([number, { millis, expiredBeforeNanos }]) => [
      number,
      { millis, expiredBeforeNanos: String(expiredBeforeNanos) },
    ]),
  );
  await writeCheckedJson(disk, `${parkedRoot(dataFolder)}/${keptFile}`, json);
}

/**
 * Empty when there is no file.
 * @throws {Error} when it is damaged, and what the disk rejects with
 */
export async function readKept(disk: Disk, dataFolder: string): Promise<Map<number, Kept>> {
  const json = await readCheckedJson(disk, `${parkedRoot(dataFolder)}/${keptFile}`);
  const plain = (json ?? {}) as Record<string, { millis: number; expiredBeforeNanos: string }>;
  return new Map(
    Object.entries(plain).map(([number, { millis, expiredBeforeNanos }]) => [
      Number(number),
      { millis, expiredBeforeNanos: BigInt(expiredBeforeNanos) },
    ]),
  );
}

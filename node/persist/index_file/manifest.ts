/**
 * The manifest of a saved index, as JSON: the moment in which it was saved, the generations that
 * its ordinals had as slots, and the filesets of which all series are in it.
 */
import { IndexFileCorrupt } from './format.ts';

export interface SavedFileset {
  readonly shard: number;
  readonly blockStartNanos: bigint;
  readonly blockSizeNanos: bigint;
  readonly volume: number;
  /** Checksum of its index file, so that another fileset of the same name is not taken for it. */
  readonly indexCrc32c: number;
  readonly seriesCount: number;
}

export interface IndexManifest {
  /** Of the data folder. */
  readonly incarnation: string;
  /** Start of the node whose slots the ordinals are. */
  readonly boot: number;
  /** The first segment of the commit log of which the index need not have everything. */
  readonly segment: number;
  readonly shardCount: number;
  /** There may be series whose ID does not tell their tags. */
  readonly mayShareIds: boolean;
  readonly filesets: readonly SavedFileset[];
  /** By ordinal the generation of its slot. */
  readonly generations: Uint32Array;
}

const manifestVersion = 2;

/**
 * As it stands in the file; filesets by block, of each shard, volume, checksum and number of
 * series; generations are runs of equal ones: length, generation, and so on.
 */
interface ManifestJson {
  readonly version: number;
  readonly incarnation: string;
  readonly boot: number;
  readonly segment: number;
  readonly shardCount: number;
  readonly mayShareIds: boolean;
  readonly filesets: readonly (readonly [string, string, readonly number[]])[];
  readonly generations: readonly number[];
}

export function encodeIndexManifest(manifest: IndexManifest): Uint8Array {
  const { filesets, generations, ...rest } = manifest;
  const json: ManifestJson = {
    version: manifestVersion,
    ...rest,
    filesets: blocksOf(filesets),
    generations: runsOf(generations),
  };
  return new TextEncoder().encode(JSON.stringify(json));
}

/**
 * @param path of the file, for the error
 * @throws {IndexFileCorrupt} when it is of another version or not whole
 */
export function decodeIndexManifest(bytes: Uint8Array, path: string): IndexManifest {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new IndexFileCorrupt(path, 'manifest is not JSON', { cause: error });
  }
  if (!isManifest(json)) throw new IndexFileCorrupt(path, 'manifest is not of this version');
  const { version: _, filesets, generations, ...rest } = json;
  return {
    ...rest,
    filesets: filesets.flatMap(filesetsOf),
    generations: columnOf(generations),
  };
}

const filesetNumbers = 4;

function blocksOf(filesets: readonly SavedFileset[]): [string, string, number[]][] {
  const blocks = new Map<string, [string, string, number[]]>();
  for (const fileset of filesets) {
    const start = String(fileset.blockStartNanos);
    const size = String(fileset.blockSizeNanos);
    let block = blocks.get(`${start} ${size}`);
    if (block === undefined) {
      block = [start, size, []];
      blocks.set(`${start} ${size}`, block);
    }
    block[2].push(fileset.shard, fileset.volume, fileset.indexCrc32c, fileset.seriesCount);
  }
  return [...blocks.values()];
}

function filesetsOf([start, size, numbers]: ManifestJson['filesets'][number]): SavedFileset[] {
  const filesets: SavedFileset[] = [];
  for (let i = 0; i < numbers.length; i += filesetNumbers) {
    filesets.push({
      shard: numbers[i]!,
      blockStartNanos: BigInt(start),
      blockSizeNanos: BigInt(size),
      volume: numbers[i + 1]!,
      indexCrc32c: numbers[i + 2]!,
      seriesCount: numbers[i + 3]!,
    });
  }
  return filesets;
}

function runsOf(column: Uint32Array): number[] {
  const runs: number[] = [];
  for (let at = 0; at < column.length; ) {
    const value = column[at]!;
    const start = at;
    while (at < column.length && column[at] === value) at += 1;
    runs.push(at - start, value);
  }
  return runs;
}

function columnOf(runs: readonly number[]): Uint32Array {
  let length = 0;
  for (let i = 0; i < runs.length; i += 2) length += runs[i]!;
  const column = new Uint32Array(length);
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) {
    column.fill(runs[i + 1]!, at, at + runs[i]!);
    at += runs[i]!;
  }
  return column;
}

/** Ordinals of an index are fewer. */
const ordinalsMax = 2 ** 31;
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

function isManifest(json: unknown): json is ManifestJson {
  if (typeof json !== 'object' || json === null) return false;
  const { version, incarnation, boot, segment, shardCount, mayShareIds, filesets, generations } =
    json as Record<string, unknown>;
  return (
    version === manifestVersion &&
    typeof incarnation === 'string' &&
    isCount(boot) &&
    isCount(segment) &&
    isCount(shardCount) &&
    typeof mayShareIds === 'boolean' &&
    Array.isArray(filesets) &&
    filesets.every(isBlock) &&
    Array.isArray(generations) &&
    generations.length % 2 === 0 &&
    generations.every((value) => isCount(value) && value < 2 ** 32) &&
    generations.reduce((sum: number, value: number, i) => sum + (i % 2 === 0 ? value : 0), 0) <
      ordinalsMax
  );
}

const isNanos = (value: unknown): value is string =>
  typeof value === 'string' && /^-?\d{1,19}$/.test(value);

function isBlock(json: unknown): boolean {
  if (!Array.isArray(json) || json.length !== 3) return false;
  const [start, size, numbers] = json as unknown[];
  return (
    isNanos(start) &&
    isNanos(size) &&
    BigInt(size) > 0n &&
    Array.isArray(numbers) &&
    numbers.length % filesetNumbers === 0 &&
    numbers.every(isCount)
  );
}

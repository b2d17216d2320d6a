/** Filesets in the folders of a namespace of M3. */
import type { Disk } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { namesIn } from '../../folders.ts';
import { checkpointBytes } from './info.ts';

export interface FilesetFiles {
  /** `KIND/NAMESPACE/SHARD/fileset-BLOCK-VOLUME`, and without the volume in the first releases. */
  readonly name: string;
  /** By its name. */
  readonly blockStartNanos: bigint;
  /** Of those with series and rows. */
  readonly bytes: number;
  /** That one of these is not there; null when they are. */
  readonly missing: TsdbError | null;
}

export interface ListedFilesets {
  readonly filesets: readonly FilesetFiles[];
  /** Begins of blocks of which no volume was written to its end. */
  readonly unfinished: readonly bigint[];
}

const shardName = /^\d+$/;
const fileName = /^(fileset-(-?\d+)(?:-(\d+))?)-([a-z]+)\.db$/;

interface Volume {
  readonly name: string;
  /** Without one it comes before the first that has its number. */
  readonly number: number;
}

/** Paths of shards, as `KIND/NAMESPACE/SHARD`, in their order. @param under `KIND/NAMESPACE` in the folder */
export async function listShards(
  disk: Disk,
  folder: string,
  under: string,
): Promise<readonly string[]> {
  const shards = (await namesIn(disk, `${folder}/${under}`)).filter((name) => shardName.test(name));
  shards.sort((a, b) => Number(a) - Number(b));
  return shards.map((shard) => `${under}/${shard}`);
}

/**
 * Of each block the highest volume that was written to its end, which is when it has a checkpoint.
 * @param place `KIND/NAMESPACE/SHARD` in the folder
 * @throws {TsdbError} NOT_FOUND when a volume was deleted meanwhile: there is a newer one by then
 */
export async function listFilesets(
  disk: Disk,
  folder: string,
  place: string,
): Promise<ListedFilesets> {
  const filesets: FilesetFiles[] = [];
  const unfinished: bigint[] = [];
  const size = async (name: string) => {
    const path = `${folder}/${place}/${name}`;
    const bytes = await disk.size(path);
    if (bytes === null) throw new TsdbError('NOT_FOUND', `cannot read ${path}: file is missing`);
    return bytes;
  };
  const volumesOfBlock = new Map<string, Volume[]>();
  for (const file of await namesIn(disk, `${folder}/${place}`)) {
    const [, name, block, number, suffix] = fileName.exec(file) ?? [];
    if (name === undefined || block === undefined) continue;
    const volumes = volumesOfBlock.get(block) ?? [];
    volumesOfBlock.set(block, volumes);
    const isWhole = suffix === 'checkpoint' && (await size(file)) === checkpointBytes;
    if (isWhole) volumes.push({ name, number: number === undefined ? -1 : Number(number) });
  }
  for (const [block, volumes] of volumesOfBlock) {
    const [newest] = volumes.sort((a, b) => b.number - a.number);
    if (newest === undefined) {
      unfinished.push(BigInt(block));
      continue;
    }
    const { name } = newest;
    let bytes = 0;
    let missing: TsdbError | null = null;
    try {
      bytes = (await size(`${name}-index.db`)) + (await size(`${name}-data.db`));
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      missing = error;
    }
    const blockStartNanos = BigInt(block);
    filesets.push({ name: `${place}/${name}`, blockStartNanos, bytes, missing });
  }
  return { filesets, unfinished };
}

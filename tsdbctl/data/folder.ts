/** What is in a node's data folder: every file with its length and what it is. */
import type { Env } from '#lib/env/env.ts';
import { readFormatLevel } from '#node/persist/format_level_file.ts';
import { namespaceOfFolder } from '#node/persist/fileset/format.ts';

export interface DataFile {
  /** Below the data folder, with slashes. */
  readonly path: string;
  readonly bytes: number;
}

/** All files of a data folder by what they are. */
export interface DataFolder {
  /** By name of the folder in `data`. */
  readonly namespaces: ReadonlyMap<string, NamespaceFiles>;
  /** By number of the folder in `parked`. */
  readonly parked: ReadonlyMap<number, ShardFiles>;
  readonly snapshots: readonly DataFile[];
  readonly segments: readonly DataFile[];
  /**
   * Identity, level of formats, what is held and parked, what was known of the key-value store, process
   * ID, key-value store, tombstones, ledger of doubt.
   */
  readonly others: readonly DataFile[];
  /** Digests of the rows of filesets, by which replicas are compared. */
  readonly rowDigests: readonly DataFile[];
  /** Damaged files that a node has renamed. */
  readonly setAside: readonly DataFile[];
  /** Left by a write that did not end; a start removes them. */
  readonly unfinished: readonly DataFile[];
  /** Of no kind that a node writes. */
  readonly unknown: readonly DataFile[];
}

/** By shard: length of each file by its name. */
export type ShardFiles = ReadonlyMap<number, ReadonlyMap<string, number>>;

export interface NamespaceFiles {
  readonly name: string;
  readonly shards: ShardFiles;
  /** The saved index, if there is one. */
  readonly index: DataFile | null;
}

const ofShard =
  /^data\/([^/]+)\/(\d+)\/(fileset-(-?\d+)-(\d+)-(?:info|index|data|digest|checkpoint)\.db)$/;
const ofParked =
  /^parked\/(\d+)\/data\/(\d+)\/(fileset-(?:-?\d+)-(?:\d+)-(?:info|index|data|digest|checkpoint)\.db)$/;
const ofIndex = /^data\/([^/]+)\/index\.db$/;
const ofSegment = /^commitlogs\/commitlog-\d+\.db$/;
const ofSnapshot = /^snapshots\/snapshot-\d+\.db$/;
const ofRowDigests = /^(?:data\/[^/]+|parked\/\d+\/data)\/\d+\/fileset-(?:-?\d+)-\d+-rows\.db$/;
const ofOthers =
  /^(node_identity\.json|formats\.json|folder_mark\.json|held\.json|known_store\.json|windows\.json|parked\/(?:\d+\/parked|kept)\.json|doubts-[01]\.json|tsdb\.pid|tsdb\.(?:un)?lock(?:ed)?\.[0-9a-f]+|tombstones\.bin|kv\/[^/]+)$/;

interface NamespaceParts {
  readonly name: string;
  readonly shards: Map<number, Map<string, number>>;
  index: DataFile | null;
}

/**
 * @throws {TsdbError} INTERNAL when it may hold formats that this release cannot read, and the
 *   system's error when the folder cannot be read
 */
export async function readDataFolder(env: Env, folder: string): Promise<DataFolder> {
  await readFormatLevel(env.disk, folder);
  const namespaces = new Map<string, NamespaceParts>();
  const parked = new Map<number, Map<number, Map<string, number>>>();
  const found = {
    snapshots: [] as DataFile[],
    segments: [] as DataFile[],
    others: [] as DataFile[],
    rowDigests: [] as DataFile[],
    setAside: [] as DataFile[],
    unfinished: [] as DataFile[],
    unknown: [] as DataFile[],
  };
  const namespaceOf = (name: string): NamespaceParts => {
    let namespace = namespaces.get(name);
    if (namespace === undefined) {
      namespace = { name: namespaceOfFolder(name), shards: new Map(), index: null };
      namespaces.set(name, namespace);
    }
    return namespace;
  };
  const parkedOf = (number: number): Map<number, Map<string, number>> => {
    const known = parked.get(number) ?? new Map<number, Map<string, number>>();
    parked.set(number, known);
    return known;
  };
  for await (const file of filesBelow(env, folder, '')) {
    const { path, bytes } = file;
    const inUse = ofShard.exec(path);
    const part = inUse ?? ofParked.exec(path);
    const saved = ofIndex.exec(path);
    if (part !== null) {
      const shards = inUse === null ? parkedOf(Number(part[1])) : namespaceOf(part[1]!).shards;
      const shard = Number(part[2]);
      const files = shards.get(shard) ?? new Map<string, number>();
      shards.set(shard, files.set(part[3]!, bytes));
    } else if (saved !== null) namespaceOf(saved[1]!).index = file;
    else if (ofSegment.test(path)) found.segments.push(file);
    else if (ofSnapshot.test(path)) found.snapshots.push(file);
    else if (ofOthers.test(path)) found.others.push(file);
    else if (ofRowDigests.test(path)) found.rowDigests.push(file);
    else if (path.endsWith('.corrupt')) found.setAside.push(file);
    else if (path.endsWith('.tmp') || path.startsWith('data/.removed-'))
      found.unfinished.push(file);
    else found.unknown.push(file);
  }
  const numberOf = ({ path }: DataFile): number => Number(/-(\d+)\.db$/.exec(path)![1]);
  found.segments.sort((a, b) => numberOf(a) - numberOf(b));
  found.snapshots.sort((a, b) => numberOf(a) - numberOf(b));
  return { namespaces, parked, ...found };
}

async function* filesBelow(env: Env, folder: string, below: string): AsyncGenerator<DataFile> {
  for (const name of await env.disk.list(below === '' ? folder : `${folder}/${below}`)) {
    const path = below === '' ? name : `${below}/${name}`;
    try {
      await env.disk.list(`${folder}/${path}`);
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ENOTDIR') throw error;
      // A node that runs may have removed it meanwhile.
      const bytes = await env.disk.size(`${folder}/${path}`);
      if (bytes !== null) yield { path, bytes };
      continue;
    }
    yield* filesBelow(env, folder, path);
  }
}

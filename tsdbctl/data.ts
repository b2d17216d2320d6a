/** Data of a node, from its folder while it is stopped, or flushed while it runs. */
import { chunkHeaders } from '#engine/chunk.ts';
import { readBatch } from '#engine/batch.ts';
import { Decoder } from '#engine/decoder.ts';
import { emptyBundle } from '#engine/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { listSegments } from '#node/persist/commitlog.ts';
import { readSegment } from '#node/persist/commitlog_reader.ts';
import { segmentHeaderBytes } from '#node/persist/commitlog_format.ts';
import {
  fileHeaderBytes,
  type FilesetKey,
  filesetPath,
  indexFooterBytes,
  listFilesets,
  namespaceOfFolder,
} from '#node/persist/fileset_format.ts';
import { FilesetReader } from '#node/persist/fileset_reader.ts';
import { listSnapshots, snapshotFolder } from '#node/persist/snapshot_file.ts';

type Print = (line: string) => void;

/**
 * Asks a node to write its memory to filesets; ends when its commit log is gone.
 * @returns what it did, as JSON
 * @throws {TsdbError} with the node's own words
 */
export async function flushNode(
  post: (url: string) => Promise<{ readonly status: number; readonly text: string }>,
  node: string,
  namespace: string | null,
): Promise<string> {
  const url = new URL('/flush', node);
  if (namespace !== null) url.searchParams.set('namespace', namespace);
  const { status, text } = await post(url.href);
  if (status === 200) return text.trim();
  throw new TsdbError('UNAVAILABLE', `cannot flush: ${url.host} answers ${status}: ${text.trim()}`);
}

/** Bytes by what they are spent on. */
class Spent {
  readonly parts: Map<string, number> = new Map();
  filesets = 0;
  entries = 0;
  rows = 0;

  add(part: string, bytes: number): void {
    this.parts.set(part, (this.parts.get(part) ?? 0) + bytes);
  }

  sum(prefix: string): number {
    let sum = 0;
    for (const [part, bytes] of this.parts) if (part.startsWith(prefix)) sum += bytes;
    return sum;
  }
}

interface FoundFileset extends FilesetKey {
  readonly namespace: string;
  readonly folder: string;
  readonly complete: boolean;
}

async function* filesetsOf(env: Env, dataFolder: string): AsyncGenerator<FoundFileset> {
  const root = `${dataFolder}/data`;
  for (const name of await env.disk.list(root)) {
    for (const shard of await env.disk.list(`${root}/${name}`).catch(() => [])) {
      if (!/^\d+$/.test(shard)) continue;
      const folder = `${root}/${name}/${shard}`;
      for (const fileset of await listFilesets(env.disk, folder)) {
        yield { ...fileset, namespace: namespaceOfFolder(name), folder };
      }
    }
  }
}

/**
 * Compares every checksum of filesets, snapshots and commit log, and prints what each byte is spent on.
 * @returns how many damages there are
 */
export async function verifyFolder(env: Env, dataFolder: string, print: Print): Promise<number> {
  let damages = 0;
  const damaged = (what: string): void => {
    damages += 1;
    print(`damaged: ${what}`);
  };
  const namespaces = new Map<string, Spent>();
  for await (const found of filesetsOf(env, dataFolder)) {
    if (!found.complete) continue;
    let spent = namespaces.get(found.namespace);
    if (spent === undefined) namespaces.set(found.namespace, (spent = new Spent()));
    try {
      await verifyFileset(env, found, spent);
    } catch (error) {
      damaged(messageOf(error));
    }
  }
  for (const [name, spent] of namespaces) printNamespace(name, spent, print);
  const snapshots = await listSnapshots(env.disk, snapshotFolder(dataFolder));
  const segments = await listSegments(env, `${dataFolder}/commitlogs`);
  for (const { path } of [...snapshots, ...segments])
    await verifySegment(env, path, damaged, print);
  print(damages === 0 ? 'ok' : `${damages} damages`);
  return damages;
}

async function verifyFileset(env: Env, found: FoundFileset, spent: Spent): Promise<void> {
  const { disk } = env;
  await using reader = await FilesetReader.open(disk, found.folder, found);
  await reader.verifyData();
  spent.filesets += 1;
  for (const part of ['info', 'digest', 'checkpoint'] as const) {
    spent.add(part, (await disk.size(filesetPath(found.folder, found, part))) ?? 0);
  }
  const { index, digest } = reader;
  spent.add('index entries', index.groupsOffset - fileHeaderBytes);
  spent.add('index groups', 16 * index.groupCount);
  const around = fileHeaderBytes + indexFooterBytes;
  spent.add('index header and footer', around);
  const groupsEnd = index.groupsOffset + 16 * index.groupCount;
  spent.add('index symbols', digest.index.bytes - groupsEnd - indexFooterBytes);
  spent.add('data header', fileHeaderBytes);
  for await (const [, chunks] of reader.all()) {
    spent.entries += 1;
    let at = 0;
    for (const { rowCount, payloadStart, end } of chunkHeaders(chunks)) {
      spent.rows += rowCount;
      spent.add('data chunk headers', payloadStart - at);
      spent.add('data chunk payloads', end - payloadStart);
      at = end;
    }
  }
}

function printNamespace(name: string, spent: Spent, print: Print): void {
  const { filesets, entries, rows } = spent;
  print(`namespace ${name}: ${filesets} filesets, ${entries} entries of series, ${rows} rows`);
  for (const [part, bytes] of [...spent.parts].sort(([a], [b]) => (a < b ? -1 : 1))) {
    print(`  ${part.padEnd(26)}${String(bytes).padStart(14)}`);
  }
  const each = (bytes: number, count: number): string => (bytes / Math.max(count, 1)).toFixed(3);
  print(`  data bytes a row ${each(spent.sum('data'), rows)}`);
  print(`  index bytes an entry ${each(spent.sum('index'), entries)}`);
}

async function verifySegment(
  env: Env,
  path: string,
  damaged: (what: string) => void,
  print: Print,
): Promise<void> {
  const spent = new Spent();
  const records = readSegment(env.disk, path, ({ kind, start, end }) => {
    // A power loss leaves a torn tail: nothing in it was acknowledged.
    if (kind === 'torn tail') spent.add('torn tail', end - start);
    else damaged(`${kind}: bytes ${start} to ${end} of ${path}`);
  });
  spent.add('header', segmentHeaderBytes);
  for await (const record of records) {
    switch (record.kind) {
      case 'series':
        for (const { tags, explicitId } of record.entries) {
          spent.entries += 1;
          spent.add('series', tags.length + explicitId.length + 20);
        }
        break;
      case 'batch':
        spent.add('batches', record.batch.length);
        try {
          spent.rows += readBatch(record.batch.slice()).rowCount;
        } catch (error) {
          damaged(`${messageOf(error)}: ${path}`);
        }
        break;
      case 'chunks':
        for (const { chunks } of record.series) {
          for (const { rowCount, kind } of chunkHeaders(chunks)) {
            spent.rows += rowCount;
            spent.add(kind === 1 ? 'raw rows of heads' : 'sealed rows', rowCount);
          }
          spent.add('chunks', chunks.length + 12);
        }
        break;
      default:
        spent.add(`${record.kind} records`, 1);
    }
  }
  const size = (await env.disk.size(path)) ?? 0;
  print(`${path}: ${size} bytes, ${spent.entries} series, ${spent.rows} rows`);
  for (const [part, amount] of [...spent.parts].sort(([a], [b]) => (a < b ? -1 : 1))) {
    print(`  ${part.padEnd(26)}${String(amount).padStart(14)}`);
  }
}

export interface ReadOptions {
  /** Null for all. */
  readonly namespace: string | null;
  /** Only series whose ID contains it. */
  readonly match: string;
  /** Prints the rows too. */
  readonly rows: boolean;
  /** Most series of blocks. */
  readonly limit: number;
}

/**
 * Prints the series of the newest volume of each block: block, shard, ID, rows, first and last time, bytes.
 * @throws {FilesetCorrupt} at a damaged one
 */
export async function readFolder(
  env: Env,
  dataFolder: string,
  options: ReadOptions,
  print: Print,
): Promise<void> {
  const newest = new Map<string, FoundFileset>();
  for await (const found of filesetsOf(env, dataFolder)) {
    if (!found.complete) continue;
    if (options.namespace !== null && found.namespace !== options.namespace) continue;
    const key = `${found.folder}/${found.blockStartNanos}`;
    if ((newest.get(key)?.volume ?? -1) < found.volume) newest.set(key, found);
  }
  using decoder = new Decoder();
  let left = options.limit;
  for (const found of newest.values()) {
    await using reader = await FilesetReader.open(env.disk, found.folder, found);
    for await (const [entry, chunks] of reader.all()) {
      const id = new TextDecoder().decode(entry.id);
      if (!id.includes(options.match)) continue;
      if (left === 0) {
        print(`… more than ${options.limit}`);
        return;
      }
      left -= 1;
      printSeries(decoder, found, reader.info.shard, id, chunks, options.rows, print);
    }
  }
}

function printSeries(
  decoder: Decoder,
  found: FoundFileset,
  shard: number,
  id: string,
  chunks: Uint8Array,
  withRows: boolean,
  print: Print,
): void {
  const chunkOffset = Uint32Array.of(0, chunks.length);
  const bundle = { ...emptyBundle, seriesCount: 1, chunkData: chunks, chunkOffset };
  const rows = decoder.decode(bundle, 0, -(2n ** 63n), 2n ** 63n - 1n);
  const time = (row: number): string => String(decoder.timestampNanos[row]!);
  print(
    `${found.namespace} ${shard} ${found.blockStartNanos} ${id} rows=${rows} ` +
      `first=${time(0)} last=${time(rows - 1)} bytes=${chunks.length}`,
  );
  if (!withRows) return;
  for (let row = 0; row < rows; row += 1) print(`  ${time(row)} ${decoder.values[row]!}`);
}

/** Verifies every file of a data folder, and tells what each byte is spent on. */
import { readTypedBatch, rowsOfBatch } from '#engine/batch/batch.ts';
import { chunkHeaders, chunkKind, kindsAll } from '#engine/codec/chunk.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import { readSegment } from '#node/persist/commitlog/reader.ts';
import { segmentHeaderBytes } from '#node/persist/commitlog/format.ts';
import {
  fileHeaderBytes,
  type FilesetKey,
  filesetParts,
  filesetPath,
  indexFooterBytes,
} from '#node/persist/fileset/format.ts';
import { FilesetReader } from '#node/persist/fileset/reader.ts';
import {
  decodeDirectory,
  directoryRowBytes,
  directoryStart,
  indexFileFooterBytes,
  indexFileHeaderBytes,
  indexFileHeaderProblem,
} from '#node/persist/index_file/format.ts';
import { heldFile, readHeld } from '#node/persist/held_file.ts';
import { parkedData, parkedFolder, readParkedInfo } from '#node/persist/parked_folder.ts';
import { readLedgerCopies } from '#node/persist/doubt_file.ts';
import { readTombstones } from '#node/persist/tombstone_file.ts';
import { batchColumns } from './batch_columns.ts';
import {
  type DataFile,
  type DataFolder,
  type NamespaceFiles,
  readDataFolder,
  type ShardFiles,
} from './folder.ts';
import { counted, type Print, Spent, timeText } from './spent.ts';

/** Bytes that are read of a saved index at a time. */
const readBytes = 4 * 1024 * 1024;

/** One run over a folder. */
class Verification {
  readonly env: Env;
  readonly folder: string;
  readonly print: Print;
  damages = 0;

  constructor(env: Env, folder: string, print: Print) {
    this.env = env;
    this.folder = folder;
    this.print = print;
  }

  damaged(what: string): void {
    this.damages += 1;
    this.print(`damaged: ${what}`);
  }
}

/**
 * Compares every checksum of a node's data folder, and prints what each byte is spent on. The node
 * should not run.
 * @returns how many damages there are
 */
export async function verifyFolder(env: Env, folder: string, print: Print): Promise<number> {
  const found = await readDataFolder(env, folder);
  const all = new Verification(env, folder, print);
  const { others, rowDigests, setAside, unfinished, unknown } = found;
  if (fileCountOf(found) === 0) {
    print(`there are no files in ${folder}`);
    return 0;
  }
  if (others.some(({ path }) => path === 'tsdb.pid')) {
    print(
      'a node may be running here (tsdb.pid): what it writes now may look unfinished or damaged',
    );
  }
  for (const namespace of found.namespaces.values()) await verifyNamespace(all, namespace);
  for (const [number, shards] of found.parked) await verifyParked(all, number, shards);
  await verifySegments(all, 'snapshot', found.snapshots);
  await verifySegments(all, 'commit log', found.segments);
  const tombstones = await readTombstones(env.disk, folder).catch((error) => messageOf(error));
  if (typeof tombstones === 'string') all.damaged(`${folder}/tombstones.bin: ${tombstones}`);
  await readHeld(env.disk, folder).catch((error: unknown) => {
    all.damaged(`${folder}/${heldFile}: ${messageOf(error)}`);
  });
  const ledgers = await readLedgerCopies(env.disk, folder).catch((error) => [messageOf(error)]);
  for (const ledger of ledgers) {
    if (typeof ledger === 'string') all.damaged(`${folder}/${ledger}`);
  }
  if (rowDigests.length > 0) {
    const bytes = rowDigests.reduce((sum, file) => sum + file.bytes, 0);
    print(`digests of rows: ${counted(rowDigests.length, 'file')}, ${bytes} bytes`);
  }
  printFiles(print, 'other files', others);
  printFiles(print, 'set aside for damage before', setAside);
  printFiles(print, 'unfinished, removed by the next start', unfinished);
  printFiles(print, 'of no known kind', unknown);
  const bytes = bytesOf(found);
  print(
    `${counted(fileCountOf(found), 'file')}, ${bytes} bytes: ` +
      (all.damages === 0 ? 'all checksums are right' : counted(all.damages, 'damage')),
  );
  return all.damages;
}

function* filesOf({ namespaces, parked, ...lists }: DataFolder): Generator<number> {
  for (const shards of parked.values()) {
    for (const files of shards.values()) yield* files.values();
  }
  for (const { shards, index } of namespaces.values()) {
    for (const files of shards.values()) yield* files.values();
    if (index !== null) yield index.bytes;
  }
  for (const list of Object.values(lists)) for (const { bytes } of list) yield bytes;
}

function fileCountOf(found: DataFolder): number {
  return [...filesOf(found)].length;
}

function bytesOf(found: DataFolder): number {
  return [...filesOf(found)].reduce((sum, bytes) => sum + bytes, 0);
}

function printFiles(print: Print, what: string, files: readonly DataFile[]): void {
  if (files.length === 0) return;
  print(`${what}:`);
  for (const { path, bytes } of files) print(`  ${path.padEnd(32)} ${bytes}`);
}

interface FilesetCounts {
  filesets: number;
  entries: number;
  rows: number;
  firstNanos: bigint | null;
  lastNanos: bigint;
  readonly blocks: Set<bigint>;
  readonly replaced: string[];
  readonly unfinished: string[];
}

function nothingCounted(): FilesetCounts {
  return {
    filesets: 0,
    entries: 0,
    rows: 0,
    firstNanos: null,
    lastNanos: 0n,
    blocks: new Set(),
    replaced: [],
    unfinished: [],
  };
}

/** Data that are kept, and are not in use (docs/STORAGE.md, Parked data). */
async function verifyParked(all: Verification, number: number, shards: ShardFiles): Promise<void> {
  const { env, folder, print } = all;
  const counts = nothingCounted();
  const spent = new Spent();
  for (const [shard, files] of [...shards].sort(([a], [b]) => a - b)) {
    await verifyShard(all, `${parkedData(folder, number)}/${shard}`, files, spent, counts);
  }
  const info = await readParkedInfo(env.disk, folder, number).catch((error: unknown) => {
    all.damaged(`${parkedFolder(folder, number)}: ${messageOf(error)}`);
    return null;
  });
  const of = info === null ? 'nobody knows what' : `namespace ${info.namespace}`;
  print(
    `parked ${number}: ${of}, ${counted(counts.filesets, 'fileset')} in ` +
      `${counted(shards.size, 'shard')}, ${counted(counts.rows, 'row')}, ${spent.fileBytes} bytes`,
  );
  if (info !== null) print(`  since ${timeText(info.parkedNanos)}: ${info.reason}`);
}

async function verifyNamespace(all: Verification, namespace: NamespaceFiles): Promise<void> {
  const { print } = all;
  const spent = new Spent();
  const counts = nothingCounted();
  for (const [shard, files] of [...namespace.shards].sort(([a], [b]) => a - b)) {
    const folder = `${all.folder}/data/${encodedName(namespace.name)}/${shard}`;
    await verifyShard(all, folder, files, spent, counts);
  }
  const { filesets, entries, rows, blocks, firstNanos, lastNanos } = counts;
  print(
    `namespace ${namespace.name}: ${counted(filesets, 'fileset')} of ` +
      `${counted(blocks.size, 'block')} in ${counted(namespace.shards.size, 'shard')}, ` +
      `${counted(entries, 'entry')} of series, ${counted(rows, 'row')}`,
  );
  if (firstNanos !== null) print(`  from ${timeText(firstNanos)} to ${timeText(lastNanos)}`);
  spent.print(print, 'parts of damaged filesets');
  const each = (bytes: number, count: number): string => (bytes / Math.max(count, 1)).toFixed(3);
  print(
    `  data: ${each(spent.sum('data'), rows)} bytes a row; ` +
      `index: ${each(spent.sum('index'), entries)} bytes a series and block`,
  );
  for (const path of counts.unfinished) print(`  unfinished, removed by the next start: ${path}`);
  for (const path of counts.replaced) print(`  replaced by a newer volume: ${path}`);
  if (namespace.index !== null) await verifySavedIndex(all, namespace.index);
}

function encodedName(name: string): string {
  return encodeURIComponent(name).replace(/^\.+/, (dots) => '%2E'.repeat(dots.length));
}

async function verifyShard(
  all: Verification,
  folder: string,
  files: ReadonlyMap<string, number>,
  spent: Spent,
  counts: FilesetCounts,
): Promise<void> {
  const keys = new Map<string, FilesetKey>();
  for (const name of files.keys()) {
    const [, start, volume] = /^fileset-(-?\d+)-(\d+)-/.exec(name)!;
    keys.set(`${start}-${volume}`, { blockStartNanos: BigInt(start!), volume: Number(volume) });
  }
  for (const key of keys.values()) {
    const sizeOf = (part: (typeof filesetParts)[number]): number =>
      files.get(filesetPath('', key, part).slice(1)) ?? 0;
    const bytes = filesetParts.reduce((sum, part) => sum + sizeOf(part), 0);
    for (const part of filesetParts) if (sizeOf(part) > 0) spent.addFile(sizeOf(part));
    const name = `${folder}/fileset-${key.blockStartNanos}-${key.volume}`;
    if (sizeOf('checkpoint') === 0) {
      counts.unfinished.push(name);
      spent.add('unfinished', bytes);
      continue;
    }
    const isReplaced = [...keys.values()].some(
      (other) => other.blockStartNanos === key.blockStartNanos && other.volume > key.volume,
    );
    if (isReplaced) counts.replaced.push(name);
    try {
      await verifyFileset(all, folder, key, sizeOf, spent, counts);
    } catch (error) {
      all.damaged(messageOf(error));
    }
  }
}

async function verifyFileset(
  all: Verification,
  folder: string,
  key: FilesetKey,
  sizeOf: (part: (typeof filesetParts)[number]) => number,
  spent: Spent,
  counts: FilesetCounts,
): Promise<void> {
  await using reader = await FilesetReader.open(all.env.disk, folder, key);
  const { index } = reader;
  const indexBytes = sizeOf('index');
  for (const part of ['info', 'digest', 'checkpoint'] as const) spent.add(part, sizeOf(part));
  const { checksumsOffset, tableOffset, columnsOffset, shapesOffset } = index;
  spent.add('index: entries', checksumsOffset - fileHeaderBytes);
  spent.add('index: checksums', tableOffset - checksumsOffset);
  spent.add('index: groups', columnsOffset - tableOffset);
  spent.add('index: names and values', shapesOffset - columnsOffset);
  spent.add('index: forms of entries', indexBytes - indexFooterBytes - shapesOffset);
  spent.add('index: header and footer', fileHeaderBytes + indexFooterBytes);
  spent.add('data: header', fileHeaderBytes);
  counts.filesets += 1;
  counts.blocks.add(key.blockStartNanos);
  let damagedSeries = 0;
  const path = filesetPath(folder, key, 'data');
  for (const entry of reader.entries()) {
    counts.entries += 1;
    const chunks = await reader.readData(entry.dataOffset, entry.dataLength);
    if (reader.isWhole(entry, chunks)) {
      try {
        addChunks(chunks, spent, counts);
        continue;
      } catch (error) {
        all.damaged(`${path}: series ${printable(entry.id)}: ${messageOf(error)}`);
      }
    } else {
      const end = entry.dataOffset + entry.dataLength;
      const range = `bytes ${entry.dataOffset} to ${end}`;
      all.damaged(`${path}: checksum of series ${printable(entry.id)} is wrong: ${range}`);
    }
    damagedSeries += 1;
    spent.add('data: damaged series', entry.dataLength);
  }
  // What is in no entry is covered by the checksum of the whole.
  if (damagedSeries === 0) await reader.verifyData();
}

function addChunks(chunks: Uint8Array, spent: Spent, counts: FilesetCounts): void {
  const headers = [...chunkHeaders(chunks, 0, chunks.length, kindsAll)];
  let at = 0;
  for (const { rowCount, payloadStart, end, firstNanos, lastNanos } of headers) {
    counts.rows += rowCount;
    if (counts.firstNanos === null || firstNanos < counts.firstNanos) {
      counts.firstNanos = firstNanos;
    }
    if (lastNanos > counts.lastNanos) counts.lastNanos = lastNanos;
    spent.add('data: chunk headers', payloadStart - at);
    spent.add('data: times and values', end - payloadStart);
    at = end;
  }
}

/** An ID as text, on one line. */
function printable(id: Uint8Array): string {
  return JSON.stringify(new TextDecoder().decode(id)).slice(1, -1).replaceAll('\\"', '"');
}

const savedSections = ['', 'manifest', 'summary', 'names', 'terms', 'series', 'live blocks'];

/** Compares the checksum of each section. */
async function verifySavedIndex(all: Verification, { path, bytes }: DataFile): Promise<void> {
  const { print } = all;
  const full = `${all.folder}/${path}`;
  const spent = new Spent();
  spent.addFile(bytes);
  print(`saved index ${full}`);
  try {
    await using file = await all.env.disk.open(full, 'read');
    const problem = indexFileHeaderProblem(await file.read(0, indexFileHeaderBytes));
    if (problem !== null) throw new Error(problem);
    const footer = await file.read(Math.max(0, bytes - indexFileFooterBytes), indexFileFooterBytes);
    const start = directoryStart(footer, bytes);
    const rows = decodeDirectory(await file.read(start, bytes - start), start);
    spent.add('header', indexFileHeaderBytes);
    spent.add('directory and footer', directoryRowBytes * rows.length + indexFileFooterBytes);
    for (const row of rows) {
      const name = savedSections[row.kind] ?? `section of kind ${row.kind}`;
      spent.add(name, row.bytes);
      let checksum = 0;
      for (let at = row.start; at < row.start + row.bytes; at += readBytes) {
        const length = Math.min(readBytes, row.start + row.bytes - at);
        checksum = crc32c(await file.read(at, length), checksum);
      }
      if (checksum === row.crc32c) continue;
      all.damaged(
        `${full}: checksum of ${name} is wrong: bytes ${row.start} to ${row.start + row.bytes}`,
      );
    }
  } catch (error) {
    all.damaged(`${full}: ${messageOf(error)}`);
  }
  spent.print(print, 'not readable');
}

const chunkKindNames: Readonly<Record<number, string>> = {
  [chunkKind.rawFloat]: 'raw',
  [chunkKind.float]: 'compressed',
  [chunkKind.floatLags]: 'compressed',
  [chunkKind.floatStarts]: 'compressed',
  [chunkKind.typed]: 'typed',
};

async function verifySegments(
  all: Verification,
  kind: string,
  files: readonly DataFile[],
): Promise<void> {
  for (const { path, bytes } of files) {
    const full = `${all.folder}/${path}`;
    const spent = new Spent();
    spent.addFile(bytes);
    const counts = { series: 0, rows: 0, batches: 0, ends: 0, others: [] as string[] };
    let hasHeader = true;
    const records = readSegment(all.env.disk, full, (problem) => {
      const { start, end } = problem;
      spent.add(problem.kind, end - start);
      if (start === 0) hasHeader = false;
      // A power loss leaves a torn tail in a log: nothing in it was acknowledged.
      const isHarmless = problem.kind === 'torn tail' && kind === 'commit log';
      if (!isHarmless) all.damaged(`${full}: ${problem.kind}: bytes ${start} to ${end}`);
    });
    const names = new Map<number, string>();
    const nameOf = (ordinal: number): string => names.get(ordinal) ?? `number ${ordinal}`;
    for await (const record of records) {
      switch (record.kind) {
        case 'namespace':
          names.set(record.ordinal, record.name);
          break;
        case 'series':
          for (const { tags, explicitId } of record.entries) {
            counts.series += 1;
            spent.add('series: tags and IDs', tags.length + explicitId.length);
            spent.add('series: slots and lengths', 20);
          }
          break;
        case 'batch':
          counts.batches += 1;
          try {
            const batch = record.batch.slice();
            for (const { rows } of rowsOfBatch(readTypedBatch(batch))) counts.rows += rows.rowCount;
            for (const [column, length] of batchColumns(batch)) {
              spent.add(`batches: ${column}`, length);
            }
          } catch (error) {
            all.damaged(`${full}: batch ${counts.batches}: ${messageOf(error)}`);
          }
          break;
        case 'chunks':
          for (const { chunks } of record.series) {
            spent.add('chunks: slots and lengths', 12);
            try {
              let at = 0;
              const headers = chunkHeaders(chunks, 0, chunks.length, kindsAll);
              for (const { rowCount, kind: form, end } of headers) {
                counts.rows += rowCount;
                spent.add(`chunks: ${chunkKindNames[form] ?? 'of heads'}`, end - at);
                at = end;
              }
            } catch (error) {
              all.damaged(`${full}: chunks: ${messageOf(error)}`);
            }
          }
          break;
        case 'truncate':
          counts.others.push(
            `all of namespace ${nameOf(record.namespaceOrdinal)} deleted at ${timeText(record.atNanos)}`,
          );
          break;
        case 'delete':
          counts.others.push(
            `deletion in namespace ${nameOf(record.namespaceOrdinal)}: ${record.json}`,
          );
          break;
        case 'kept':
          counts.others.push(
            `namespace ${nameOf(record.namespaceOrdinal)} is in segments ${record.segments.join(', ')}`,
          );
          break;
        case 'end':
          counts.ends += 1;
          break;
        default:
          // A kind of a newer version, whose checksum was right.
          break;
      }
    }
    if (bytes > 0 && hasHeader) spent.add('header', segmentHeaderBytes);
    if (kind === 'snapshot' && counts.ends === 0) all.damaged(`${full}: its end is missing`);
    const { series, rows, batches } = counts;
    const inBatches =
      batches > 0 ? ` in ${counted(batches, 'batch').replace('batchs', 'batches')}` : '';
    all.print(`${kind} ${full}: ${series} series, ${counted(rows, 'row')}${inBatches}`);
    spent.print(all.print, 'record headers, padding, others');
    for (const other of counts.others) all.print(`  ${other}`);
  }
}

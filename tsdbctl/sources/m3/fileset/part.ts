/** Series of a fileset of M3. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest, messageOf } from '#lib/errors.ts';
import { namedError, naming } from '../../naming.ts';
import type { ImportSeries, NanosRange } from '../../source.ts';
import { checkFile } from '../bytes/file_bytes.ts';
import { decodeM3tsz } from '../m3tsz/decode.ts';
import type { LeftOut } from '../series/left_out.ts';
import { type Rows, rowsWithin, sortedRows } from '../series/rows.ts';
import { tagsOfSeries } from '../series/tags.ts';
import { readStreams } from './data.ts';
import { type IndexEntry, readIndex } from './index.ts';
import type { FilesetInfo } from './info.ts';

export interface FilesetPart {
  readonly name: string;
  readonly namespace: string;
  /** Path of the files to before `data.db`. */
  readonly prefix: string;
  readonly info: FilesetInfo;
}

export interface FilesetOptions {
  readonly disk: Disk;
  readonly range: NanosRange;
  /** Whether streams have whole numbers as such. */
  readonly wholes: boolean;
  readonly leftOut: LeftOut;
}

/**
 * By their IDs; series without rows in the range are left out.
 * @throws {TsdbError} BAD_REQUEST naming file and reason when a file is damaged, or has values that
 * are no numbers
 */
export async function* seriesOfFileset(
  part: FilesetPart,
  { disk, range, wholes, leftOut }: FilesetOptions,
): AsyncGenerator<ImportSeries> {
  const { name, prefix, info } = part;
  const indexPath = `${prefix}index.db`;
  const dataPath = `${prefix}data.db`;
  await using index = await naming(indexPath, () => disk.open(indexPath, 'read'));
  await using data = await naming(dataPath, () => disk.open(dataPath, 'read'));
  await naming(indexPath, () => checkFile(index, info.indexSum));
  await naming(dataPath, () => checkFile(data, info.dataSum));
  leftOut.begin(name);
  const entries = namingAll(indexPath, readIndex(index, info.entries));
  for await (const { entry, stream } of namingAll(dataPath, readStreams(data, entries))) {
    const tags = tagsOfSeries(entry.id, entry.encodedTags);
    if (tags === null) {
      leftOut.untagged(name, entry.id);
      continue;
    }
    const all = await naming(dataPath, async () => rowsOf(part, entry, stream, wholes));
    const rows = rowsWithin(all, range);
    if (rows.timestampNanos.length > 0) yield { tags, ...rows };
  }
}

async function* namingAll<T>(path: string, items: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* items;
  } catch (error) {
    throw namedError(path, error);
  }
}

function rowsOf(
  { namespace, info }: FilesetPart,
  entry: IndexEntry,
  stream: Uint8Array,
  wholes: boolean,
): Rows {
  const { blockStartNanos, blockNanos } = info;
  if (isProtobuf(stream, blockStartNanos)) {
    throw badRequest(
      `namespace ${JSON.stringify(namespace)} has protobuf messages for values, which are no numbers`,
    );
  }
  let decoded: Rows & { readonly ascends: boolean };
  try {
    decoded = decodeM3tsz(stream, wholes);
  } catch (error) {
    const where = `stream of ${entry.bytes} bytes at ${entry.offset}`;
    throw badRequest(`${where}: ${messageOf(error)}`, { cause: error });
  }
  const { timestampNanos, values } = decoded;
  const rows = decoded.ascends ? { timestampNanos, values } : sortedRows(decoded);
  const first = rows.timestampNanos.at(0) ?? blockStartNanos;
  const last = rows.timestampNanos.at(-1) ?? blockStartNanos;
  if (first < blockStartNanos || last >= blockStartNanos + blockNanos) {
    throw badRequest(
      `rows are outside of the block of ${blockNanos} ns from ${blockStartNanos}: ${first} to ${last}`,
    );
  }
  return rows;
}

const protobufVersion = 1;
const highestByte = 56n;

/** Streams of messages begin with a version, those of numbers with the time of the block. */
function isProtobuf(stream: Uint8Array, blockStartNanos: bigint): boolean {
  return (
    stream[0] === protobufVersion && blockStartNanos >> highestByte !== BigInt(protobufVersion)
  );
}

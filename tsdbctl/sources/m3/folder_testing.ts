/**
 * Folders of M3 for tests: the fixtures, which M3's own writers made (its m3tsz encoder,
 * fs.NewWriter with today's and with legacy encoding options, and commitlog.NewCommitLog, called by a
 * small program) with what its own iterator reads from them, and files that are made here.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import type { Tag } from '#lib/tags.ts';
import type { ImportSource } from '../source.ts';
import { adler32 } from './bytes/adler32.ts';

export const fixtures: string = join(import.meta.dirname, '../../../test/fixtures/m3');

export type Files = Map<string, Uint8Array>;

/** Files of the node of the fixtures, by their paths in its folder `m3`. */
export function fixtureFiles(): Files {
  const folder = join(fixtures, 'node');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const paths = names.filter((name) => statSync(join(folder, name)).isFile());
  return new Map(
    paths.map((path) => [`m3/${path}`, new Uint8Array(readFileSync(join(folder, path)))]),
  );
}

/** A disk of which files are read alone. */
export function diskOf(files: Files): Disk {
  const missing = (path: string) => Object.assign(new Error(`no file ${path}`), { code: 'ENOENT' });
  const open = async (path: string): Promise<DiskFile> => {
    const bytes = files.get(path);
    if (bytes === undefined) throw missing(path);
    const file = {
      read: async (position: number, length: number) => bytes.slice(position, position + length),
      size: async () => bytes.length,
      close: async () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    return file as unknown as DiskFile;
  };
  const list = async (path: string) => {
    const inside = [...files.keys()].filter((name) => name.startsWith(`${path}/`));
    return [...new Set(inside.map((name) => name.slice(path.length + 1).split('/')[0]!))].sort();
  };
  const size = async (path: string) => files.get(path)?.length ?? null;
  return { open, list, size } as unknown as Disk;
}

export interface ReadSeries {
  readonly part: string;
  readonly tags: readonly (readonly [string, string])[];
  readonly times: string[];
  readonly bits: string[];
}

/** What a part is of: its name tells more, by which another file of that name is another part. */
export function fileOf(partName: string): string {
  return partName.replace(/ .*$/, '');
}

/** What a source has, rows of one series of a part together. */
export async function readSource(source: ImportSource, skip = 0): Promise<readonly ReadSeries[]> {
  const series = new Map<string, ReadSeries>();
  for (const part of await source.parts()) {
    for await (const { tags, timestampNanos, values } of part.series(skip)) {
      const pairs = sortedPairs(tags.map(({ name, value }: Tag) => [name, value] as const));
      const file = fileOf(part.name);
      const key = JSON.stringify([file, pairs]);
      const all = series.get(key) ?? { part: file, tags: pairs, times: [], bits: [] };
      series.set(key, all);
      const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
      all.times.push(...Array.from(timestampNanos, String));
      all.bits.push(...Array.from(bits, (value) => value.toString(16).padStart(16, '0')));
    }
  }
  return sortedSeries([...series.values()]);
}

type Pairs = readonly (readonly [string, string])[];

export function sortedPairs(pairs: Pairs): Pairs {
  return pairs.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function sortedSeries(series: readonly ReadSeries[]): readonly ReadSeries[] {
  return series.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

const keyOf = ({ part, tags }: ReadSeries) => JSON.stringify([part, tags]);

/** What M3 wrote to the filesets of the fixtures. */
export function fixtureSeries(): readonly ReadSeries[] {
  const written = JSON.parse(readFileSync(join(fixtures, 'filesets.json'), 'utf8')) as ReadSeries[];
  return sortedSeries(written.map((each) => ({ ...each, tags: sortedPairs(each.tags) })));
}

export const logName = 'commitlogs/commitlog-0-0.db';

/** What it wrote to the commit log for a namespace. */
export function fixtureLog(namespace: string): readonly ReadSeries[] {
  type Written = ReadSeries & { readonly namespace: string };
  const written = JSON.parse(readFileSync(join(fixtures, 'commit_log.json'), 'utf8')) as Written[];
  const wanted = written.filter((each) => each.namespace === namespace);
  return sortedSeries(
    wanted.map(({ tags, times, bits }) => {
      return { part: logName, tags: sortedPairs(tags), times, bits };
    }),
  );
}

const packedBytes = (bytes: Uint8Array) => {
  const header = Buffer.from([0xc6, 0, 0, 0, 0]);
  header.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([header, bytes]);
};

const packedWhole = (value: bigint) => {
  const bytes = Buffer.from([0xd3, 0, 0, 0, 0, 0, 0, 0, 0]);
  bytes.writeBigInt64BE(value, 1);
  return bytes;
};

const packedFloat = (value: number) => {
  const bytes = Buffer.from([0xcb, 0, 0, 0, 0, 0, 0, 0, 0]);
  bytes.writeDoubleBE(value, 1);
  return bytes;
};

/** An object of M3's, of fields that are packed. */
function packedObject(
  type: number,
  fields: readonly Uint8Array[],
  count: number = fields.length,
): Buffer {
  return Buffer.concat([Buffer.from([1, 0x92, type, 0x90 | count]), ...fields]);
}

export function utf8(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text));
}

export function encodedTags(tags: Record<string, string>): Uint8Array {
  const pairs = Object.entries(tags);
  const words = (...numbers: number[]) => Buffer.from(Uint16Array.from(numbers).buffer);
  const texts = pairs.flat().flatMap((text) => [words(Buffer.byteLength(text)), Buffer.from(text)]);
  return Buffer.concat([words(10_101, pairs.length), ...texts]);
}

export interface MadeEntry {
  readonly id: string;
  readonly tags?: Uint8Array;
  readonly stream: Uint8Array;
  /** Where the stream is, instead of behind the one before. */
  readonly offset?: number;
}

export const blockNanos: bigint = 7_200_000_000_000n;

/** Files of a fileset, by their paths in the folder `m3`. */
export function madeFileset(
  name: string,
  blockStartNanos: bigint,
  entries: readonly MadeEntry[],
  count: number = entries.length,
): Files {
  let at = 0;
  const index = entries.map(({ id, tags, stream, offset }, number) => {
    const fields = [
      packedWhole(BigInt(number)),
      packedBytes(utf8(id)),
      packedWhole(BigInt(stream.length)),
      packedWhole(BigInt(offset ?? at)),
      packedWhole(BigInt(adler32(stream))),
      packedBytes(tags ?? new Uint8Array()),
    ];
    at += stream.length;
    const entry = packedObject(5, fields, fields.length + 1);
    return Buffer.concat([entry, packedWhole(BigInt(adler32(entry)))]);
  });
  const one = Buffer.from([0x91, 0]);
  const info = packedObject(2, [
    packedWhole(blockStartNanos),
    packedWhole(blockNanos),
    packedWhole(BigInt(count)),
    packedWhole(1n),
    one,
    Buffer.from([0x92, 0, 0]),
  ]);
  const bytes = {
    info,
    index: Buffer.concat(index),
    summaries: Buffer.alloc(0),
    bloomfilter: Buffer.alloc(0),
    data: Buffer.concat(entries.map(({ stream }) => stream)),
  };
  const sums = Object.values(bytes).map((each) => adler32(each));
  const digest = new Uint8Array(Uint32Array.from(sums).buffer);
  const checkpoint = new Uint8Array(Uint32Array.of(adler32(digest)).buffer);
  const all = Object.entries({ ...bytes, digest, checkpoint });
  return new Map(all.map(([file, each]) => [`m3/${name}-${file}.db`, new Uint8Array(each)]));
}

/** A chunk of a commit log. */
export function madeChunk(bytes: Uint8Array): Uint8Array {
  const size = new Uint8Array(Uint32Array.of(bytes.length).buffer);
  const sums = new Uint8Array(Uint32Array.of(adler32(size), adler32(bytes)).buffer);
  return Buffer.concat([size, sums, bytes]);
}

/** A message of a commit log, with its size before it. */
export function madeMessage(bytes: Uint8Array): Uint8Array {
  const size: number[] = [];
  for (let left = bytes.length; ; left >>>= 7) {
    size.push(left > 127 ? (left & 127) | 128 : left);
    if (left <= 127) break;
  }
  return Buffer.concat([Buffer.from(size), bytes]);
}

export const madeLogInfo: Uint8Array = madeMessage(
  packedObject(7, [packedWhole(0n), packedWhole(0n), packedWhole(0n)]),
);

export interface MadeRow {
  readonly index: number;
  /** Of the first row of a series alone. */
  readonly id?: string;
  readonly namespace?: string;
  readonly tags?: Uint8Array;
  readonly nanos: bigint;
  readonly value: number;
  readonly annotation?: string;
}

export function madeLogEntry(row: MadeRow): Uint8Array {
  const { index, id, namespace = 'default', tags, nanos, value, annotation = '' } = row;
  const of = [id ?? '', namespace].map((text) => packedBytes(utf8(text)));
  const metadata =
    id === undefined
      ? new Uint8Array()
      : packedObject(9, [...of, Buffer.from([0]), packedBytes(tags ?? new Uint8Array())], 3);
  return madeMessage(
    packedObject(8, [
      packedWhole(BigInt(index)),
      packedWhole(0n),
      packedBytes(metadata),
      packedWhole(nanos),
      packedFloat(value),
      Buffer.from([1]),
      packedBytes(utf8(annotation)),
    ]),
  );
}

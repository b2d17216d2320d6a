/**
 * The data folder of a node of M3, of which series and rows are taken over:
 *
 *     data/NAMESPACE/SHARD/fileset-BLOCK-VOLUME-info.db, -index.db, -data.db, … what was flushed
 *     snapshots/NAMESPACE/SHARD/fileset-BLOCK-VOLUME-…                         what was not, until then
 *     commitlogs/commitlog-0-NUMBER.db                                         and all that came later
 *
 * A part is a fileset, the newest of a block that is complete, or a file of the commit log.
 */
import type { Disk } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import {
  allTimes,
  failing,
  type ImportPart,
  type ImportSource,
  isDamage,
  isGone,
  type NanosRange,
} from '../source.ts';
import { namesIn } from '../folders.ts';
import { sumOfEnds } from './bytes/file_bytes.ts';
import { seriesOfLog } from './commit_log/part.ts';
import { type FilesetFiles, listFilesets, listShards } from './fileset/list.ts';
import { type FilesetInfo, readFilesetInfo } from './fileset/info.ts';
import { seriesOfFileset } from './fileset/part.ts';
import { LeftOut } from './series/left_out.ts';

export interface M3Options {
  readonly namespace: string;
  /** Rows of other times are left out. */
  readonly range?: NanosRange;
  /** False when the nodes were built without M3's encoding of whole numbers. */
  readonly intOptimized?: boolean;
  /** Rows of a commit log that are in memory; 48 bytes each. */
  readonly rowsHeldMax?: number;
  /** Series of the namespace in a commit log, whose tags are in memory. */
  readonly logSeriesMax?: number;
}

const rowsHeldDefault = 1 << 21;
const logSeriesDefault = 1 << 23;

const filesetFolders = ['snapshots', 'data'] as const;
const logFolder = 'commitlogs';
/** What stands beside the namespaces of snapshots. */
const snapshotFile = /^snapshot-.*\.db$/;
const logName = /^commitlog-(\d+)-(\d+)\.db$/;
/** A shard is listed so many times while what it has is deleted. */
const shardListsMax = 5;
/** Beside the log that it writes M3 has opened the next one: it has this much at most, and no rows. */
const emptyLogBytesMax = 64;

/** Digits of sums, by which parts of one name are told apart that are those of another replica, or were damaged. */
const digitsOf = (...sums: readonly number[]): string =>
  sums.map((sum) => sum.toString(16).padStart(8, '0')).join('');

/**
 * What a folder of M3 has of a namespace. Filesets come in the order of their blocks, and then the
 * commit logs, which may have rows of any time in the range.
 */
export function m3Source(folder: string, options: M3Options, disk: Disk): ImportSource {
  const { namespace, range = allTimes, intOptimized = true } = options;
  const { rowsHeldMax = rowsHeldDefault, logSeriesMax: seriesMax = logSeriesDefault } = options;
  const leftOut = new LeftOut();
  /** Of a fileset that was read: of those that were not, it is the length, too. */
  let blockNanos = 0n;
  /** Filesets that lacked a file when they were listed before: a node that runs deletes such ones. */
  const lacking = new Set<string>();
  const filesetOptions = { disk, range, wholes: intOptimized, leftOut };
  const logOptions = { disk, range, rowsHeldMax, seriesMax, leftOut };

  /** Of a fileset of which it cannot be read what it has: whoever takes it is told why. */
  function damagedPart(
    { name: file, blockStartNanos, bytes }: FilesetFiles,
    damage: Error,
  ): ImportPart {
    return {
      name: `${file}, damaged`,
      startNanos: blockStartNanos,
      endNanos: blockStartNanos + 1n,
      bytes,
      contents: contentsOf(file, blockStartNanos),
      shard: shardOf(file),
      series: () => failing(badRequest(damage.message)),
    };
  }

  /** @throws {TsdbError} NOT_FOUND when it lacks a file, and did not when it was listed before */
  async function filesetPart(files: FilesetFiles): Promise<ImportPart | null> {
    const { name: file, bytes } = files;
    const prefix = `${folder}/${file}-`;
    let info: FilesetInfo;
    try {
      if (files.missing !== null) throw files.missing;
      info = await readFilesetInfo(disk, prefix);
    } catch (error) {
      if (!isDamage(error) && !(isGone(error) && lacking.has(file))) throw error;
      // How long its block is stands in what is damaged.
      return files.blockStartNanos >= range.endNanos ? null : damagedPart(files, error);
    }
    blockNanos = info.blockNanos;
    const startNanos = info.blockStartNanos;
    const endNanos = startNanos + info.blockNanos;
    if (startNanos >= range.endNanos || endNanos <= range.startNanos) return null;
    const name = `${file} of ${digitsOf(info.indexSum, info.dataSum)}`;
    const part = { name: file, namespace, prefix, info };
    const contents = contentsOf(file, startNanos);
    const series = (skip: number) => skipping(seriesOfFileset(part, filesetOptions), skip);
    const untagged = () => leftOut.untaggedIn(file);
    const shard = shardOf(file);
    return { name, startNanos, endNanos, bytes, contents, shard, series, untagged };
  }

  /** Listed again by itself when something of it is gone, as there are many shards, and listing them all takes minutes. */
  async function shardParts(place: string): Promise<ShardParts> {
    for (let lists = 1; ; lists += 1) {
      const parts: ImportPart[] = [];
      const whole: bigint[] = [];
      const missing: TsdbError[] = [];
      let unfinished: readonly bigint[] = [];
      const isLast = lists === shardListsMax;
      try {
        const found = await listFilesets(disk, folder, place);
        ({ unfinished } = found);
        for (const files of found.filesets) {
          whole.push(files.blockStartNanos);
          try {
            const part = await filesetPart(files);
            if (part !== null) parts.push(part);
          } catch (error) {
            if (!isGone(error)) throw error;
            missing.push(error);
            if (isLast) lacking.add(files.name);
          }
        }
      } catch (error) {
        if (!isGone(error)) throw error;
        missing.push(error);
      }
      if (missing.length === 0 || isLast) return { parts, whole, unfinished, missing };
    }
  }

  async function logSize(path: string): Promise<Pick<LogFile, 'bytes' | 'digits' | 'damage'>> {
    try {
      const bytes = (await disk.size(path)) ?? 0;
      return { bytes, digits: digitsOf(await sumOfEnds(disk, path, bytes)), damage: null };
    } catch (error) {
      if (!isDamage(error)) throw error;
      return { bytes: 0, digits: '', damage: error };
    }
  }

  async function logParts(): Promise<readonly ImportPart[]> {
    const names = (await namesIn(disk, `${folder}/${logFolder}`)).flatMap((name) => {
      const match = logName.exec(name);
      return match === null ? [] : [{ name, order: [Number(match[1]), Number(match[2])] as const }];
    });
    names.sort((a, b) => a.order[0] - b.order[0] || a.order[1] - b.order[1]);
    const logs: LogFile[] = [];
    for (const { name } of names) {
      const file = `${logFolder}/${name}`;
      const path = `${folder}/${file}`;
      logs.push({ file, path, ...(await logSize(path)) });
    }
    const newest = logs.findLastIndex(({ bytes }) => bytes > emptyLogBytesMax);
    const parts: ImportPart[] = [];
    for (const [at, { file, path, bytes, digits, damage }] of logs.entries()) {
      // It is deleted when filesets have all of it: lists of later have these.
      const common = { ...range, bytes, contents: [] };
      if (damage !== null) {
        parts.push({ ...common, name: `${file}, damaged`, series: () => failing(damage) });
        continue;
      }
      // A log that grew has new rows: it is another part.
      const name = `${file} of ${bytes} bytes, ${digits}`;
      const part = { name: file, namespace, path, isNewest: at >= newest };
      const series = (skip: number) => skipping(seriesOfLog(part, logOptions), skip);
      const untagged = () => leftOut.untaggedIn(file);
      parts.push({ ...common, name, series, untagged });
    }
    return parts;
  }

  return {
    get notes() {
      return leftOut.notes;
    },
    get unfinished() {
      return leftOut.unfinished;
    },
    async parts() {
      // A node that runs moves rows from logs to snapshots and from those to data, and deletes last: in the same order they are
      // listed, so that all are seen.
      const logs = await logParts();
      leftOut.begin(logFolder);
      if (logs.length === 0) {
        leftOut.note(
          logFolder,
          `${folder}: there are no commit logs, which have what came since the last snapshots`,
        );
      }
      let filesets: ImportPart[] = [];
      const known = new Set<string>();
      const unfinished = new Map<string, bigint>();
      let missing: Error | null = null;
      for (const kind of filesetFolders) {
        for (const name of await namesIn(disk, `${folder}/${kind}`)) {
          if (!snapshotFile.test(name)) known.add(name);
        }
        const ofKind: ImportPart[] = [];
        for (const place of await listShards(disk, folder, `${kind}/${namespace}`)) {
          const found = await shardParts(place);
          missing ??= found.missing[0] ?? null;
          for (const part of found.parts) ofKind.push(part);
          for (const block of found.whole) unfinished.delete(contentOf(`${place}/`, block));
          for (const block of found.unfinished)
            unfinished.set(contentOf(`${place}/`, block), block);
        }
        filesets = [...ofKind, ...filesets];
      }
      // Listed once more, those are there under other names, or damaged.
      if (missing !== null) throw missing;
      const isWithin = (start: bigint): boolean =>
        start < range.endNanos && start + blockNanos > range.startNanos;
      leftOut.listed(namespace, [...unfinished.values()].filter(isWithin).length);
      if (!known.has(namespace)) {
        const others = [...known].sort().join(', ') || 'none';
        const text = `${folder}: there are no filesets of M3 of the namespace ${JSON.stringify(namespace)}; namespaces that are there: ${others}`;
        if (logs.length === 0) throw badRequest(`cannot read ${text}`);
        if (known.size > 0) leftOut.note(namespace, text);
      }
      filesets.sort((a, b) =>
        a.startNanos < b.startNanos ? -1 : a.startNanos > b.startNanos ? 1 : 0,
      );
      return [...filesets, ...logs];
    },
  };
}

/** Of the commit log. */
interface LogFile {
  readonly file: string;
  readonly path: string;
  readonly bytes: number;
  /** Of its ends. */
  readonly digits: string;
  /** Why it cannot be read; null when it can be. */
  readonly damage: Error | null;
}

/** Of a shard. */
interface ShardParts {
  readonly parts: readonly ImportPart[];
  /** Begins of blocks of which there is a fileset, and of those of which there is none that was written to its end. */
  readonly whole: readonly bigint[];
  readonly unfinished: readonly bigint[];
  /** What was gone when it was listed for the last time. */
  readonly missing: readonly TsdbError[];
}

/** Of a shard and block. */
const contentOf = (file: string, startNanos: bigint): string => `${shardOf(file)}/${startNanos}`;

/**
 * Rows of a block are first in snapshots, each of which has what the one before has, and then in data. A snapshot stands for no
 * data: of a block that was flushed it has what came since.
 */
function contentsOf(file: string, startNanos: bigint): readonly string[] {
  const content = contentOf(file, startNanos);
  return file.startsWith('data/') ? [content, `data ${content}`] : [content];
}

const shardOf = (file: string): string => file.split('/').at(-2)!;

async function* skipping<T>(items: AsyncIterable<T>, skip: number): AsyncGenerator<T> {
  let left = skip;
  for await (const item of items) {
    if (left > 0) left -= 1;
    else yield item;
  }
}

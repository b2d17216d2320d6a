/**
 * What Prometheus keeps on its disk, as a source: a data folder with its blocks, a snapshot of one, or a single block. Blocks of
 * Thanos, Cortex and Mimir are alike, but for downsampled ones, and say more in their meta.json.
 *
 *     01…/meta.json       ULID, times, parents (meta.ts)
 *     01…/index           series and where their chunks are (index_file.ts)
 *     01…/chunks/000001…  chunks of rows (segments.ts, float_chunk.ts, histogram_chunk.ts)
 *     01…/tombstones      what was deleted (tombstones.ts)
 *
 * The newest rows are not in a block yet: they are passed over with a note.
 */
import type { Disk } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { nanosPerMilli } from '#lib/time.ts';
import {
  allTimes,
  failing,
  type ImportPart,
  type ImportSource,
  isDamage,
  type NanosRange,
} from '../source.ts';
import { isLinkToNothing, linkToNothing } from '../folders.ts';
import { seriesOfBlock } from './block.ts';
import { type BlockMeta, isUlid, readMeta } from './meta.ts';
import type { MillisRange } from './rows.ts';
import { segmentsBytes } from './segments.ts';
import { tombstonesDigits } from './tombstones.ts';

/** Logs of rows that are in no block, and chunks of the head. */
const newestRowsPattern = /^(w[ab]l|chunks_head)$/;
const newestRowsHint =
  'the newest rows are in the write-ahead log: take a snapshot by the admin API, or wait until a block is written';
/** That of rows that came out of order, which are in no snapshot either. */
const lateRowsFolder = 'wbl';
const lateRowsHint =
  'rows that came out of order are in wbl, and in no snapshot: wait until they are in a block, about two hours, or take them by data import remote';

interface Block extends BlockMeta {
  readonly folder: string;
}

/** @param folder of Prometheus' data, of a snapshot, or of a block */
export function prometheusSource(
  folder: string,
  disk: Disk,
  range: NanosRange = allTimes,
): ImportSource {
  const notes: string[] = [];
  return {
    notes,
    unfinished: 0,
    async parts() {
      notes.length = 0;
      const found = await blocksIn(folder, disk, notes);
      const inRange = found.blocks.filter((block) => rangeOf(block, range) !== null);
      checkLabels(inRange, notes);
      // Windows may reach over the range, beyond which their samples are, too.
      const blocks = withoutParents(withoutWindows(inRange, found.blocks, notes), notes);
      const whole = wholeSources(blocks);
      const parts = found.damaged.map(([ulid, damage]) => damagedPart(ulid, damage, range));
      for (const block of blocks.sort(byTimes)) {
        try {
          parts.push(await partOf(block, disk, range, whole));
        } catch (error) {
          if (!isDamage(error)) throw error;
          parts.push(damagedPart(block.ulid, error, range));
        }
      }
      return parts;
    },
  };
}

function byTimes(a: Block, b: Block): number {
  return a.times.start - b.times.start || (a.ulid < b.ulid ? -1 : 1);
}

interface FoundBlocks {
  readonly blocks: readonly Block[];
  /** Those of which it cannot be read what they are, and why. */
  readonly damaged: readonly (readonly [ulid: string, damage: Error])[];
}

/** A block of which it is not known what it has: whoever takes it is told why. */
function damagedPart(ulid: string, damage: Error, range: NanosRange): ImportPart {
  return { name: ulid, ...range, bytes: 0, contents: [ulid], series: () => failing(damage) };
}

/**
 * Series of blocks with different labels would become the same ones.
 * @throws {TsdbError} BAD_REQUEST
 */
function checkLabels(blocks: readonly Block[], notes: string[]): void {
  const owned = blocks.filter(({ tenant }) => tenant !== '');
  const foreign = owned.find(({ tenant }) => tenant !== owned[0]!.tenant);
  if (foreign !== undefined) {
    throw badRequest(
      `blocks of different tenants: ${owned[0]!.ulid} of ${owned[0]!.tenant}, ${foreign.ulid} of ${foreign.tenant}: take each from a folder of its own`,
    );
  }
  const [first] = blocks;
  const other = blocks.find(({ labels }) => labels !== first?.labels);
  if (first !== undefined && first.labels !== '') {
    notes.push(`blocks have labels that are not in their series, for --label: ${first.labels}`);
  }
  if (first === undefined || other === undefined) return;
  throw badRequest(
    `blocks of different labels, which are not in their series: ${first.ulid} {${first.labels}}, ${other.ulid} {${other.labels}}: take each kind from a folder of its own, with --label`,
  );
}

async function blocksIn(folder: string, disk: Disk, notes: string[]): Promise<FoundBlocks> {
  const fail = (reason: string) => badRequest(`cannot read ${folder}: ${reason}`);
  if ((await disk.size(folder)) === null) throw fail('folder is missing');
  if ((await disk.size(`${folder}/meta.json`)) !== null) {
    const meta = await readMeta(disk, `${folder}/meta.json`);
    return { blocks: [{ folder, ...meta }], damaged: [] };
  }
  const names = await disk.list(folder);
  const others = names.filter((name) => !isUlid(name));
  const hints: string[] = [];
  if (others.some((name) => newestRowsPattern.test(name) && name !== lateRowsFolder)) {
    hints.push(newestRowsHint);
  }
  if (await hasBytes(disk, `${folder}/${lateRowsFolder}`)) hints.push(lateRowsHint);
  if (others.length === names.length) {
    throw fail(['there are no blocks of Prometheus', ...hints].join('; '));
  }
  if (others.length > 0) {
    const [first = 'these are no blocks', ...more] = hints;
    notes.push(`passed over ${others.join(', ')}: ${first}`, ...more);
  }
  const blocks: Block[] = [];
  const damaged: (readonly [string, Error])[] = [];
  for (const name of names.filter(isUlid)) {
    const path = `${folder}/${name}`;
    try {
      const meta = await readMeta(disk, `${path}/meta.json`);
      if (meta.ulid !== name) {
        throw badRequest(
          `cannot read ${path}/meta.json: ulid is not that of its folder: ${meta.ulid}`,
        );
      }
      blocks.push({ folder: path, ...meta });
    } catch (error) {
      if (!isDamage(error)) throw error;
      // A Prometheus that runs deletes blocks meanwhile.
      if ((await disk.size(path)) !== null) damaged.push([name, error]);
      else if (await isLinkToNothing(disk, path)) {
        damaged.push([name, badRequest(`cannot read ${path}: ${linkToNothing}`)]);
      }
    }
  }
  return { blocks, damaged };
}

/** Whether a file in a folder has something; not where there is no folder. */
async function hasBytes(disk: Disk, folder: string): Promise<boolean> {
  for (const name of await disk.list(folder)) {
    if (((await disk.size(`${folder}/${name}`)) ?? 0) > 0) return true;
  }
  return false;
}

/**
 * Windows that were made of samples are none; where the samples are not there they are told as what cannot be read.
 * @param found those of other times, too
 */
function withoutWindows(
  blocks: readonly Block[],
  found: readonly Block[],
  notes: string[],
): Block[] {
  const samples = wholeSources(found.filter(({ windowMillis }) => windowMillis === 0));
  return blocks.filter(({ ulid, windowMillis, sources }) => {
    if (windowMillis === 0 || !sources.every((each) => samples.has(each))) return true;
    notes.push(
      `passed over block ${ulid}: windows of ${windowMillis} ms of samples that are there`,
    );
    return false;
  });
}

/** What is there as a whole, if only in shares: of a source all of them have to be there. */
function wholeSources(blocks: readonly Block[]): ReadonlySet<string> {
  const places = new Map<string, Set<number>>();
  const whole = new Set<string>();
  for (const { share, sources } of blocks) {
    for (const source of sources) {
      if (share === null) {
        whole.add(source);
        continue;
      }
      const key = `${source} ${share.of}`;
      const known = places.get(key) ?? new Set();
      places.set(key, known.add(share.place));
      if (known.size === share.of) whole.add(source);
    }
  }
  return whole;
}

/**
 * A block is made after its parents, so one of two is left whatever they say. Of shares others may be on their way, and windows
 * have the parents of the samples that they were made of.
 */
function withoutParents(blocks: readonly Block[], notes: string[]): Block[] {
  const childOf = new Map(
    blocks.flatMap(({ ulid, parents, share, windowMillis }) =>
      share === null && windowMillis === 0
        ? parents.filter((parent) => parent < ulid).map((parent) => [parent, ulid] as const)
        : [],
    ),
  );
  return blocks.filter(({ ulid }) => {
    const child = childOf.get(ulid);
    if (child === undefined) return true;
    notes.push(`passed over block ${ulid}: its rows are in block ${child}, which was made of it`);
    return false;
  });
}

/** Null when there is nothing of it in the range. */
function rangeOf({ times }: Block, within: NanosRange): MillisRange | null {
  const range = millisOf(within);
  const start = Math.max(times.start, range.start);
  const end = Math.min(times.end, range.end);
  return start >= end ? null : { start, end };
}

/**
 * What was deleted of a block is in its name: a call that goes on with it knows how many of its series were written, and has to pass
 * over the same ones. One that was taken before something was deleted is taken once more; what was deleted stays where it went.
 * Rows that are outside of the times that a block says to have are its rows, as they are to queries of Prometheus that reach it.
 * @param whole sources of which all is there
 */
async function partOf(
  block: Block,
  disk: Disk,
  within: NanosRange,
  whole: ReadonlySet<string>,
): Promise<ImportPart> {
  const { ulid, folder, sources, parents, share } = block;
  const { start, end } = rangeOf(block, within)!;
  const tombstones = await tombstonesDigits(disk, `${folder}/tombstones`);
  const indexBytes = (await disk.size(`${folder}/index`)) ?? 0;
  const shareText = share === null ? '' : ` ${share.place} of ${share.of}`;
  return {
    name: tombstones === '' ? ulid : `${ulid} with tombstones ${tombstones}`,
    startNanos: BigInt(start) * nanosPerMilli,
    endNanos: BigInt(end) * nanosPerMilli,
    bytes: indexBytes + (await segmentsBytes(disk, `${folder}/chunks`)),
    contents: sources.map((source) => `${source}${shareText}`),
    // It may be known by its number alone: of before something was deleted, or of when it did not say what it is.
    madeOf: [ulid, ...(share === null ? parents : sources.filter((source) => whole.has(source)))],
    series: (skip) => seriesOfBlock(disk, { folder, range: millisOf(within), tombstones }, skip),
  };
}

function millisOf({ startNanos, endNanos }: NanosRange): MillisRange {
  return { start: millisFrom(startNanos), end: millisFrom(endNanos) };
}

/** The first millisecond that is not before the time. */
function millisFrom(nanos: bigint): number {
  const towardsZero = nanos / nanosPerMilli;
  return Number(towardsZero * nanosPerMilli < nanos ? towardsZero + 1n : towardsZero);
}

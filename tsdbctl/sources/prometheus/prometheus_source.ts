/**
 * What Prometheus keeps on its disk, as a source: a data folder with its blocks, a snapshot of one, or a single block. Blocks of
 * Thanos, Cortex and Mimir are alike, but for downsampled ones.
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
import { seriesOfBlock } from './block.ts';
import { type BlockMeta, isUlid, readMeta } from './meta.ts';
import type { MillisRange } from './rows.ts';
import { segmentsBytes } from './segments.ts';

/** Logs of rows that are in no block: what comes in order, what comes late, and chunks of the head. */
const newestRowsPattern = /^(w[ab]l|chunks_head)$/;
const newestRowsHint =
  'the newest rows are in the write-ahead log: take a snapshot by the admin API, or wait until a block is written';

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
      const blocks = withoutWindows(withoutParents(inRange, notes), notes);
      const whole = wholeSources(blocks);
      const parts = found.damaged.map(([ulid, damage]) => damagedPart(ulid, damage, range));
      for (const block of blocks.sort(byTimes)) {
        parts.push(await partOf(block, disk, range, whole, (note) => notes.push(note)));
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
  const hint = others.some((name) => newestRowsPattern.test(name)) ? newestRowsHint : null;
  if (others.length === names.length) {
    throw fail(`there are no blocks of Prometheus${hint === null ? '' : `; ${hint}`}`);
  }
  if (others.length > 0) {
    notes.push(`passed over ${others.join(', ')}: ${hint ?? 'these are no blocks'}`);
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
    }
  }
  return { blocks, damaged };
}

/** Windows that were made of samples are none; where the samples are not there they are told as what cannot be read. */
function withoutWindows(blocks: readonly Block[], notes: string[]): Block[] {
  const samples = new Set(
    blocks.flatMap(({ windowMillis, sources }) => (windowMillis === 0 ? sources : [])),
  );
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

/** A block is made after its parents, so one of two is left whatever they say. Of shares others may be on their way. */
function withoutParents(blocks: readonly Block[], notes: string[]): Block[] {
  const childOf = new Map(
    blocks.flatMap(({ ulid, parents, share }) =>
      parents
        .filter((parent) => parent < ulid && share === null)
        .map((parent) => [parent, ulid] as const),
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
function rangeOf({ times }: Block, { startNanos, endNanos }: NanosRange): MillisRange | null {
  const start = Math.max(times.start, millisFrom(startNanos));
  const end = Math.min(times.end, millisFrom(endNanos));
  return start >= end ? null : { start, end };
}

/** @param whole sources of which all is there */
async function partOf(
  block: Block,
  disk: Disk,
  of: NanosRange,
  whole: ReadonlySet<string>,
  note: (line: string) => void,
): Promise<ImportPart> {
  const { ulid, folder, times, sources, parents, share } = block;
  const range = rangeOf(block, of)!;
  const indexBytes = (await disk.size(`${folder}/index`)) ?? 0;
  const shareText = share === null ? '' : ` ${share.place} of ${share.of}`;
  return {
    name: ulid,
    startNanos: BigInt(range.start) * nanosPerMilli,
    endNanos: BigInt(range.end) * nanosPerMilli,
    bytes: indexBytes + (await segmentsBytes(disk, `${folder}/chunks`)),
    contents: sources.map((source) => `${source}${shareText}`),
    madeOf: share === null ? parents : sources.filter((source) => whole.has(source)),
    series: (skip) => {
      const onOutside = (): void => note(`left out rows of block ${ulid}: outside of its times`);
      return seriesOfBlock(disk, { folder, times, range, onOutside }, skip);
    },
  };
}

/** The first millisecond that is not before the time. */
function millisFrom(nanos: bigint): number {
  const towardsZero = nanos / nanosPerMilli;
  return Number(towardsZero * nanosPerMilli < nanos ? towardsZero + 1n : towardsZero);
}

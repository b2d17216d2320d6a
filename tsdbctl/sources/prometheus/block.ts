/** Series of a block with their rows, one series after the other. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { ImportSeries } from '../source.ts';
import { type ChunkPlace, IndexFile } from './index_file.ts';
import { type ChunkRows, type JoinedRows, joinedRows, type MillisRange } from './rows.ts';
import { Segments } from './segments.ts';
import { type Interval, readTombstones } from './tombstones.ts';

/** Longer series come in parts, so that their rows need not be in memory all at once. */
const chunksOfPartMax = 2048;
/** Rows of a part, and buckets of their histograms: only files that are made for it have more. */
const cellsOfPartMax = 1 << 26;

export interface BlockToRead {
  readonly folder: string;
  /** Rows of other times are left out. */
  readonly range: MillisRange;
  /** As of `tombstonesDigits` when it was listed. */
  readonly tombstones: string;
}

/**
 * In the order of the index. A series of more than 2048 chunks comes several times, with later rows each time; what has no rows
 * in the range that are not deleted is left out.
 * @param skip so many of the first ones are left out, too
 * @throws {TsdbError} BAD_REQUEST naming the file, the reason and the place when it is damaged, NOT_FOUND when something of it was
 * deleted since it was listed: it has another name by then
 */
export async function* seriesOfBlock(
  disk: Disk,
  { folder, range, tombstones }: BlockToRead,
  skip: number,
): AsyncGenerator<ImportSeries> {
  const { intervals, digits } = await readTombstones(disk, `${folder}/tombstones`);
  if (digits !== tombstones) {
    throw new TsdbError('NOT_FOUND', `cannot read ${folder}: rows of it were deleted meanwhile`);
  }
  await using index = await IndexFile.open(disk, `${folder}/index`);
  await using segments = new Segments(disk, `${folder}/chunks`);
  let left = skip;
  for await (const { number, chunks, tags } of index.series()) {
    const deleted = intervals.get(number) ?? [];
    const wanted = chunks.filter(
      ({ firstMillis, lastMillis }) => firstMillis < range.end && lastMillis >= range.start,
    );
    for (const part of partsOf(wanted)) {
      const isWhole = deleted.length === 0 && part.every((chunk) => isInside(chunk, range));
      if (left > 0 && isWhole) {
        left -= 1;
        continue;
      }
      const isKept = isWhole ? null : keptBy(range, deleted);
      const rows = joinedRows(await rowsOf(part, segments, folder), isKept);
      if (isEmpty(rows)) continue;
      if (left > 0) left -= 1;
      else yield { tags: tags(), ...rows };
    }
  }
}

function isInside({ firstMillis, lastMillis }: ChunkPlace, { start, end }: MillisRange): boolean {
  return firstMillis >= start && lastMillis < end;
}

function keptBy({ start, end }: MillisRange, deleted: readonly Interval[]) {
  return (millis: number): boolean =>
    millis >= start &&
    millis < end &&
    !deleted.some(({ first, last }) => millis >= first && millis <= last);
}

function isEmpty({ timestampNanos, histograms }: JoinedRows): boolean {
  return timestampNanos.length === 0 && histograms.length === 0;
}

/** Chunks of a series in the order of their first times, then of the index; parts do not overlap. */
function partsOf(chunks: readonly ChunkPlace[]): ChunkPlace[][] {
  const parts: ChunkPlace[][] = [];
  const sorted = [...chunks].sort((a, b) => a.firstMillis - b.firstMillis);
  let part: ChunkPlace[] = [];
  let end = -Infinity;
  for (const chunk of sorted) {
    if (part.length === 0 || (part.length >= chunksOfPartMax && chunk.firstMillis > end)) {
      part = [];
      parts.push(part);
    }
    part.push(chunk);
    end = Math.max(end, chunk.lastMillis);
  }
  return parts;
}

async function rowsOf(
  part: readonly ChunkPlace[],
  segments: Segments,
  folder: string,
): Promise<ChunkRows[]> {
  const rows: ChunkRows[] = [];
  let cells = 0;
  for (const chunk of part) {
    const own = await segments.rowsOf(chunk);
    cells += cellsOf(own);
    if (cells > cellsOfPartMax) {
      throw badRequest(
        `cannot read ${folder}: chunks that overlap have more than ${cellsOfPartMax} rows and buckets: of a series`,
      );
    }
    rows.push(own);
  }
  return rows;
}

function cellsOf(rows: ChunkRows): number {
  if (rows.kind === 'floats') return rows.millis.length;
  return rows.histograms.reduce(
    (sum, { positive, negative }) => sum + 1 + positive.counts.length + negative.counts.length,
    0,
  );
}

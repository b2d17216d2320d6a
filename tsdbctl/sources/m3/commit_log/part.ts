/** Series of a file of the commit log of M3. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { namedError, naming } from '../../naming.ts';
import type { ImportSeries, NanosRange } from '../../source.ts';
import type { LeftOut } from '../series/left_out.ts';
import { rowsWithin } from '../series/rows.ts';
import { Collector } from './collector.ts';
import { MessageFile } from './messages.ts';

export interface LogPart {
  readonly name: string;
  readonly namespace: string;
  readonly path: string;
  /** It may be written just now, so that its end may be cut. */
  readonly isNewest: boolean;
}

export interface LogOptions {
  readonly disk: Disk;
  readonly range: NanosRange;
  /** So many rows are in memory, and then handed on. */
  readonly rowsHeldMax: number;
  /** Of the namespace. */
  readonly seriesMax: number;
  readonly leftOut: LeftOut;
}

/**
 * By the first rows of series in the file, whose rows are handed on when there are many, so that a
 * series may come more than once. Where the newest log ends too early there is a note.
 * @throws {TsdbError} BAD_REQUEST naming the file when it has values that are no numbers, and behind what is before it when it is
 * damaged, or has too many series
 */
export async function* seriesOfLog(
  part: LogPart,
  { disk, range, rowsHeldMax, seriesMax, leftOut }: LogOptions,
): AsyncGenerator<ImportSeries> {
  const { path, name, namespace, isNewest } = part;
  await using file = await naming(path, () => disk.open(path, 'read'));
  leftOut.begin(name);
  const messages = new MessageFile(file);
  const collector = new Collector(namespace, seriesMax, (id) => leftOut.untagged(name, id));
  let takes = 0;
  try {
    for (let isEnd = false; !isEnd; ) {
      const next = await messages.next();
      const damage = next === null ? null : collector.add(next);
      if (damage !== null) messages.damagedBy(damage);
      isEnd = next === null;
      if (collector.count < rowsHeldMax && !isEnd) continue;
      let again = takes > 0;
      takes += 1;
      for (const { tags, ...rows } of collector.take()) {
        const within = rowsWithin(rows, range);
        if (within.timestampNanos.length === 0) continue;
        yield again ? { tags, ...within, comesAgain: true } : { tags, ...within };
        again = false;
      }
    }
  } catch (error) {
    throw namedError(path, error);
  }
  const { problem } = messages;
  if (problem !== null) {
    const where = `at byte ${problem.position} of ${await file.size()}`;
    if (!problem.isCutOff || !isNewest) {
      const more = problem.isCutOff ? ', and later logs have rows' : '';
      throw badRequest(`cannot read ${path}: it ${problem.text} ${where}${more}`);
    }
    leftOut.note(name, `${path} ${problem.text} ${where}: what is after that is left out`);
  } else if (!collector.hasInfo) {
    leftOut.note(name, `${path} is empty`);
  }
}

/** An import: parts of a source one after the other, as writes of a running cluster, with its progress in a journal. */
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { isDone, type Journal, notTakenOf, nothingDone, type Progress, rowsOf } from './journal.ts';
import { RateLimit } from './rate_limit.ts';
import {
  type ImportPart,
  type ImportSeries,
  type ImportSource,
  isDamage,
} from '../sources/source.ts';
import { damageLine } from '../sources/up_to_damage.ts';
import { type TakenParts, takeParts } from './taking.ts';
import type { Target, Written } from './target.ts';
import { WriteBodies, type WriteBody } from './write_bodies.ts';

/**
 * The journal is written after so long, and at the end; where it has many parts, so that writing it takes long, after so many
 * times what that took: what is written beyond it is written once more by a call that goes on.
 */
const journalMillis = 1_000;
const journalPauses = 20;
/** Kinds of refusals that are named; the others are counted. */
const refusalsMax = 20;

export interface ImportOptions {
  /** Requests at a time. */
  readonly parallel: number;
  /** Rows a second; Infinity for no limit. */
  readonly rowsPerSecondMax: number;
  /** Parts that are damaged are passed over, with what follows the damage in them. */
  readonly skipsDamaged: boolean;
  /** False while the cluster drops native histograms, and says that it took them: a source with one is refused. */
  readonly takesHistograms: boolean;
}

export interface ImportOutcome {
  /** Of all calls that went on with the same journal, as the rows. */
  readonly parts: number;
  readonly rows: number;
  /** Of parts that the source has, whichever call read them. */
  readonly refused: number;
  /** One of each kind. */
  readonly refusals: readonly string[];
  /** Series of parts that were left out, since their tags cannot be read; of those that the source has, too. */
  readonly untagged: number;
  /** Parts that the source deleted meanwhile, and has under other names. */
  readonly replaced: readonly string[];
  /** Parts that it deleted before all of their rows were taken, and has no more. */
  readonly lost: readonly string[];
  /** Parts that were passed over, and why. */
  readonly damaged: readonly string[];
}

export interface ImportSteps {
  readonly source: ImportSource;
  readonly target: Pick<Target, 'write'>;
  readonly journal: Pick<Journal, 'read' | 'write'>;
  readonly clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  readonly signal: AbortSignal;
  /** Told now and then, and waited for: what it throws ends the import. */
  readonly onProgress: (progress: Progress, parts: readonly ImportPart[]) => Promise<void> | void;
}

export const histogramsDropped =
  'the source has native histograms, which the cluster drops until its upgrade is finished: see "tsdbctl upgrade status"';

export async function runImport(
  { source, target, journal, clock, signal, onProgress }: ImportSteps,
  { parallel, rowsPerSecondMax, skipsDamaged, takesHistograms }: ImportOptions,
): Promise<ImportOutcome> {
  const before = await journal.read();
  const taken = new Map(before.taken);
  const waiting = new Map(before.waiting);
  let progress: Progress = { ...before, taken, waiting };
  const refusals = new Map<string, string>();
  const damaged: string[] = [];
  const limit = new RateLimit(rowsPerSecondMax, clock);
  let dueMillis = clock.monotonicMillis() + journalMillis;
  let parts: readonly ImportPart[] = [];
  /** @param begun rows of the part that was begun, those of the series that is not whole, too */
  const advance = async (next: Progress, begun: BegunRows): Promise<void> => {
    progress = next;
    const beganMillis = clock.monotonicMillis();
    if (beganMillis < dueMillis) return;
    await journal.write(progress);
    const endMillis = clock.monotonicMillis();
    dueMillis = endMillis + Math.max(journalMillis, journalPauses * (endMillis - beganMillis));
    await onProgress({ ...progress, ...begun }, parts);
  };
  const take = async (part: ImportPart): Promise<boolean> => {
    const isBegun = progress.part === part.name && part.changes === undefined;
    const skip = isBegun ? progress.series : 0;
    if (!isBegun) progress = { ...progress, part: part.name, series: 0, rows: 0, refused: 0 };
    let begun: BegunRows = { rows: progress.rows, refused: progress.refused };
    const sent = new InOrder(parallel, (body) => target.write(body));
    const note = async (all: readonly Answered[]): Promise<void> => {
      for (const { body, written } of all) {
        if (written.reason !== '') {
          const first = firstRefusal(written.reason);
          const kind = first.replace(valuesPattern, '');
          if (refusals.size < refusalsMax && !refusals.has(kind)) refusals.set(kind, first);
        }
        begun = {
          rows: begun.rows + body.rows - written.refused,
          refused: begun.refused + written.refused,
        };
        const { seriesDone: series } = body;
        const isWhole = series > progress.series;
        await advance(isWhole ? { ...progress, series, ...begun } : progress, begun);
      }
    };
    const bodies = new WriteBodies(skip);
    const send = async (body: WriteBody): Promise<void> => {
      await limit.take(body.rows, signal);
      await note(await sent.send(body));
    };
    let damage: Damage | null = null;
    try {
      for await (const series of undamaged(part, skip)) {
        if (series.comesAgain) {
          // A body that has to be sent again would come after the next one.
          for (const body of bodies.end()) await send(body);
          await note(await sent.rest());
        }
        if (!takesHistograms && (series.histograms?.length ?? 0) > 0) {
          throw new TsdbError('CONFLICT', histogramsDropped);
        }
        for (const body of bodies.add(series)) await send(body);
        if (signal.aborted) throw new TsdbError('CANCELLED', 'the import was stopped');
      }
    } catch (error) {
      if (!(error instanceof Damage) || !skipsDamaged) {
        // What comes late would be written over rows of later parts.
        await sent.settled();
        throw error;
      }
      damage = error;
    }
    for (const body of bodies.end()) await send(body);
    await note(await sent.rest());
    const isDamaged = damage !== null;
    const untagged = part.untagged?.() ?? 0;
    taken.set(part.name, { ...begun, isDamaged, untagged });
    if (damage !== null) damaged.push(damageLine(part, damage));
    await advance({ ...nothingDone, taken, waiting }, { rows: 0, refused: 0 });
    return isDone(progress, part.name);
  };
  const takeAll = (): Promise<TakenParts> =>
    takeParts(source, {
      waiting,
      signal,
      isDone: (name) => isDone(progress, name),
      undo: (name) => taken.delete(name),
      async take(part, listed) {
        if (parts !== listed) {
          parts = listed;
          progress = { ...progress, waiting };
          // What is listed now may be gone when a call goes on after this one was ended.
          await journal.write(progress);
        }
        return await take(part);
      },
    });
  const { listed, replaced, lost } = await takeAll().catch(async (error: unknown) => {
    // Why it ended says more than why that could not be noted.
    await journal.write(progress).catch(() => {});
    throw error;
  });
  // Of slices that were asked for once more the last answer counts.
  const names = new Set(listed.map(({ name }) => name));
  if (listed.some(({ changes }) => changes)) {
    for (const name of taken.keys()) if (!names.has(name)) taken.delete(name);
  }
  // What was begun last may be gone: its rows are in other parts.
  progress = { ...nothingDone, taken, waiting };
  await journal.write(progress);
  const notTaken = notTakenOf(progress, listed);
  const rows = rowsOf(progress);
  return {
    parts: progress.taken.size,
    rows,
    ...notTaken,
    refusals: [...refusals.values()],
    replaced,
    lost,
    damaged,
  };
}

/** What two refusals of a kind differ by: values of tags, and times. */
const valuesPattern = /"(?:[^"\\]|\\.)*"|\d+/g;
/** An answer says how many rows of its request were refused, and then of each of the first ones why. */
const countsPattern = /^\d+ of \d+ samples were refused[^:]*: /;
const firstPattern = /^(?:"(?:[^"\\]|\\.)*"|[^";])+/;

function firstRefusal(reason: string): string {
  const all = reason.replace(countsPattern, '');
  return `refused: ${firstPattern.exec(all)?.[0] ?? all}`;
}

type BegunRows = Pick<Progress, 'rows' | 'refused'>;

/** What is wrong with a source, not with the writes of it. */
class Damage extends TsdbError {}

async function* undamaged(part: ImportPart, skip: number): AsyncGenerator<ImportSeries> {
  try {
    yield* part.series(skip);
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new Damage('BAD_REQUEST', error.message, { cause: error });
  }
}

interface Answered {
  readonly body: WriteBody;
  readonly written: Written;
}

/** Requests under way, of which answers are given in the order in which they were sent. */
class InOrder {
  readonly #parallel: number;
  readonly #write: (body: WriteBody) => Promise<Written>;
  readonly #waiting: Promise<Answered>[] = [];

  constructor(parallel: number, write: (body: WriteBody) => Promise<Written>) {
    this.#parallel = parallel;
    this.#write = write;
  }

  /** Sends it when fewer than the most are under way; gives answers that are waited for meanwhile. */
  async send(body: WriteBody): Promise<readonly Answered[]> {
    const answered: Answered[] = [];
    while (this.#waiting.length >= this.#parallel) answered.push(await this.#waiting.shift()!);
    const writing = this.#write(body).then((written) => ({ body, written }));
    // Whoever waits for it later is told.
    writing.catch(() => {});
    this.#waiting.push(writing);
    return answered;
  }

  async rest(): Promise<readonly Answered[]> {
    return await Promise.all(this.#waiting.splice(0));
  }

  /** When none is under way, whatever has become of them. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#waiting);
  }
}

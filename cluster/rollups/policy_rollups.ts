/**
 * Rollups of one storage policy, window after window (docs/AGGREGATION.md, Rollups). A window is made a moment after its end,
 * and once more when rows may come late no longer; what differs then is written again. All is made of stored rows, so that who
 * dies in the middle loses nothing, and who takes over makes the same.
 */
import type { IndexQuery } from '#lib/index_query.ts';
import { rollupTag } from '../aggregation_rules/match.ts';
import { lookBackNanos } from '../aggregation_rules/rollups/map.ts';
import type { WindowPart } from '../aggregation_rules/rollups/accumulators.ts';
import type { Output } from '../aggregation_rules/rollups/outputs.ts';
import { type ReducedRow, RollupReduce } from '../aggregation_rules/rollups/reduce.ts';
import {
  changeTransforms,
  type StoragePolicy,
  type TransformType,
} from '../aggregation_rules/rules.ts';
import type { RuleSetsOverTime } from '../aggregation_rules/sets/over_time.ts';
import type { Clock } from '#lib/env/env.ts';
import { shownText, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { encodeTags, metricNameTag, type Tags } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import { latenessNanos } from './parts/lateness.ts';
import type { RollupParts } from './parts/parts.ts';
import type { RowsRange } from './parts/rows.ts';
import { namesOfRulesThatMake } from './rivals.ts';
import { WrittenWindows } from './written_windows.ts';

const secondNanos = 1_000_000_000n;
const minuteNanos = 60n * secondNanos;
/** Windows that are made of one reading of rows; fewer when that has failed. */
const windowsAtOnceMax = 60n;
/** Before it is known how many outputs they have. */
const windowsFirst = 4n;
/** Of so many parts of outputs at most, unless one window has more: each takes some hundred bytes meanwhile. */
const partsAtOnceMax = 500_000n;
/** As many parts one with a sketch counts for. */
const partsOfSketch = 16;
/** Sums of before this time are not looked for: a counter that was away for so long begins again. */
const sumsBackNanos = 60n * minuteNanos;
/** Rows are about to expire that have so much of their retention left, or less. */
const urgentFraction = 8n;
/** Clocks of nodes, which refuse what is of the future, are as good as never further behind. */
const clocksNanos = 5n * secondNanos;
/** About what it takes to make the value of an output, in units of work (lib/turns/turns.ts). */
const outputUnits = 1_000;
/** How often windows may become final by a clock that is ahead until it is not known which were before. */
const finalsKnownMax = 64;
/** Names of series that are told to be made in different ways. */
const rivalsToldMax = 16;

/** Where values go, and marks. */
export interface RollupStorage {
  /** Of rollups that are stored, the last row in a range. */
  eachStored(
    query: IndexQuery,
    range: RowsRange,
    visit: (tags: Uint8Array, value: number) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Settles when all are written. */
  write(rows: readonly ReducedRow[], signal: AbortSignal): Promise<void>;
  /** Up to where windows are final; null when none is. */
  finalEnd(signal: AbortSignal): Promise<bigint | null>;
  /** @throws when somebody else makes rollups by now */
  noteFinalEnd(endNanos: bigint, signal: AbortSignal): Promise<void>;
}

/** What is known at a moment. */
export interface RollupMoment {
  readonly nowNanos: bigint;
  readonly sets: RuleSetsOverTime;
  /** All rules are known that hold before. */
  readonly rulesKnownNanos: bigint;
  /** How late rows may come. */
  readonly bufferPastNanos: bigint;
  /** Rows of before may be gone: of a window that begins earlier some are, and it is not made. */
  readonly keptFromNanos: bigint;
}

/** All windows up to one are made. */
interface Frontier {
  readonly endNanos: bigint;
  readonly reduce: RollupReduce;
}

/** Windows that end after a time, up to another one. */
interface Stretch {
  readonly fromNanos: bigint;
  readonly toNanos: bigint;
  /** Rows of them come late no longer. */
  readonly isFinal: boolean;
}

export interface RollupCounts {
  windows: number;
  rows: number;
  /** Windows that were written once more, and rows of them that differed. */
  corrections: number;
}

export class PolicyRollups {
  readonly policy: StoragePolicy;
  readonly #parts: RollupParts;
  readonly #storage: RollupStorage;
  readonly #clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  readonly #log: Log;
  #final: Frontier | null = null;
  #early: Frontier | null = null;
  /** Up to where windows became final, and when; the last ones. */
  #finals: { readonly nowNanos: bigint; readonly endNanos: bigint }[] = [];
  #windowsAtOnce = windowsFirst;
  /** Of a window. */
  #partsMost = 1n;
  /** Windows after the final ones go on from others than these. */
  #isBehind = false;
  /** Up to this time somebody else may have written, and may still write what was made of fewer rows. */
  #othersNanos = 0n;
  /** Of windows that are not final. */
  readonly #written: WrittenWindows;
  /** Names of series that were told to be made in different ways. */
  readonly #rivalsTold = new Set<string>();
  /** Zeros of `Reset` whose time has not come, of windows that are not final. */
  readonly #ahead = new Map<Tags, ReducedRow>();
  readonly counts: RollupCounts = { windows: 0, rows: 0, corrections: 0 };

  constructor(
    policy: StoragePolicy,
    parts: RollupParts,
    storage: RollupStorage,
    clock: Pick<Clock, 'monotonicMillis' | 'sleep'>,
    log: Log,
    written: WrittenWindows = new WrittenWindows(),
  ) {
    this.#written = written;
    this.#clock = clock;
    this.policy = policy;
    this.#parts = parts;
    this.#storage = storage;
    this.#log = log;
  }

  /** Up to where windows are made; null before the first ones. */
  get endNanos(): bigint | null {
    return this.#early?.endNanos ?? null;
  }

  /**
   * Makes what is due, some of it at a time.
   * @returns whether more is due
   */
  async advance(moment: RollupMoment, signal: AbortSignal): Promise<boolean> {
    try {
      const isMoreDue = await this.#advance(moment, signal);
      this.#takeMoreAtOnce();
      return isMoreDue;
    } catch (error) {
      // Perhaps it were too many for the time that there is.
      this.#windowsAtOnce = greater(1n, this.#windowsAtOnce / 2n);
      throw error;
    }
  }

  #takeMoreAtOnce(): void {
    const most = lesser(windowsAtOnceMax, greater(1n, partsAtOnceMax / this.#partsMost));
    this.#windowsAtOnce = lesser(most, 2n * this.#windowsAtOnce);
  }

  async #advance(moment: RollupMoment, signal: AbortSignal): Promise<boolean> {
    const { resolutionNanos } = this.policy;
    const lateness = latenessNanos(resolutionNanos);
    const aheadNanos = this.#has(['Reset'], moment.sets) ? resolutionNanos / 2n + clocksNanos : 0n;
    const settleNanos = greater(moment.bufferPastNanos, aheadNanos) + lateness;
    const finalNanos = floorTo(moment.nowNanos - settleNanos, resolutionNanos);
    if (this.#isAnewDue(moment, finalNanos)) await this.#takeOver(moment, signal);
    await this.#writeAhead(moment, signal);
    const dueNanos = this.#knownEnd(moment, floorTo(moment.nowNanos - lateness, resolutionNanos));
    const isEarly = await this.#advanceEarly(dueNanos, moment, signal);
    const least = settleNanos / 2n > resolutionNanos ? settleNanos / 2n : resolutionNanos;
    const isUrgent = this.#final!.endNanos - moment.keptFromNanos < least;
    if (isUrgent || finalNanos - this.#final!.endNanos >= least) {
      await this.#advanceFinal(finalNanos, moment, signal);
    }
    return isEarly;
  }

  /** Whether what is known here is not what can be gone on from. */
  #isAnewDue(moment: RollupMoment, finalNanos: bigint): boolean {
    const [final, early] = [this.#final, this.#early];
    if (final === null || early === null) return true;
    const { nowNanos } = moment;
    const { resolutionNanos, retentionNanos } = this.policy;
    // Storage takes no windows that are past retention: nothing would be made after them.
    const isPast = final.endNanos < nowNanos - retentionNanos - resolutionNanos;
    const isGone = final.endNanos < lesser(this.#wholeFrom(moment), finalNanos);
    // The clock was ahead: windows of which there are no rows yet are taken for made, and perhaps for final.
    const dueNanos = floorTo(nowNanos - latenessNanos(resolutionNanos), resolutionNanos);
    return isPast || isGone || early.endNanos > dueNanos + minuteNanos;
  }

  /** Windows that begin then or later have all their rows, as they are kept. */
  #wholeFrom({ keptFromNanos }: RollupMoment): bigint {
    const { resolutionNanos } = this.policy;
    return floorTo(keptFromNanos + resolutionNanos - 1n, resolutionNanos);
  }

  /** A window is of the rules of its begin. */
  #knownEnd({ rulesKnownNanos }: RollupMoment, endNanos: bigint): bigint {
    const { resolutionNanos } = this.policy;
    const known = floorTo(rulesKnownNanos, resolutionNanos) + resolutionNanos;
    return endNanos < known ? endNanos : known;
  }

  /** From where the windows of before are final on; at the first time from now on. */
  async #takeOver(moment: RollupMoment, signal: AbortSignal): Promise<void> {
    const { resolutionNanos, retentionNanos } = this.policy;
    const stored = await this.#storage.finalEnd(signal);
    const settleNanos = moment.bufferPastNanos + latenessNanos(resolutionNanos);
    const settled = moment.nowNanos - settleNanos;
    // The first window of which all rows are there, whatever is left of those before it, and which is kept until it is final.
    const keptNanos = retentionNanos - lesser(settleNanos, retentionNanos / 4n);
    const storable = floorTo(moment.nowNanos - keptNanos, resolutionNanos) + resolutionNanos;
    const whole = floorTo(moment.keptFromNanos, resolutionNanos) + resolutionNanos;
    const oldest = greater(whole, storable);
    let endNanos = floorTo(settled, resolutionNanos);
    // What is not to be final yet may still be passed over when it is.
    const missedToNanos = greater(storable, lesser(whole, endNanos));
    const isAhead = stored !== null && stored > endNanos + minuteNanos;
    if (isAhead) {
      // Those that became final by a clock that was ahead lack rows that came late since.
      const before = this.#finals.findLast(({ nowNanos }) => nowNanos <= moment.nowNanos);
      if (before !== undefined) endNanos = lesser(endNanos, before.endNanos);
      const fields = { from: String(endNanos), to: String(stored) };
      this.#log.warn(
        fields,
        'rollups are final by their mark that cannot be by this clock: they are made again',
      );
    } else if (stored !== null) endNanos = stored;
    const missedFromNanos = endNanos < missedToNanos ? endNanos : null;
    if (missedFromNanos !== null) endNanos = missedToNanos;
    // Whoever takes over before one is final would begin later, or where this clock was.
    if (stored === null || isAhead) await this.#storage.noteFinalEnd(endNanos, signal);
    const reduce = new RollupReduce(resolutionNanos);
    if (this.#has(changeTransforms, moment.sets)) {
      const reach = floorTo(endNanos - lookBackNanos(resolutionNanos), resolutionNanos);
      for (let fromNanos = greater(reach, oldest); fromNanos < endNanos; ) {
        const toNanos = lesser(endNanos, fromNanos + this.#windowsAtOnce * resolutionNanos);
        const windows = { fromNanos, toNanos, isFinal: true };
        await this.#reduced(windows, reduce, moment, signal, () => {});
        fromNanos = toNanos;
        this.#takeMoreAtOnce();
      }
    }
    reduce.beginSums(await this.#sumsAt(endNanos, moment, signal));
    if (missedFromNanos !== null) {
      const fields = { from: String(missedFromNanos), to: String(missedToNanos) };
      this.#log.warn(
        fields,
        'rollups of these windows are not made for good: some of their rows are gone, or nobody keeps what they come to',
      );
    }
    this.#written.clear();
    this.#ahead.clear();
    this.#finals = this.#finals.filter(({ nowNanos }) => nowNanos <= moment.nowNanos);
    this.#othersNanos = moment.nowNanos;
    this.#final = { endNanos, reduce };
    this.#early = { endNanos, reduce: reduce.copy() };
  }

  #has(types: readonly TransformType[], { all }: RuleSetsOverTime): boolean {
    return all.some((set) => set.hasTransform(this.policy, types));
  }

  /** What counters had come to. They begin again where that cannot be read and waiting for it would cost windows. */
  async #sumsAt(
    endNanos: bigint,
    { nowNanos, keptFromNanos, sets }: RollupMoment,
    signal: AbortSignal,
  ): Promise<(tags: Tags) => number> {
    if (!this.#has(['Add'], sets)) return () => 0;
    const sums = new Map<string, number>();
    const { resolutionNanos } = this.policy;
    const back = 3n * resolutionNanos > sumsBackNanos ? 3n * resolutionNanos : sumsBackNanos;
    try {
      await this.#storage.eachStored(
        { kind: 'term', field: rollupTag, term: 'true' },
        { startNanos: endNanos - back, endNanos: endNanos + 1n },
        (tags, value) => sums.set(Buffer.from(tags).toString('latin1'), value),
        signal,
      );
    } catch (error) {
      const isUrgent = endNanos - keptFromNanos < (nowNanos - keptFromNanos) / urgentFraction;
      if (signal.aborted || !(error instanceof TsdbError) || !isUrgent) throw error;
      this.#log.warn(
        { error: error.message },
        'counters of rollups begin again: what they had come to cannot be read, and rows of their next windows expire',
      );
      return () => 0;
    }
    return (tags) => sums.get(Buffer.from(encodeTags(tags)).toString('latin1')) ?? 0;
  }

  /** @returns whether more is due */
  async #advanceEarly(
    dueNanos: bigint,
    moment: RollupMoment,
    signal: AbortSignal,
  ): Promise<boolean> {
    const early = this.#early!;
    const wholeNanos = lesser(this.#wholeFrom(moment), dueNanos);
    if (early.endNanos < wholeNanos) {
      // Of what is left of their rows they would come to less: they are told of when they would be final.
      this.#early = { endNanos: wholeNanos, reduce: early.reduce };
      return wholeNanos < dueNanos;
    }
    const most = early.endNanos + this.#windowsAtOnce * this.policy.resolutionNanos;
    const endNanos = dueNanos < most ? dueNanos : most;
    if (endNanos <= early.endNanos) return false;
    // A copy, for what fails is made again.
    const reduce = early.reduce.copy();
    const made: [bigint, ReducedRow[]][] = [];
    const keep = (end: bigint, rows: ReducedRow[]): void => void made.push([end, rows]);
    const windows = { fromNanos: early.endNanos, toNanos: endNanos, isFinal: false };
    await this.#reduced(windows, reduce, moment, signal, keep);
    await this.#write(
      made.flatMap(([, rows]) => rows),
      moment,
      signal,
    );
    for (const [end, rows] of made) this.#written.note(end, rows);
    this.#early = { endNanos, reduce };
    this.counts.windows += made.length;
    return endNanos < dueNanos;
  }

  async #advanceFinal(dueNanos: bigint, moment: RollupMoment, signal: AbortSignal): Promise<void> {
    const { resolutionNanos } = this.policy;
    const final = this.#final!;
    const most = final.endNanos + this.#windowsAtOnce * resolutionNanos;
    const early = this.#early!;
    const endNanos = [dueNanos, most, early.endNanos].reduce((a, b) => (b < a ? b : a));
    if (endNanos <= final.endNanos) return;
    const reduce = final.reduce.copy();
    const windows = { fromNanos: final.endNanos, toNanos: endNanos, isFinal: true };
    const isCorrected = await this.#corrected(windows, reduce, moment, signal);
    // What comes after goes on from what these have come to, also where that could not be made at once.
    if (isCorrected) this.#isBehind = true;
    if (this.#isBehind) {
      const again = reduce.copy();
      for (let from = greater(endNanos, this.#wholeFrom(moment)); from < early.endNanos; ) {
        const to = from + this.#windowsAtOnce * resolutionNanos;
        const past = to < early.endNanos ? to : early.endNanos;
        const some = { fromNanos: from, toNanos: past, isFinal: false };
        await this.#corrected(some, again, moment, signal);
        from = past;
      }
      this.#early = { endNanos: early.endNanos, reduce: again };
      this.#isBehind = false;
    }
    await this.#storage.noteFinalEnd(endNanos, signal);
    this.#written.forget(endNanos);
    this.#final = { endNanos, reduce };
    const { nowNanos } = moment;
    this.#finals = [...this.#finals, { nowNanos, endNanos }].slice(-finalsKnownMax);
  }

  /**
   * Makes windows once more, and writes what differs; for good also what somebody else may have written over it.
   * @returns whether anything differs
   */
  async #corrected(
    windows: Stretch,
    reduce: RollupReduce,
    moment: RollupMoment,
    signal: AbortSignal,
  ): Promise<boolean> {
    const due: ReducedRow[] = [];
    let otherCount = 0;
    const made: [bigint, ReducedRow[]][] = [];
    await this.#reduced(windows, reduce, moment, signal, (end, rows) => {
      made.push([end, rows]);
      const others = this.#written.differing(end, rows);
      otherCount += others.length;
      const isUnsure = windows.isFinal && end <= this.#othersNanos;
      for (const row of isUnsure ? rows : others) due.push(row);
    });
    await this.#write(due, moment, signal);
    if (otherCount === 0) return false;
    for (const [end, rows] of made) this.#written.note(end, rows);
    this.counts.corrections += otherCount;
    return true;
  }

  async #write(
    rows: readonly ReducedRow[],
    { nowNanos }: RollupMoment,
    signal: AbortSignal,
  ): Promise<void> {
    const isAhead = ({ nanos }: ReducedRow): boolean => nanos > nowNanos - clocksNanos;
    const ahead = rows.filter(isAhead);
    for (const row of ahead) this.#ahead.set(row.tags, row);
    const due = ahead.length === 0 ? rows : rows.filter((row) => !isAhead(row));
    if (due.length > 0) await this.#storage.write(due, signal);
    this.counts.rows += due.length;
  }

  /** What was ahead, and is no longer. */
  async #writeAhead(moment: RollupMoment, signal: AbortSignal): Promise<void> {
    const due = [...this.#ahead.values()].filter(
      ({ nanos }) => nanos <= moment.nowNanos - clocksNanos,
    );
    await this.#write(due, moment, signal);
    for (const { tags } of due) this.#ahead.delete(tags);
  }

  /** @param onWindow told the rows of each window, in the order of time */
  async #reduced(
    { fromNanos, toNanos, isFinal }: Stretch,
    reduce: RollupReduce,
    { sets }: RollupMoment,
    signal: AbortSignal,
    onWindow: (endNanos: bigint, rows: ReducedRow[]) => void,
  ): Promise<void> {
    const { resolutionNanos } = this.policy;
    const windowCount = Number((toNanos - fromNanos) / resolutionNanos);
    if (windowCount <= 0) return;
    const firstEndNanos = fromNanos + resolutionNanos;
    const windows = { resolutionNanos, firstEndNanos, windowCount };
    const partsOf = await this.#parts.of({ windows, sets, isFinal }, signal);
    const work = Turns.of(this.#clock).begin(signal);
    for (let window = 0; window < windowCount; window++) {
      const endNanos = firstEndNanos + BigInt(window) * resolutionNanos;
      let count = 0;
      const counted = function* (): Iterable<readonly [Output, WindowPart]> {
        for (const part of partsOf(window)) {
          count += part[1].sketch === null ? 1 : partsOfSketch;
          yield part;
        }
      };
      const onRivals = (leftOut: Output): void =>
        this.#tellRivals(leftOut, endNanos - resolutionNanos, sets);
      const steps = reduce.windowInSteps(endNanos, counted(), onRivals);
      let step = steps.next();
      for (; step.done !== true; step = steps.next()) {
        if (work.spend(outputUnits)) await work.pause();
      }
      this.#partsMost = greater(this.#partsMost, BigInt(count));
      onWindow(endNanos, step.value);
    }
  }

  #tellRivals({ series }: Output, beginNanos: bigint, sets: RuleSetsOverTime): void {
    const name = series[0]!.find((tag) => tag.name === metricNameTag)?.value ?? '';
    if (this.#rivalsTold.has(name) || this.#rivalsTold.size >= rivalsToldMax) return;
    this.#rivalsTold.add(name);
    const rules = namesOfRulesThatMake(name, this.policy, beginNanos, sets);
    this.#log.warn(
      { series: shownText(JSON.stringify(series[0])), rules },
      'rollup rules make the same series in different ways: the values of one of them are left out',
    );
  }
}

const floorTo = (nanos: bigint, step: bigint): bigint => nanos - (nanos % step);
const lesser = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const greater = (a: bigint, b: bigint): bigint => (a > b ? a : b);

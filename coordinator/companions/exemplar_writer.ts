/** Exemplars of remote writes on their way to their namespace: within a budget, and never at the cost of samples. */
import type { Session } from '#cluster/session/session.ts';
import { writeOutcome, type WriteResult } from '#cluster/session/outcomes/write_result.ts';
import type { SeriesTable } from '#cluster/session/types.ts';
import type { WriteDecoderExemplars } from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { typedRowsFormatLevel } from '#lib/format_level.ts';
import type { Companion } from '#cluster/namespaces/companion.ts';
import type { CompanionMetrics, DropReason } from './metrics.ts';
import { heldRows, type HeldRows } from './held_rows.ts';

/** How long exemplars wait for their namespace, which takes a moment on a single node. */
const heldMillisMax = 2_000;
/** Exemplars whose outcome is not known yet. */
const outstandingMax = 65_536;
/** Seconds for which what of the budget is not used is saved. */
const savedSeconds = 60;

export interface ExemplarSetting {
  readonly isEnabled: boolean;
  readonly perSecondMax: number;
}

export class ExemplarWriter {
  readonly #setting: ExemplarSetting;
  readonly #session: Pick<Session, 'write' | 'formatLevel'>;
  readonly #companion: Companion;
  readonly #metrics: CompanionMetrics;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  /** Writes go on when their request is answered. */
  readonly #signal: AbortSignal;
  #saved: number;
  #savedAtMillis: number;
  #outstanding = 0;

  constructor(
    setting: ExemplarSetting,
    session: Pick<Session, 'write' | 'formatLevel'>,
    companion: Companion,
    metrics: CompanionMetrics,
    clock: Pick<Clock, 'monotonicMillis'>,
    signal: AbortSignal,
  ) {
    this.#setting = setting;
    this.#session = session;
    this.#companion = companion;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#signal = signal;
    this.#saved = setting.perSecondMax * savedSeconds;
    this.#savedAtMillis = clock.monotonicMillis();
  }

  /**
   * Writes those of one body; their columns are read before this returns its promise.
   * @returns how many were acknowledged; it never rejects for a reason of operation
   */
  async write(exemplars: WriteDecoderExemplars, series: SeriesTable): Promise<number> {
    const { badCount, leftOutCount, rowCount } = exemplars;
    this.#drop('bad', badCount);
    this.#drop('limit', leftOutCount);
    if (rowCount === 0) return 0;
    const refusal = this.#refusal();
    const isReady = refusal === null && this.#companion.prepare();
    const isSoon = isReady || this.#companion.isMaking;
    const hindrance = refusal ?? (isSoon ? null : 'not_ready');
    if (hindrance !== null) {
      this.#drop(hindrance, rowCount);
      return 0;
    }
    const room = Math.max(0, outstandingMax - this.#outstanding);
    const wanted = Math.min(rowCount, room);
    this.#drop('busy', rowCount - wanted);
    const taken = this.#take(wanted);
    this.#drop('budget', wanted - taken);
    if (taken === 0) return 0;
    this.#outstanding += taken;
    try {
      return isReady
        ? await this.#send({ ...exemplars, rowCount: taken }, series)
        : await this.#sendWhenReady(exemplars, taken, series);
    } catch (error) {
      if (!(error instanceof TsdbError) && !this.#signal.aborted) throw error;
      this.#drop('failed', taken);
      return 0;
    } finally {
      this.#outstanding -= taken;
    }
  }

  async #send(rows: HeldRows, series: SeriesTable): Promise<number> {
    const result = await this.#session.write(this.#companion.name, rows, series, this.#signal);
    return this.#count(result, rows.rowCount);
  }

  /** The first ones wait for the namespace that is made for them. */
  async #sendWhenReady(
    exemplars: WriteDecoderExemplars,
    rowCount: number,
    table: SeriesTable,
  ): Promise<number> {
    const { rows, series } = heldRows(exemplars, rowCount, table);
    this.#drop('bad', rowCount - rows.rowCount);
    if (await this.#companion.becomesReady(heldMillisMax)) return this.#send(rows, series);
    this.#drop('not_ready', rows.rowCount);
    return 0;
  }

  /** Why none is taken at all. */
  #refusal(): DropReason | null {
    if (!this.#setting.isEnabled) return 'disabled';
    return this.#session.formatLevel < typedRowsFormatLevel ? 'upgrade' : null;
  }

  /** How many of so many the budget has. */
  #take(count: number): number {
    const { perSecondMax } = this.#setting;
    const now = this.#clock.monotonicMillis();
    const more = ((now - this.#savedAtMillis) / 1000) * perSecondMax;
    this.#saved = Math.min(perSecondMax * savedSeconds, this.#saved + more);
    this.#savedAtMillis = now;
    const taken = Math.min(count, Math.floor(this.#saved));
    this.#saved -= taken;
    return taken;
  }

  #count({ outcomes }: WriteResult, rowCount: number): number {
    let written = rowCount;
    if (outcomes !== null) {
      const counts = new Map<DropReason, number>();
      for (const outcome of outcomes) {
        if (outcome === writeOutcome.written) continue;
        written -= 1;
        const reason = reasonOf(outcome);
        counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
      for (const [reason, count] of counts) this.#drop(reason, count);
    }
    if (written > 0) this.#metrics.writtenExemplars.increase(written);
    return written;
  }

  #drop(reason: DropReason, count: number): void {
    if (count > 0) this.#metrics.droppedExemplars.increase(count, { reason });
  }
}

function reasonOf(outcome: number): DropReason {
  if (outcome === writeOutcome.tooFarPast || outcome === writeOutcome.tooFarFuture) return 'time';
  return outcome === writeOutcome.refused ? 'bad' : 'failed';
}

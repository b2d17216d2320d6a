/** Writes what is kept of statsd's metrics, at whole intervals of the clock. */
import type { Clock } from '#lib/env/env.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { StreamFormat } from '../ingest/line_formats.ts';
import type { Streams } from '../ingest/streams/streams.ts';
import type { StatsdMetrics } from './series/metrics.ts';
import { lookedAtOnce, type SeriesPart, type StatsdSeries } from './series/series.ts';

/** Of text that is handed over at once. */
const chunkCharacters = 64 * 1024;
/** About what it takes to write a line, in units of work (lib/turns/turns.ts). */
const lineUnits = 60;
/** The same of a look at a series. */
const lookUnits = 4;

export interface FlushOptions {
  readonly series: StatsdSeries<SeriesPart>;
  readonly format: StreamFormat;
  readonly intervalMillis: number;
  readonly streams: Pick<Streams, 'write'>;
  readonly clock: Pick<Clock, 'nowNanos' | 'monotonicMillis' | 'sleep'>;
  readonly metrics: StatsdMetrics;
  /** Series are there no more: what is known of them is not true any longer. */
  readonly onForgotten: () => void;
  /**
   * Asked at the end of each window, before it is written; null where series are kept here alone. Until it has said so rows are
   * of that time at the latest: others may keep series from then on.
   */
  readonly atBoundary: ((boundaryMillis: number) => Promise<void>) | null;
}

export class Flushes {
  readonly #options: FlushOptions;
  #writing: Promise<void> | null = null;
  /** No row is later. */
  #rowMillisMax = Infinity;

  constructor(options: FlushOptions) {
    this.#options = options;
  }

  /** Flushes until `stop` aborts; writing ends with `signal`. */
  async run(stop: AbortSignal, signal: AbortSignal): Promise<void> {
    const { clock, intervalMillis, metrics } = this.#options;
    let nextMillis = this.nowMillis;
    if (this.#options.atBoundary !== null) {
      this.#rowMillisMax = (Math.floor(nextMillis / intervalMillis) + 1) * intervalMillis;
    }
    while (!stop.aborted) {
      nextMillis =
        (Math.floor(Math.max(nextMillis, this.nowMillis) / intervalMillis) + 1) * intervalMillis;
      // A timer may be early.
      while (!stop.aborted && this.nowMillis < nextMillis) {
        await clock.sleep(nextMillis - this.nowMillis, stop).catch(() => {});
      }
      if (stop.aborted) break;
      await this.#pass(nextMillis);
      if (this.#writing === null) void this.#begin(signal);
      else metrics.lateFlushes.increase();
    }
    await this.#writing;
    if (!signal.aborted) await this.#begin(signal);
  }

  /** The window that ends then is over. */
  async #pass(boundaryMillis: number): Promise<void> {
    const { atBoundary, intervalMillis } = this.#options;
    if (atBoundary === null) return;
    this.#rowMillisMax = boundaryMillis;
    await atBoundary(boundaryMillis);
    this.#rowMillisMax = boundaryMillis + intervalMillis;
  }

  get nowMillis(): number {
    return Number(this.#options.clock.nowNanos() / 1_000_000n);
  }

  #begin(signal: AbortSignal): Promise<void> {
    this.#writing = this.#flush(signal).finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #flush(signal: AbortSignal): Promise<void> {
    const { series, streams, format, metrics, onForgotten } = this.#options;
    const { nowMillis } = this;
    series.counts.tell(metrics);
    const work = Turns.of(this.#options.clock).begin(signal, 'write');
    try {
      for (const isAnyForgotten of series.forgetIdle(nowMillis)) {
        if (isAnyForgotten) onForgotten();
        if (work.spend(lookUnits * lookedAtOnce)) await work.pause();
      }
      await streams.write(format, this.#chunks(signal), signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Made as they are taken, each of its own time: while rows cannot be written others are not made yet. */
  async *#chunks(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const work = Turns.of(this.#options.clock).begin(signal, 'write');
    let text = '';
    for (const lines of this.#options.series.lines(() =>
      Math.min(this.nowMillis, this.#rowMillisMax),
    )) {
      for (const line of lines) text += line;
      if (work.spend(lineUnits)) await work.pause();
      if (text.length < chunkCharacters) continue;
      yield Buffer.from(text);
      text = '';
    }
    if (text !== '') yield Buffer.from(text);
  }
}

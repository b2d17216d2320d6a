/**
 * Lines of senders that are not answered (Carbon, and what statsd comes to): a part is written before more of its stream is read, so that a sender is made
 * to wait while rows cannot be written.
 *
 *     rows, or lines of them, are bad        → counted and told, the others are written
 *     any row failed for a passing reason    → the part is written again until it succeeds
 *     the stream breaks off                  → what came is written, but for a line whose end may be missing
 */
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import type { Ingest } from '../ingest.ts';
import { lineFormats, lineUnits, type StreamFormat, unitNanosOf } from '../line_formats.ts';
import { type LinePart, LineText } from '../line_text.ts';
import type { IngestMetrics } from '../writing/metrics.ts';
import { RowsRefused } from '../writing/refusals.ts';
import { Gathered, GatheredBytes } from './gathered.ts';
import { Told } from './told.ts';

/** Of a line whose end has not come; as Carbon has it. */
const unfinishedBytesMax: number = 16 << 10;
/** Between two attempts to write a part. */
const retryMillisFirst = 100;
const retryMillisMax = 5_000;

export class Streams {
  readonly #decoder: WriteDecoder;
  readonly #ingest: Pick<Ingest, 'linePart'>;
  readonly #refusedSamples: IngestMetrics['refusedSamples'];
  readonly #clock: Pick<Clock, 'nowNanos' | 'monotonicMillis' | 'sleep'>;
  readonly #refusals: Told;
  readonly #waits: Told;
  readonly #gathered = new GatheredBytes();
  #waitingCount = 0;

  constructor(
    decoder: WriteDecoder,
    ingest: Pick<Ingest, 'linePart'>,
    { refusedSamples }: Pick<IngestMetrics, 'refusedSamples'>,
    clock: Pick<Clock, 'nowNanos' | 'monotonicMillis' | 'sleep'>,
    log: Log,
  ) {
    this.#decoder = decoder;
    this.#ingest = ingest;
    this.#refusedSamples = refusedSamples;
    this.#clock = clock;
    this.#refusals = new Told('lines are refused', clock, log);
    this.#waits = new Told('lines wait: they cannot be written now', clock, log);
  }

  /** Streams whose rows could not be written, and are written again. */
  get waitingCount(): number {
    return this.#waitingCount;
  }

  /** Counts and tells bad samples that are no lines. @param problem the first one, in words */
  refuse(format: StreamFormat, count: number, problem: string): void {
    const { name } = lineFormats[format];
    this.#refusedSamples.increase(count, { format: name, reason: 'bad' });
    this.#refusals.note(name, count, problem);
  }

  /**
   * Writes lines as they come.
   * @param chunks throws CANCELLED where it breaks off
   * @throws the signal's reason when aborted, and what the chunks throw otherwise when all before it is written
   */
  async write(
    format: StreamFormat,
    chunks: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const work = Turns.of(this.#clock).begin(signal, 'write');
    const text = new LineText(this.#decoder, unfinishedBytesMax);
    // What comes while a part is written is the next part: senders of many small pieces wait for few syncs.
    const gathered = new Gathered(chunks, text, this.#gathered, this.#clock, signal);
    try {
      while (true) {
        const gathering = await gathered.more();
        if (gathering === 'end') text.end();
        await this.#drain(text, format, work);
        if (gathering === 'more') continue;
        if (text.drop()) this.refuse(format, 1, 'the connection broke off in the middle of a line');
        gathered.throwFailure();
        return;
      }
    } finally {
      gathered.release();
    }
  }

  async #drain(text: LineText, format: StreamFormat, work: Work): Promise<void> {
    if (work.spend(lineUnits)) await work.pause();
    while (true) {
      // A line without a time has the same one however often it is written.
      const nowNanos = this.#clock.nowNanos();
      const lines = await this.#writePart(text, format, nowNanos, work.signal);
      if (lines === null) return;
      text.advance();
      if (work.spend(lineUnits * lines)) await work.pause();
    }
  }

  /** @returns lines of the part; null when there is none */
  async #writePart(
    text: LineText,
    format: StreamFormat,
    nowNanos: bigint,
    signal: AbortSignal,
  ): Promise<number | null> {
    const { code, name } = lineFormats[format];
    const unitNanos = unitNanosOf(format);
    let retryMillis = 0;
    try {
      while (true) {
        try {
          // The decoder has read other lines since the last attempt.
          const part = text.read({ format: code, unitNanos, nowNanos });
          if (part === null) return null;
          const count = (part.rows?.rowCount ?? 0) + part.badLines;
          await this.#attempt(format, part, count, signal);
          return count;
        } catch (error) {
          signal.throwIfAborted();
          if (!(error instanceof TsdbError)) throw error;
          if (retryMillis === 0) this.#waitingCount++;
          this.#waits.note(name, 1, error.message);
          retryMillis = Math.min(2 * retryMillis || retryMillisFirst, retryMillisMax);
        }
        await this.#clock.sleep(retryMillis, signal);
      }
    } finally {
      if (retryMillis > 0) this.#waitingCount--;
    }
  }

  /** @throws {TsdbError} when any row may be written again */
  async #attempt(
    format: StreamFormat,
    part: LinePart,
    count: number,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await this.#ingest.linePart(format, part, signal);
    } catch (error) {
      const isRefused = error instanceof TsdbError && error.code === 'BAD_REQUEST';
      if (!isRefused) throw error;
      if (error instanceof RowsRefused) {
        const refused = count - error.written.samples;
        this.#refusals.note(lineFormats[format].name, refused, error.message);
        return;
      }
      // All of it: it would be refused again.
      this.refuse(format, count, error.message);
    }
  }
}

/** They are there without a listener, too. */
export function streamMetrics(metrics: Metrics, streams: Pick<Streams, 'waitingCount'>): void {
  metrics.gauge(
    'tsdb_coordinator_waiting_streams',
    'Connections and sockets of senders that are not answered, whose rows could not be written and are written again.',
    [],
    () => streams.waitingCount,
  );
}

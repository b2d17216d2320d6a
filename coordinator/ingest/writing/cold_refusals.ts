/**
 * Samples that were refused for their age and that cold writes would take. A Prometheus that was
 * away for longer than `bufferPast` loses what it had kept meanwhile, for good: whoever runs the
 * database must see it, not the sender alone.
 */
import type { Clock } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { formatDurationNanos } from '#lib/time.ts';
import type { IngestMetrics } from './metrics.ts';

const warnMillisMin = 60_000;

/** Of one namespace. */
interface Noted {
  /** Refused since the last line of the log. */
  samples: number;
  warnedMillis: number;
}

export class ColdRefusals {
  readonly #metrics: Pick<IngestMetrics, 'coldRefusedSamples'>;
  readonly #log: Log;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  readonly #noted = new Map<string, Noted>();

  constructor(
    metrics: Pick<IngestMetrics, 'coldRefusedSamples'>,
    log: Log,
    clock: Pick<Clock, 'monotonicMillis'>,
  ) {
    this.#metrics = metrics;
    this.#log = log;
    this.#clock = clock;
  }

  /** Counts them, and says so in the log at most once a minute for a namespace. */
  note(
    { name, bufferPastNanos }: { readonly name: string; readonly bufferPastNanos: bigint },
    samples: number,
  ): void {
    this.#metrics.coldRefusedSamples.increase(samples, { namespace: name });
    const noted = this.#noted.get(name) ?? { samples: 0, warnedMillis: -Infinity };
    this.#noted.set(name, noted);
    noted.samples += samples;
    const nowMillis = this.#clock.monotonicMillis();
    if (nowMillis - noted.warnedMillis < warnMillisMin) return;
    this.#log.warn(
      {
        namespace: name,
        samples: noted.samples,
        bufferPast: formatDurationNanos(bufferPastNanos),
      },
      'samples are refused for good that cold writes would take: they are older than bufferPast, and the namespace was made without coldWritesEnabled',
    );
    noted.samples = 0;
    noted.warnedMillis = nowMillis;
  }
}

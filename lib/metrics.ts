/** Metrics in the Prometheus text format: the one place that knows prom-client. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export interface CounterMetric {
  increase(by?: number, labels?: Record<string, string>): void;
}
export interface GaugeMetric {
  set(value: number, labels?: Record<string, string>): void;
  /** Drops every labelled value, before a new set of them. */
  reset(): void;
}
export interface HistogramMetric {
  observe(value: number, labels?: Record<string, string>): void;
}

/** Latencies from 0.5 ms to 30 s. */
const secondsBuckets = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

/** A process has one; every subsystem registers its own series once, in one typed factory. */
export class Metrics {
  private readonly registry = new Registry();

  /** Process metrics (CPU, memory, event loop lag) under `tsdb_process_…` names of prom-client. */
  collectProcess(): void {
    collectDefaultMetrics({ register: this.registry });
  }

  counter(name: string, help: string, labelNames: string[] = []): CounterMetric {
    const metric = new Counter({ name, help, labelNames, registers: [this.registry] });
    return { increase: (by = 1, labels = {}) => metric.inc(labels, by) };
  }

  /** A count that is kept elsewhere as a plain number, which never falls; read when the metrics are scraped. */
  countedElsewhere(name: string, help: string, read: () => number): void {
    const metric: Counter = new Counter({
      name,
      help,
      registers: [this.registry],
      collect: () => {
        metric.reset();
        metric.inc(read());
      },
    });
  }

  /** With `collect` the value is read when the metrics are scraped. */
  gauge(
    name: string,
    help: string,
    labelNames: string[] = [],
    collect?: () => number,
  ): GaugeMetric {
    const metric: Gauge = new Gauge({
      name,
      help,
      labelNames,
      registers: [this.registry],
      ...(collect === undefined ? {} : { collect: () => metric.set(collect()) }),
    });
    return {
      set: (value, labels = {}) => metric.set(labels, value),
      reset: () => metric.reset(),
    };
  }

  histogram(
    name: string,
    help: string,
    labelNames: string[] = [],
    buckets: number[] = secondsBuckets,
  ): HistogramMetric {
    const metric = new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
    return { observe: (value, labels = {}) => metric.observe(labels, value) };
  }

  readonly contentType: string = this.registry.contentType;

  text(): Promise<string> {
    return this.registry.metrics();
  }
}

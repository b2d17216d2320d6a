/** Metrics in the Prometheus text format: the one place that knows prom-client. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { loopTurn } from './turns/turns.ts';

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

/**
 * After a text was made, none is made for so many turns of the loop: in each of them a port may get a connection of
 * somebody who asks for one.
 */
const restTurns = 32;

async function restAfterText(): Promise<void> {
  for (let i = 0; i < restTurns; i++) await loopTurn();
}

const noLabels: Readonly<Record<string, string>> = {};

/**
 * What is counted, by label values. prom-client makes text of the labels each time, which costs a
 * write more than its routing does, so hot metrics are plain numbers that it reads when it is
 * scraped.
 */
class Tally<T> {
  readonly #labelNames: readonly string[];
  readonly #make: () => T;
  /** Maps by the value of one label after the other; the last ones hold what is counted. */
  #root: Map<string, unknown> = new Map();
  #all: [labels: Record<string, string>, counted: T][] = [];
  #unlabelled: T | null = null;

  constructor(labelNames: readonly string[], make: () => T) {
    this.#labelNames = labelNames;
    this.#make = make;
  }

  at(labels: Readonly<Record<string, string>>): T {
    const labelNames = this.#labelNames;
    const last = labelNames.length - 1;
    if (last < 0) return (this.#unlabelled ??= this.#add({}));
    let map = this.#root;
    for (let i = 0; i < last; i++) {
      const value = labels[labelNames[i]!] ?? '';
      let inner = map.get(value) as Map<string, unknown> | undefined;
      if (inner === undefined) {
        inner = new Map();
        map.set(value, inner);
      }
      map = inner;
    }
    const value = labels[labelNames[last]!] ?? '';
    let counted = map.get(value) as T | undefined;
    if (counted === undefined) {
      counted = this.#add({ ...labels });
      map.set(value, counted);
    }
    return counted;
  }

  entries(): readonly (readonly [Record<string, string>, T])[] {
    return this.#all;
  }

  clear(): void {
    this.#root = new Map();
    this.#all = [];
    this.#unlabelled = null;
  }

  #add(labels: Record<string, string>): T {
    const counted = this.#make();
    this.#all.push([labels, counted]);
    return counted;
  }
}

/** A histogram of one set of labels. */
class Buckets {
  readonly #bounds: readonly number[];
  /** Not added up; the last one has what is above all bounds. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  add(value: number): void {
    const bounds = this.#bounds;
    const counts = this.#counts;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    counts[at]! += 1;
    this.#sum += value;
  }

  values(
    name: string,
    labels: Record<string, string>,
  ): { metricName: string; labels: Record<string, string | number>; value: number }[] {
    let count = 0;
    const rows = [];
    for (const [i, each] of this.#counts.entries()) {
      count += each;
      const le = this.#bounds[i] ?? '+Inf';
      rows.push({ metricName: `${name}_bucket`, labels: { le, ...labels }, value: count });
    }
    rows.push({ metricName: `${name}_sum`, labels, value: this.#sum });
    rows.push({ metricName: `${name}_count`, labels, value: count });
    return rows;
  }
}

/** A process has one; every subsystem registers its own series once, in one typed factory. */
export class Metrics {
  readonly #registry = new Registry();
  /** What is not begun yet. */
  #nextText: Promise<string> | null = null;
  /** Of the last one. */
  #rest: Promise<void> = Promise.resolve();

  /** Process metrics (CPU, memory, event loop lag) under `tsdb_process_…` names of prom-client. */
  collectProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
  }

  counter(name: string, help: string, labelNames: string[] = []): CounterMetric {
    const tally = new Tally(labelNames, () => ({ value: 0 }));
    if (labelNames.length === 0) tally.at(noLabels);
    const metric: Counter = new Counter({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect: () => {
        metric.reset();
        for (const [labels, { value }] of tally.entries()) metric.inc(labels, value);
      },
    });
    return {
      increase: (by = 1, labels = noLabels) => {
        tally.at(labels).value += by;
      },
    };
  }

  /**
   * A count that is kept elsewhere as a plain number, which never falls; read when the metrics are
   * scraped.
   */
  countedElsewhere(name: string, help: string, read: () => number): void {
    const metric: Counter = new Counter({
      name,
      help,
      registers: [this.#registry],
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
      registers: [this.#registry],
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
    const tally = new Tally(labelNames, () => new Buckets(buckets));
    if (labelNames.length === 0) tally.at(noLabels);
    const metric = {
      name,
      get: () => {
        const values = tally.entries().flatMap(([labels, each]) => each.values(name, labels));
        return Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values });
      },
      reset: () => tally.clear(),
    };
    // The registry asks a metric for nothing else.
    this.#registry.registerMetric(metric as unknown as Histogram);
    return { observe: (value, labels = noLabels) => tally.at(labels).add(value) };
  }

  readonly contentType: string = this.#registry.contentType;

  /**
   * As of now, or of soon: all that ask while it is not made yet get the same, and it is not made more often than
   * leaves most of the time to others.
   */
  text(): Promise<string> {
    this.#nextText ??= this.#makeText();
    return this.#nextText;
  }

  async #makeText(): Promise<string> {
    await this.#rest;
    const text = this.#registry.metrics();
    this.#nextText = null;
    this.#rest = text.then(restAfterText, restAfterText);
    return await text;
  }
}

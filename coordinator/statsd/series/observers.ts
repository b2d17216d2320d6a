/** Values of timers, histograms and distributions, as Prometheus has them: since the beginning, but for quantiles. */
import { QuantileSketch } from '#cluster/aggregation_rules/rollups/quantile_sketch.ts';
import { numberText, SeriesName } from './text.ts';

export interface Observer {
  /** @param value no NaN. @returns false when the sum would be infinite; then nothing is changed */
  observe(value: number, times: number, nowMillis: number): boolean;
  /** Lines of what it comes to, without a time. */
  lines(nowMillis: number): string[];
  /** The same of one without values. */
  emptyLines(): string[];
}

/** Quantiles are of values of these parts of their time. */
const ages = 5;

export class Summary implements Observer {
  readonly #quantiles: readonly (readonly [quantile: number, name: string])[];
  readonly #sumName: string;
  readonly #countName: string;
  readonly #ageMillis: number;
  /** The last one takes values. */
  #sketches = [new QuantileSketch()];
  #turnMillis: number;
  #sum = 0;
  #count = 0;

  constructor(
    name: SeriesName,
    quantiles: readonly number[],
    maxAgeMillis: number,
    nowMillis: number,
  ) {
    this.#quantiles = quantiles.map((each) => [each, name.with('quantile', numberText(each))]);
    this.#sumName = name.suffixed('_sum');
    this.#countName = name.suffixed('_count');
    this.#ageMillis = Math.max(1, maxAgeMillis / ages);
    this.#turnMillis = nowMillis + this.#ageMillis;
  }

  observe(value: number, times: number, nowMillis: number): boolean {
    const sum = this.#sum + value * times;
    if (!Number.isFinite(sum)) return false;
    if (nowMillis >= this.#turnMillis) this.#turn(nowMillis);
    this.#sketches.at(-1)!.add(value, times);
    this.#sum = sum;
    this.#count += times;
    return true;
  }

  lines(nowMillis: number): string[] {
    if (nowMillis >= this.#turnMillis) this.#turn(nowMillis);
    const all = new QuantileSketch();
    for (const sketch of this.#sketches) all.addAll(sketch);
    return [
      ...this.#quantiles.map(([quantile, name]) => `${name} ${numberText(all.quantile(quantile))}`),
      `${this.#sumName} ${numberText(this.#sum)}`,
      `${this.#countName} ${this.#count}`,
    ];
  }

  emptyLines(): string[] {
    return [`${this.#sumName} 0`, `${this.#countName} 0`];
  }

  #turn(nowMillis: number): void {
    const turns = 1 + Math.floor((nowMillis - this.#turnMillis) / this.#ageMillis);
    this.#turnMillis += turns * this.#ageMillis;
    for (let i = 0; i < Math.min(turns, ages); i++) this.#sketches.push(new QuantileSketch());
    this.#sketches = this.#sketches.slice(-ages);
  }
}

export class Histogram implements Observer {
  readonly #bounds: readonly number[];
  /** The last one is that of infinity. */
  readonly #bucketNames: readonly string[];
  readonly #sumName: string;
  readonly #countName: string;
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(name: SeriesName, bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#bucketNames = [...bounds, Number.POSITIVE_INFINITY].map((bound) =>
      name.suffixed('_bucket', 'le', numberText(bound)),
    );
    this.#sumName = name.suffixed('_sum');
    this.#countName = name.suffixed('_count');
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number, times: number): boolean {
    const sum = this.#sum + value * times;
    if (!Number.isFinite(sum)) return false;
    let low = 0;
    for (let high = this.#bounds.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if (value <= this.#bounds[middle]!) high = middle;
      else low = middle + 1;
    }
    this.#counts[low]! += times;
    this.#sum = sum;
    return true;
  }

  lines(): string[] {
    let count = 0;
    const lines = this.#bucketNames.map((name, bucket) => {
      count += this.#counts[bucket]!;
      return `${name} ${count}`;
    });
    lines.push(`${this.#sumName} ${numberText(this.#sum)}`, `${this.#countName} ${count}`);
    return lines;
  }

  emptyLines(): string[] {
    return [...this.#bucketNames, this.#sumName, this.#countName].map((name) => `${name} 0`);
  }
}

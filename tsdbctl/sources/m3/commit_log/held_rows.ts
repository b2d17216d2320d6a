/** Rows that are in memory, in the order in which they came, to be had by series. */
import { type Rows, sortedRows } from '../series/rows.ts';
import type { LogEntry } from './entries.ts';

const capacityFirst = 1024;

export class HeldRows {
  /** Of each row; those of numbers are halves, low ones first. */
  #series: Uint32Array<ArrayBuffer> = new Uint32Array(capacityFirst);
  #times: Int32Array<ArrayBuffer> = new Int32Array(2 * capacityFirst);
  #values: Int32Array<ArrayBuffer> = new Int32Array(2 * capacityFirst);
  count = 0;

  add(series: number, entry: LogEntry): void {
    const row = this.count;
    if (row === this.#series.length) this.#grow();
    this.#series[row] = series;
    this.#times[2 * row] = entry.timeLow;
    this.#times[2 * row + 1] = entry.timeHigh;
    this.#values[2 * row] = entry.valueLow;
    this.#values[2 * row + 1] = entry.valueHigh;
    this.count = row + 1;
  }

  #grow(): void {
    const larger = new Uint32Array(2 * this.#series.length);
    larger.set(this.#series);
    this.#series = larger;
    this.#times = doubled(this.#times);
    this.#values = doubled(this.#values);
  }

  /**
   * Takes all rows out, by series; of equal times those that came last.
   * @param seriesCount above all numbers of series
   */
  *take(seriesCount: number): Generator<{ readonly series: number; readonly rows: Rows }> {
    const { count } = this;
    this.count = 0;
    // Where the rows of each series go, and in the end where those of the next one begin.
    const places = new Uint32Array(seriesCount + 1);
    for (let row = 0; row < count; row += 1) places[this.#series[row]! + 1]! += 1;
    for (let series = 0; series < seriesCount; series += 1) places[series + 1]! += places[series]!;
    const times = new Int32Array(2 * count);
    const values = new Int32Array(2 * count);
    for (let row = 0; row < count; row += 1) {
      const place = places[this.#series[row]!]!++;
      times[2 * place] = this.#times[2 * row]!;
      times[2 * place + 1] = this.#times[2 * row + 1]!;
      values[2 * place] = this.#values[2 * row]!;
      values[2 * place + 1] = this.#values[2 * row + 1]!;
    }
    let from = 0;
    for (let series = 0; series < seriesCount; series += 1) {
      const to = places[series]!;
      if (to > from) {
        const timestampNanos = new BigInt64Array(times.slice(2 * from, 2 * to).buffer);
        const floats = new Float64Array(values.slice(2 * from, 2 * to).buffer);
        yield { series, rows: sortedRows({ timestampNanos, values: floats }) };
      }
      from = to;
    }
  }
}

function doubled(words: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * words.length);
  larger.set(words);
  return larger;
}

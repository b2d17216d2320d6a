/** Parts of rollups to the values that are stored, one window after the other. */
import type { Tags } from '#lib/tags.ts';
import type { AggregationType } from '../aggregation_types.ts';
import type { TransformType } from '../rules.ts';
import {
  addToPart,
  addValue,
  emptyPart,
  isEmpty,
  valueOfPart,
  type WindowPart,
} from './accumulators.ts';
import { changeOf, lookBackNanos } from './map.ts';
import type { Output } from './outputs.ts';

export interface ReducedRow {
  readonly tags: Tags;
  /** Of the series: others have another one, as a rule. */
  readonly seriesHash: number;
  readonly nanos: bigint;
  readonly value: number;
}

/** What an output has come to, as far as later windows ask for it. */
interface Carried {
  /** Of the last window in which it had rows. */
  endNanos: bigint;
  /** Of the last window with a value, before each transform that looks back. */
  readonly before: { endNanos: bigint; value: number }[];
  /** Of each transform that adds up. */
  readonly sums: number[];
}

/** What an output has come to is kept for so long after its last row, and for so many windows, whichever is longer. */
const carriedNanosMin = 86_400_000_000_000n;
const carriedWindowsMin = 3n;

const nothingBefore = (): number => 0;

/** @param instead makes the series that `leftOut` would make, too */
export type OnRivals = (leftOut: Output, instead: Output) => void;

const nobodyTold: OnRivals = () => {};

export class RollupReduce {
  readonly #resolutionNanos: bigint;
  readonly #reachNanos: bigint;
  readonly #carriedNanosMax: bigint;
  /** By output and type. */
  readonly #carried = new Map<string, Carried>();
  /** When it was looked for outputs that are gone. */
  #lookedNanos = 0n;
  /** What a sum had come to of which nothing is known here. */
  #sumBefore: (tags: Tags) => number = nothingBefore;
  /** Of the first window after that. */
  #sumsNanos: bigint | null = null;

  constructor(resolutionNanos: bigint) {
    this.#resolutionNanos = resolutionNanos;
    this.#reachNanos = lookBackNanos(resolutionNanos);
    const windows = carriedWindowsMin * resolutionNanos;
    this.#carriedNanosMax = windows > carriedNanosMin ? windows : carriedNanosMin;
  }

  copy(): RollupReduce {
    const copy = new RollupReduce(this.#resolutionNanos);
    copy.#sumBefore = this.#sumBefore;
    copy.#sumsNanos = this.#sumsNanos;
    copy.#lookedNanos = this.#lookedNanos;
    for (const [key, { endNanos, before, sums }] of this.#carried) {
      copy.#carried.set(key, { endNanos, before: [...before], sums: [...sums] });
    }
    return copy;
  }

  /** Sums go on from what was stored. @param sumBefore of a series, 0 where there is none */
  beginSums(sumBefore: (tags: Tags) => number): void {
    this.#sumBefore = sumBefore;
    this.#sumsNanos = null;
    for (const { sums } of this.#carried.values()) sums.length = 0;
  }

  /**
   * The rows of the window that comes after those before.
   * @param partsOf what the parts of all series came to in the window, by outputs
   * @param onRivals told of an output that is left out, and the one that makes its series
   */
  window(
    endNanos: bigint,
    partsOf: Iterable<readonly [Output, WindowPart]>,
    onRivals: OnRivals = nobodyTold,
  ): ReducedRow[] {
    const steps = this.windowInSteps(endNanos, partsOf, onRivals);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  /** The same, with a step after each part and each output, for who gives way between them. */
  *windowInSteps(
    endNanos: bigint,
    partsOf: Iterable<readonly [Output, WindowPart]>,
    onRivals: OnRivals = nobodyTold,
  ): Generator<void, ReducedRow[]> {
    this.#forget(endNanos);
    this.#sumsNanos ??= endNanos;
    const rows: ReducedRow[] = [];
    // By how often an output is rolled up once more: the ones that others go into come later.
    const stages: Map<Output, WindowPart>[] = [];
    const stageOf = (output: Output): Map<Output, WindowPart> =>
      (stages[depthOf(output)] ??= new Map());
    for (const [output, part] of partsOf) {
      addToPart(partIn(stageOf(output), output), part);
      yield;
    }
    for (let depth = stages.length - 1; depth >= 0; depth--) {
      for (const [output, part] of stages[depth] ?? []) {
        if (isEmpty(part.numbers, 0)) continue;
        yield;
        const instead = rivalOf(output, stages[depth]!);
        if (instead !== null) {
          onRivals(output, instead);
          continue;
        }
        for (const [at, type] of output.types.entries()) {
          const tags = output.series[at]!;
          const value = valueOfPart(part, type);
          const made = this.#transformed(output, type, tags, endNanos, value);
          if (output.next === null) {
            const seriesHash = output.hash + at;
            for (const row of made) rows.push({ tags, seriesHash, ...row });
          } else {
            const target = partIn(stageOf(output.next), output.next);
            for (const { nanos, value: of } of made) {
              if (nanos === endNanos) addValue(target, 0, of);
            }
          }
        }
      }
    }
    return rows;
  }

  /** Outputs that have had no rows for long: what comes then begins again. */
  #forget(endNanos: bigint): void {
    // They may have come to more since.
    if (this.#sumsNanos !== null && endNanos - this.#sumsNanos > this.#carriedNanosMax) {
      this.#sumBefore = nothingBefore;
    }
    if (endNanos < this.#lookedNanos + this.#carriedNanosMax / 4n) return;
    this.#lookedNanos = endNanos;
    for (const [key, carried] of this.#carried) {
      if (carried.endNanos < endNanos - this.#carriedNanosMax) this.#carried.delete(key);
    }
  }

  #transformed(
    output: Output,
    type: AggregationType,
    tags: Tags,
    endNanos: bigint,
    asked: number,
  ): Pick<ReducedRow, 'nanos' | 'value'>[] {
    let value = asked;
    for (const [place, transform] of output.transforms.entries()) {
      if (transform === 'Reset') {
        // A counter that begins again in each window.
        if (Number.isNaN(value)) return [];
        const middle = endNanos + this.#resolutionNanos / 2n;
        return [
          { nanos: endNanos, value },
          { nanos: middle, value: 0 },
        ];
      }
      value = this.#value(output, type, tags, place, transform, endNanos, value);
      if (Number.isNaN(value)) return [];
    }
    return Number.isNaN(value) ? [] : [{ nanos: endNanos, value }];
  }

  #value(
    output: Output,
    type: AggregationType,
    tags: Tags,
    place: number,
    transform: Exclude<TransformType, 'Reset'>,
    endNanos: bigint,
    value: number,
  ): number {
    if (transform === 'Absolute') return Math.abs(value);
    const key = `${type} ${output.key}`;
    let carried = this.#carried.get(key);
    if (carried === undefined) {
      this.#carried.set(key, (carried = { endNanos, before: [], sums: [] }));
    }
    carried.endNanos = endNanos;
    if (transform === 'Add') {
      // Only what is stored as it is can be gone on from.
      const isStored = output.next === null && place === output.transforms.length - 1;
      const sum = carried.sums[place] ?? (isStored ? this.#sumBefore(tags) : 0);
      return (carried.sums[place] = sum + (Number.isNaN(value) ? 0 : value));
    }
    if (Number.isNaN(value)) return value;
    const before = carried.before[place];
    carried.before[place] = { endNanos, value };
    if (before === undefined || endNanos - before.endNanos > this.#reachNanos) return Number.NaN;
    const change = changeOf(before.value, value);
    if (transform === 'Increase') return change;
    return change / (Number(endNanos - before.endNanos) / 1e9);
  }
}

/**
 * Of those of one window that make the same series in different ways the one whose values stay, whoever makes them and in
 * whatever order; null for an output that is that itself.
 */
function rivalOf(output: Output, ofWindow: ReadonlyMap<Output, WindowPart>): Output | null {
  for (const rival of output.rivals) {
    const part = ofWindow.get(rival);
    if (rival.key < output.key && part !== undefined && !isEmpty(part.numbers, 0)) return rival;
  }
  return null;
}

function partIn(of: Map<Output, WindowPart>, output: Output): WindowPart {
  let part = of.get(output);
  if (part === undefined) of.set(output, (part = emptyPart(output.types)));
  return part;
}

function depthOf({ next }: Output): number {
  return next === null ? 0 : 1 + depthOf(next);
}

/** A namespace of windows as a source of samples: a column of theirs (docs/AGGREGATION.md). */
import { floatsOfWindows } from '#engine/aggregation/floats.ts';
import { foldWindowsMax, WindowFold } from '#engine/aggregation/fold.ts';
import { foldRows } from '#engine/aggregation/fold_rows.ts';
import { rowsInRange } from '#engine/store/read/rows_in_range.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { joinedRows, withChunks } from './join.ts';
import { NamespaceSource, type SourceSetup } from './namespace_source.ts';
import type {
  Matcher,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  SeriesSource,
} from './storage.ts';

/** About what it takes to make samples of a byte of windows, in units of work (lib/turns/turns.ts). */
const unitsAByte = 4;
/** The same of a byte of samples, which are decoded and folded. */
const foldUnitsAByte = 20;

/** Samples of which windows are made when they are asked for: nodes make theirs hours later. */
export interface RecentSamples {
  readonly samples: SeriesSource;
  /** Samples of before that are past retention. */
  readonly fromNanos: bigint;
  readonly resolutionNanos: bigint;
}

export class WindowsSource {
  readonly #setup: SourceSetup;
  readonly #windows: SelectWindows;
  readonly #source: NamespaceSource;
  readonly #recent: RecentSamples | null;

  /** @param recent null for what nodes have made alone */
  constructor(setup: SourceSetup, windows: SelectWindows, recent: RecentSamples | null = null) {
    this.#setup = setup;
    this.#windows = windows;
    this.#source = new NamespaceSource(setup, windows.namespace, 'windows');
    this.#recent = recent;
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const recent = this.#recent;
    const cutNanos = recent === null ? range.endNanos : firstWindowEnd(recent);
    const { startNanos, endNanos } = range;
    const made = startNanos < cutNanos ? { startNanos, endNanos: least(endNanos, cutNanos) } : null;
    const folded =
      endNanos > cutNanos ? { startNanos: most(startNanos, cutNanos), endNanos } : null;
    const parts = await Promise.all([
      made === null ? null : this.#made(matchers, made, limits, signal),
      folded === null || recent === null
        ? null
        : this.#folded(recent, matchers, folded, limits, signal),
    ]);
    const results = parts.filter((part) => part !== null);
    return joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
  }

  async #made(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const { column } = this.#windows;
    const result = await this.#source.select(matchers, range, limits, signal);
    const inside = [range.startNanos, range.endNanos] as const;
    return withChunks(this.#setup, result, limits, signal, unitsAByte, (chunks) => {
      const { floats, typed } = apart([chunks]);
      // Floats are there where somebody has written into it by its name.
      const written = floats.map((chunk) => rowsInRange(chunk, inside));
      return [...floatsOfWindows(typed, column, inside), ...written];
    });
  }

  /** @param range of ends of windows */
  async #folded(
    { samples, resolutionNanos }: RecentSamples,
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const { column } = this.#windows;
    // The last window of the range, and the rows of all.
    const endNanos = floorTo(range.endNanos - 1n, resolutionNanos) + 1n;
    const startNanos = floorTo(range.startNanos - 1n, resolutionNanos) + 1n;
    const result = await samples.select(matchers, { startNanos, endNanos }, limits, signal);
    const stretchNanos = resolutionNanos * BigInt(foldWindowsMax - 2);
    const fold = (shared ??= new WindowFold());
    return withChunks(this.#setup, result, limits, signal, foldUnitsAByte, (chunks) => {
      const made: Uint8Array[] = [];
      for (let from = startNanos; from < endNanos; from += stretchNanos) {
        fold.begin(resolutionNanos, foldWindowsMax);
        foldRows(fold, [chunks], [from, least(from + stretchNanos, endNanos)]);
        if (fold.end() === 0) continue;
        made.push(...floatsOfWindows([fold.chunks()], column));
      }
      return made;
    });
  }
}

/** Made with the first request that needs it; a series is folded in one go, so one is enough. */
let shared: WindowFold | null = null;

/** The first window of whose rows none is past retention. */
function firstWindowEnd({ fromNanos, resolutionNanos }: RecentSamples): bigint {
  return floorTo(fromNanos - 1n, resolutionNanos) + 2n * resolutionNanos;
}

function floorTo(nanos: bigint, step: bigint): bigint {
  const rest = ((nanos % step) + step) % step;
  return nanos - rest;
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);

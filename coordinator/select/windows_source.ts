/** A namespace of windows as a source of samples: a column of theirs (docs/AGGREGATION.md). */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { floatsOfWindows } from '#engine/aggregation/floats.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import type { Work } from '#lib/turns/turns.ts';
import { NamespaceSource, type SourceSetup } from './namespace_source.ts';
import type { Matcher, SelectLimits, SelectRange, SelectResult, SelectWindows } from './storage.ts';

/** About what it takes to make samples of a byte of windows, in units of work (lib/turns/turns.ts). */
const unitsAByte = 4;

export class WindowsSource {
  readonly #setup: SourceSetup;
  readonly #windows: SelectWindows;
  readonly #source: NamespaceSource;

  constructor(setup: SourceSetup, windows: SelectWindows) {
    this.#setup = setup;
    this.#windows = windows;
    this.#source = new NamespaceSource(setup, windows.namespace);
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const result = await this.#source.select(matchers, range, limits, signal);
    const { memory } = limits;
    const before = bundleBytes(result.bundle);
    const bundle = await this.#samplesOf(result.bundle, this.#setup.turningOf(signal).work);
    await memory?.grow(bundleBytes(bundle), signal);
    memory?.give(before);
    return { ...result, bundle };
  }

  async #samplesOf(bundle: SeriesBundle, work: Work): Promise<SeriesBundle> {
    const { seriesCount, chunkData, chunkOffset } = bundle;
    const offsets = new Uint32Array(seriesCount + 1);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for (let i = 0; i < seriesCount; i++) {
      const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
      // Floats are there where somebody has written into it by its name.
      const { floats, typed } = apart([chunks]);
      for (const part of [...floatsOfWindows(typed, this.#windows.column), ...floats]) {
        parts.push(part);
        bytes += part.length;
      }
      offsets[i + 1] = bytes;
      if (work.spend(unitsAByte * chunks.length)) await work.pause();
    }
    return { ...bundle, chunkData: new Uint8Array(Buffer.concat(parts)), chunkOffset: offsets };
  }
}

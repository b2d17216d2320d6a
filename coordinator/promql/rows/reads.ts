/** What a query reads: all that its text names in one round, and later what only values name. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { type ChunkKind, chunkKind } from '#engine/codec/chunk.ts';
import { hasKind } from '#engine/store/typed_chunks.ts';
import { Turns } from '#lib/turns/turns.ts';
import { scalesOf } from '../../select/join.ts';
import type { QueryStorage, ReadScales, SelectLimits, SelectResult } from '../../select/storage.ts';
import type { PromqlFeatures } from '../parse/features.ts';
import type { Fetch } from '../plan/plan.ts';
import { Labels, labelsBytesOf } from './labels.ts';
import type { Pacer } from './pacer.ts';

export interface Fetched {
  readonly fetch: Fetch;
  readonly bundle: SeriesBundle;
  readonly labels: readonly Labels[];
  /** By series, 1 where it has typed rows; null where none has. */
  readonly isTyped: Uint8Array | null;
  /** By series, 1 where floats say when they started; null where none does, and unless somebody may ask. */
  readonly hasStarts: Uint8Array | null;
  /** For who asked for values. */
  readonly scales: ReadScales;
}

/** Selectors of a query that are read at the same time: a text may have thousands, and each asks all shards. */
export const selectsAtOnceMax = 32;
/** The same while nothing has told yet how much they bring. */
const selectsAtFirst = 4;
/** Those under way bring about so much, going by those before: 32 of one series each, but one or two of 20,000. */
const bytesAtOnceMax: number = 4 << 20;

export class Reads {
  readonly #storage: QueryStorage;
  readonly #limits: SelectLimits;
  readonly #pacer: Pacer;
  readonly #asksStarts: boolean;
  readonly #warnings: string[] = [];
  #isExhaustive = true;
  #seriesCount = 0;

  constructor(
    storage: QueryStorage,
    limits: SelectLimits,
    pacer: Pacer,
    { startTimestamps }: PromqlFeatures,
  ) {
    this.#storage = storage;
    this.#limits = limits;
    this.#pacer = pacer;
    this.#asksStarts = startTimestamps;
  }

  /** Of storage, for all that was read. */
  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** Whether nothing was cut off. */
  get isExhaustive(): boolean {
    return this.#isExhaustive;
  }

  /** Of all that was read. */
  get seriesCount(): number {
    return this.#seriesCount;
  }

  /** @throws as `QueryStorage.select` */
  async read(fetches: readonly Fetch[]): Promise<Fetched[]> {
    this.#pacer.work.foreseeReads(fetches.length);
    const results = await this.#pacer.work.outside(this.#selectAll(fetches));
    this.#pacer.work.foreseeSeries(
      results.reduce((sum, { bundle }) => sum + bundle.seriesCount, 0),
    );
    const all: Fetched[] = [];
    for (const [index, result] of results.entries()) {
      const { bundle, exhaustive, warnings } = result;
      this.#isExhaustive &&= exhaustive;
      this.#seriesCount += bundle.seriesCount;
      this.#warnings.push(...warnings);
      const labels = await labelsOfBundle(bundle, this.#pacer);
      const isTyped = await seriesWith(chunkKind.typed, bundle, this.#pacer);
      const hasStarts = this.#asksStarts
        ? await seriesWith(chunkKind.floatStarts, bundle, this.#pacer)
        : null;
      const scales = scalesOf(result);
      all.push({ fetch: fetches[index]!, bundle, labels, isTyped, hasStarts, scales });
    }
    return all;
  }

  /** Rejects with the first error: nobody waits for the others. */
  #selectAll(fetches: readonly Fetch[]): Promise<SelectResult[]> {
    const { signal, clock } = this.#pacer.work;
    const results: SelectResult[] = [];
    const width = new Width();
    let next = 0;
    let underWay = 0;
    return new Promise((resolve, reject) => {
      const one = async (place: number, isOfOwnTurn: boolean): Promise<void> => {
        try {
          if (isOfOwnTurn) await Turns.of(clock).begin(signal).pause();
          results[place] = await this.#select(fetches[place]!, signal);
          width.note(results[place]);
        } catch (error) {
          next = fetches.length;
          reject(error);
        }
        underWay -= 1;
        goOn();
      };
      const goOn = (): void => {
        // Others begin in a turn of their own each: twenty queries would do the first steps of all their reads in one.
        for (let begun = 0; next < fetches.length && underWay < width.selects; begun++) {
          underWay += 1;
          void one(next++, begun > 0);
        }
        if (underWay === 0) resolve(results);
      };
      goOn();
    });
  }

  #select(fetch: Fetch, signal: AbortSignal): Promise<SelectResult> {
    const { matchers, range, windows, restriction, isThroughout } = fetch;
    const storage = this.#storage;
    if (isThroughout && storage.selectThroughout !== undefined) {
      return storage.selectThroughout(matchers, range, 'numericValue', this.#limits, signal);
    }
    return storage.select(matchers, range, this.#limits, signal, windows, restriction);
  }

  /** Gives back the memory of what nobody reads any more. Labels may still lie in the bytes of the tags. */
  release({ bundle }: Fetched): void {
    this.#pacer.give(bundle.chunkData.length);
  }
}

/** How many selectors are read at the same time, by what those that were read have brought. */
class Width {
  #read = 0;
  #bytes = 0;

  get selects(): number {
    if (this.#read === 0) return selectsAtFirst;
    const fitting = Math.floor((bytesAtOnceMax * this.#read) / Math.max(1, this.#bytes));
    return Math.max(1, Math.min(selectsAtOnceMax, fitting));
  }

  note({ bundle: { chunkData, tagsData } }: SelectResult): void {
    this.#read += 1;
    this.#bytes += chunkData.length + tagsData.length;
  }
}

async function labelsOfBundle(
  { seriesCount, tagsData, tagsOffset }: SeriesBundle,
  pacer: Pacer,
): Promise<Labels[]> {
  if (pacer.take(labelsBytesOf(seriesCount, tagsData.length))) await pacer.room();
  const bytes = Buffer.from(tagsData.buffer, tagsData.byteOffset, tagsData.byteLength);
  const labels: Labels[] = [];
  for (let index = 0; index < seriesCount; index++) {
    labels.push(Labels.fromBytes(bytes, tagsOffset[index]!, tagsOffset[index + 1]!));
    if (pacer.spend(0)) await pacer.pause();
  }
  return labels;
}

/** By series, 1 where it has chunks of a kind; null where none has. */
async function seriesWith(
  kind: ChunkKind,
  { seriesCount, chunkData, chunkOffset }: SeriesBundle,
  pacer: Pacer,
): Promise<Uint8Array | null> {
  let found: Uint8Array | null = null;
  for (let index = 0; index < seriesCount; index++) {
    if (hasKind(kind, [chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!)])) {
      found ??= new Uint8Array(seriesCount);
      found[index] = 1;
    }
    if (pacer.spend(0)) await pacer.pause();
  }
  return found;
}

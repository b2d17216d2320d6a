/** Series, found by the bytes of the JSON of their labels: it is parsed only when it is new. */
import type { Random } from '#lib/env/env.ts';
import type { TagRules } from '#lib/tags.ts';
import { SeriesCache } from '../series_cache/series_cache.ts';
import type { WriteDecoder } from '../write_decoder/write_decoder.ts';
import { type LabelsField, tagsOfLabels } from './labels.ts';

/** Longer labels are parsed each time. */
const knownBytesMax = 16 * 1024;
/** About what labels take that are new, and a byte of them. */
const seriesUnits = 3_000;
const byteUnits = 40;
/** The same bytes are other labels, or none, in another field. */
const extraOf: Readonly<Record<LabelsField, number>> = { metric: 0, tags: 1 };

export class LabelSeries {
  readonly decoder: WriteDecoder;
  readonly #rules: TagRules;
  readonly #cache: SeriesCache;
  /** What making labels took so far, in units of work (lib/turns/turns.ts). */
  newUnits = 0;

  /** @param bytesMax of what is known, about */
  constructor(
    decoder: WriteDecoder,
    rules: TagRules,
    random: Pick<Random, 'bytes'>,
    bytesMax: number,
  ) {
    this.decoder = decoder;
    this.#rules = rules;
    this.#cache = new SeriesCache(random, bytesMax);
  }

  get memoryBytes(): number {
    return this.#cache.bytes;
  }

  /** Rows begin. */
  begin(): void {
    this.#cache.makeRoom();
    this.#cache.begin();
  }

  /**
   * Slot of the labels in [start, end), in use; or why there is none.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room
   */
  slotOf(view: DataView, start: number, end: number, field: LabelsField): number | string {
    const cache = this.#cache;
    const isKnown = end - start <= knownBytesMax;
    const extra = extraOf[field];
    let entry = isKnown ? cache.find(view, 0, extra, start, end) : 0;
    if (entry !== 0) {
      const slot = cache.slot(entry, 0);
      if (this.decoder.use(slot, cache.generation(entry, 0))) return slot;
    }
    this.newUnits += seriesUnits + byteUnits * (end - start);
    const json = new Uint8Array(view.buffer, view.byteOffset + start, end - start);
    const tags = tagsOfLabels(json, field, this.#rules);
    if (typeof tags === 'string') return tags;
    const slot = this.decoder.slotOf(tags);
    if (!isKnown) return slot;
    if (entry === 0) {
      entry = cache.add(0, extra, end - start);
      cache.reserveSlots(entry, 1);
    }
    cache.setSlot(entry, 0, slot, this.decoder.generation[slot]!);
    return slot;
  }
}

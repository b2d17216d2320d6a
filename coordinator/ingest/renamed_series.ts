/**
 * Series whose rows are stored as those of other ones: what a series becomes is remembered by its slot, so that a body of known series
 * is looked through and nothing more.
 */
import { isUtf8 } from 'node:buffer';
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';

export type SeriesColumns = Pick<WriteDecoderRows, 'rowCount' | 'slots' | 'generations'>;

/** Of a series: it has not been asked, or it stays what it is; from `firstKind` on the owner's own. */
const unknown = 0;
export const ordinaryKind = 1;
export const firstKind = 2;

/** What becomes of a series. */
export interface Renamed {
  /** From `firstKind` on. */
  readonly kind: number;
  /** Those that it has then, canonical. */
  readonly tags: Uint8Array;
}

export class RenamedSeries {
  readonly #decoder: WriteDecoder;
  readonly #renamed: (canonical: Uint8Array) => Renamed | null;
  /** By slot. */
  #kinds = new Uint32Array(0);
  /** To whom the slot belonged then. */
  #generations = new Uint32Array(0);
  /** The series that it becomes. */
  #others = new Uint32Array(0);
  #otherGenerations = new Uint32Array(0);

  /** @param renamed null for a series that stays what it is; it is asked once for each */
  constructor(decoder: WriteDecoder, renamed: (canonical: Uint8Array) => Renamed | null) {
    this.#decoder = decoder;
    this.#renamed = renamed;
  }

  /** Slots of rows of which nothing, or nothing that still holds, is known. */
  unknownOf(all: readonly SeriesColumns[]): Set<number> {
    const found = new Set<number>();
    for (const columns of all) this.#lookAt(columns, found);
    return found;
  }

  #lookAt({ rowCount, slots, generations }: SeriesColumns, found: Set<number>): void {
    for (let row = 0; row < rowCount; row++) {
      const slot = slots[row]!;
      if (slot >= this.#kinds.length) this.#grow(slot);
      const kind = this.#generations[slot] === generations[row] ? this.#kinds[slot]! : unknown;
      if (kind === ordinaryKind) continue;
      if (kind >= firstKind) {
        const other = this.#others[slot]!;
        if (this.#decoder.generation[other] === this.#otherGenerations[slot]) continue;
      }
      found.add(slot);
    }
  }

  /** Asks what these become. The decoder's columns do not hold after it. */
  add(slots: ReadonlySet<number>): void {
    const decoder = this.#decoder;
    const all: (Renamed & { readonly slot: number })[] = [];
    for (const slot of slots) {
      this.#generations[slot] = decoder.generation[slot]!;
      this.#kinds[slot] = ordinaryKind;
      const canonical = decoder.borrowTags(slot);
      // What is none is refused anyway.
      const renamed =
        canonical.length === 0 || !isUtf8(canonical) ? null : this.#renamed(canonical);
      if (renamed !== null) all.push({ slot, ...renamed });
    }
    if (all.length === 0) return;
    const rows = decoder.rows(all.map(({ tags }) => ({ tags, timestampNanos: 0n, value: 0 })));
    // Only now: a slot that is said to be renamed has its other series, and not that of an earlier owner.
    for (const [row, { slot, kind }] of all.entries()) {
      this.#kinds[slot] = kind;
      this.#others[slot] = rows.slots[row]!;
      this.#otherGenerations[slot] = rows.generations[row]!;
    }
  }

  /** Of a known slot. */
  kindOf(slot: number): number {
    return this.#kinds[slot]!;
  }

  /** Of a known slot whose series is renamed: where its rows belong. */
  other(slot: number): { readonly slot: number; readonly generation: number } {
    return { slot: this.#others[slot]!, generation: this.#otherGenerations[slot]! };
  }

  /** Rows of known series, as those of the series that they become. */
  renamed<Rows extends SeriesColumns>(rows: Rows): Rows {
    const { rowCount } = rows;
    const slots = rows.slots.slice(0, rowCount);
    const generations = rows.generations.slice(0, rowCount);
    for (let row = 0; row < rowCount; row++) {
      const slot = slots[row]!;
      if (this.#kinds[slot]! < firstKind) continue;
      slots[row] = this.#others[slot]!;
      generations[row] = this.#otherGenerations[slot]!;
    }
    return { ...rows, slots, generations };
  }

  forget(): void {
    this.#kinds.fill(unknown);
  }

  #grow(slot: number): void {
    const length = Math.max(1024, 2 * slot);
    const grown = (from: Uint32Array): Uint32Array<ArrayBuffer> => {
      const to = new Uint32Array(length);
      to.set(from);
      return to;
    };
    this.#kinds = grown(this.#kinds);
    this.#generations = grown(this.#generations);
    this.#others = grown(this.#others);
    this.#otherGenerations = grown(this.#otherGenerations);
  }
}

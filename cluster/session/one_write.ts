/** Series of one write: what of a write decoder's table has to outlive its next body, or never was in one. */
import { murmur3 } from '#lib/hashing/hash.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { type IdScheme, idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags, type Tags } from '#lib/tags.ts';
import type { SeriesTable } from './types.ts';

export interface SeriesOfWrite {
  /** Canonical. */
  readonly tags: Uint8Array;
  readonly idScheme: number;
  /** murmur3_32 of the ID. */
  readonly idHash: number;
  readonly explicitId: Uint8Array;
}

/** @param tags sorted, without mistakes */
export function seriesOfTags(tags: Tags, idScheme: IdScheme): SeriesOfWrite {
  return {
    tags: encodeTags(tags),
    idScheme: idSchemeCode[idScheme],
    idHash: murmur3(Buffer.from(idOfTags(tags, idScheme))),
    explicitId: noExplicitId,
  };
}

const noExplicitId = new Uint8Array(0);

/** Slots are places in the list. */
export class OneWriteSeries implements SeriesTable {
  readonly isOfOneWrite = true;
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array;
  readonly refused: Uint8Array;
  readonly #series: readonly SeriesOfWrite[];

  constructor(series: readonly SeriesOfWrite[]) {
    this.#series = series;
    this.idHash = Uint32Array.from(series, ({ idHash }) => idHash);
    this.generation = new Uint32Array(series.length).fill(1);
    this.refused = new Uint8Array(series.length);
  }

  problem(): string {
    return '';
  }

  tags(slot: number): Uint8Array {
    return this.#series[slot]!.tags;
  }

  idScheme(slot: number): number {
    return this.#series[slot]!.idScheme;
  }

  explicitId(slot: number): Uint8Array {
    return this.#series[slot]!.explicitId;
  }
}

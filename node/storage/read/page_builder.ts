/** Pages of series, for a peer. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';

/** Bytes of one page of a shard that is streamed to a peer. */
export const streamPageBytesTarget: number = 1024 * 1024;

/** Collects series for one bundle. */
export class PageBuilder {
  readonly #tags: Uint8Array[] = [];
  readonly #ids: Uint8Array[] = [];
  readonly #chunks: Uint8Array[] = [];
  readonly #schemes: number[] = [];
  readonly #tagEnds: number[] = [0];
  readonly #idEnds: number[] = [0];
  readonly #chunkEnds: number[] = [0];

  get seriesCount(): number {
    return this.#schemes.length;
  }

  get bytes(): number {
    return this.#tagEnds.at(-1)! + this.#chunkEnds.at(-1)!;
  }

  /** Takes a copy of the chunks. */
  add(name: SeriesName, chunks: readonly Uint8Array[]): void {
    this.#schemes.push(name.idScheme);
    this.#tags.push(name.tags);
    this.#tagEnds.push(this.#tagEnds.at(-1)! + name.tags.length);
    this.#ids.push(name.explicitId);
    this.#idEnds.push(this.#idEnds.at(-1)! + name.explicitId.length);
    let end = this.#chunkEnds.at(-1)!;
    for (const part of chunks) {
      this.#chunks.push(part.slice());
      end += part.length;
    }
    this.#chunkEnds.push(end);
  }

  finish(): SeriesBundle {
    return {
      seriesCount: this.seriesCount,
      tagsData: joined(this.#tags),
      tagsOffset: Uint32Array.from(this.#tagEnds),
      idScheme: Uint8Array.from(this.#schemes),
      idData: joined(this.#ids),
      idOffset: Uint32Array.from(this.#idEnds),
      chunkData: joined(this.#chunks),
      chunkOffset: Uint32Array.from(this.#chunkEnds),
    };
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

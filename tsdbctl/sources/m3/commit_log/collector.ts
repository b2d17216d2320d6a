/** Collects the rows of a namespace out of messages of a commit log of M3. */
import { badRequest, messageOf } from '#lib/errors.ts';
import type { Tag } from '#lib/tags.ts';
import { MessageReader } from '../bytes/msgpack.ts';
import type { Rows } from '../series/rows.ts';
import { tagsOfSeries } from '../series/tags.ts';
import {
  checkLogInfo,
  emptyEntry,
  type LogMetadata,
  readLogEntry,
  readLogMetadata,
} from './entries.ts';
import { HeldRows } from './held_rows.ts';
import type { Messages } from './messages.ts';
import { ProtobufWatch } from './protobuf.ts';

/** One holds 2^24 numbers. */
const mapsOfPlaces = 16;

/** Of series whose rows are not wanted. */
const unwanted = -1;

export class Collector {
  readonly #namespace: string;
  readonly #seriesMax: number;
  readonly #onUntagged: (id: Uint8Array) => void;
  readonly #rows = new HeldRows();
  readonly #protobuf = new ProtobufWatch();
  /** Places of series by their number in the file, of which each map has those of a remainder: other namespaces have many. */
  readonly #places = Array.from({ length: mapsOfPlaces }, () => new Map<number, number>());
  /** By place, as tags themselves are larger. */
  readonly #metadata: Pick<LogMetadata, 'id' | 'encodedTags'>[] = [];
  readonly #entry = emptyEntry();
  /** Whether the first message of the file was read. */
  hasInfo = false;

  /** @param seriesMax of the namespace: they are in memory */
  constructor(namespace: string, seriesMax: number, onUntagged: (id: Uint8Array) => void) {
    this.#namespace = namespace;
    this.#seriesMax = seriesMax;
    this.#onUntagged = onUntagged;
  }

  /** Rows that are held. */
  get count(): number {
    return this.#rows.count;
  }

  /**
   * Holds the rows of messages.
   * @returns what the file has that ends the reading, behind which none is read; null for nothing
   */
  add({ bytes, bounds }: Messages): string | null {
    const reader = new MessageReader(bytes);
    const entry = this.#entry;
    for (let at = 0; at < bounds.length; at += 2) {
      reader.seek(bounds[at]!, bounds[at + 1]!);
      let metadata: LogMetadata | null = null;
      try {
        if (!this.hasInfo) {
          checkLogInfo(reader);
          this.hasInfo = true;
          continue;
        }
        readLogEntry(reader, entry);
        if (entry.metadata.length > 0) metadata = readLogMetadata(entry.metadata);
      } catch (error) {
        return `has an entry that is damaged (${messageOf(error)})`;
      }
      const place = this.#placeOf(entry.index, metadata);
      if (place === unwanted) continue;
      if (place >= this.#seriesMax) {
        const namespace = JSON.stringify(this.#namespace);
        return `has more than ${this.#seriesMax} series of the namespace ${namespace}`;
      }
      this.#protobuf.see(place, entry);
      this.#rows.add(place, entry);
    }
    return null;
  }

  #placeOf(index: number, metadata: LogMetadata | null): number {
    const places = this.#places[Math.abs(index % mapsOfPlaces)]!;
    if (metadata === null) {
      const known = places.get(index);
      if (known !== undefined) return known;
    }
    const place = metadata === null ? this.#untagged(new Uint8Array()) : this.#newPlace(metadata);
    places.set(index, place);
    return place;
  }

  #newPlace({ id, namespace, encodedTags }: LogMetadata): number {
    if (Buffer.from(namespace).toString() !== this.#namespace) return unwanted;
    if (tagsOfSeries(id, encodedTags) === null) return this.#untagged(id);
    // They are views of bytes that are used for others.
    const kept = { id: id.slice(), encodedTags: encodedTags.slice() };
    return this.#metadata.push(kept) - 1;
  }

  #untagged(id: Uint8Array): number {
    this.#onUntagged(id);
    return unwanted;
  }

  /**
   * Takes out what is held.
   * @throws {TsdbError} BAD_REQUEST when values are no numbers
   */
  *take(): Generator<Rows & { readonly tags: readonly Tag[] }> {
    if (this.#protobuf.isProtobuf) {
      throw badRequest(
        `namespace ${JSON.stringify(this.#namespace)} has protobuf messages for values, which are no numbers`,
      );
    }
    for (const { series, rows } of this.#rows.take(this.#metadata.length)) {
      const { id, encodedTags } = this.#metadata[series]!;
      yield { tags: tagsOfSeries(id, encodedTags)!, ...rows };
    }
  }
}

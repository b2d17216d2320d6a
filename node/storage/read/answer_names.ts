/** Names of the series of an answer that closed filesets add to: each once, and how many of them there may be. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { ByteCollector } from '#engine/store/byte_collector.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { OrdinalTable } from '../../index/tables/ordinal_table.ts';

/** Hash of a name, which nobody who chooses names can foresee. */
export type NameHash = (name: SeriesName) => number;

/** About what it takes to enter a name, in units of work (lib/turns/turns.ts). */
const enterUnits = 100;
/** Of a name in the table, and in the columns that it is added to. */
const nameOverheadBytes = 48;

export class AnswerNames {
  readonly #open: SeriesBundle;
  readonly #hashOf: NameHash;
  readonly #limit: number;
  /** Places in the answer. */
  readonly #table = new OrdinalTable();
  /** Tags and IDs of the open ones, and then of the others. */
  readonly #tags = new ByteCollector();
  readonly #ids = new ByteCollector();
  /** Of the others. */
  readonly #tagsEnds: number[] = [];
  readonly #idEnds: number[] = [];
  readonly #schemes: number[] = [];
  /** No series was left out. */
  isAll = true;

  private constructor(open: SeriesBundle, limit: number, hashOf: NameHash) {
    this.#open = open;
    this.#limit = limit;
    this.#hashOf = hashOf;
    this.#tags.append(open.tagsData);
    this.#ids.append(open.idData);
  }

  /** @param limit of series; 0 for none */
  static async of(
    open: SeriesBundle,
    limit: number,
    hashOf: NameHash,
    work: Work,
  ): Promise<AnswerNames> {
    const names = new AnswerNames(open, limit, hashOf);
    for (let place = 0; place < open.seriesCount; place++) {
      names.#table.add(hashOf(names.#nameAt(place)), place);
      if (work.spend(enterUnits)) await work.pause();
    }
    return names;
  }

  get count(): number {
    return this.#open.seriesCount + this.more;
  }

  /** How many there are beside the open ones. */
  get more(): number {
    return this.#schemes.length;
  }

  /** What it takes of memory. */
  get heldBytes(): number {
    return this.#tags.length + this.#ids.length + nameOverheadBytes * this.count;
  }

  /** Place of a series, which is made when it is new; -1 beyond the limit. @param name borrowed */
  placeOf(name: SeriesName): number {
    const hash = this.#hashOf(name);
    const table = this.#table;
    for (let place = table.first(hash); place >= 0; place = table.next()) {
      if (isSame(this.#nameAt(place), name)) return place;
    }
    const place = this.count;
    if (this.#limit > 0 && place >= this.#limit) {
      this.isAll = false;
      return -1;
    }
    table.add(hash, place);
    this.#tags.append(name.tags);
    this.#ids.append(name.explicitId);
    this.#tagsEnds.push(this.#tags.length);
    this.#idEnds.push(this.#ids.length);
    this.#schemes.push(name.idScheme);
    return place;
  }

  /** Borrowed until the next one is added. */
  #nameAt(place: number): SeriesName {
    const { seriesCount, idScheme, tagsOffset, idOffset } = this.#open;
    const tags = this.#tags.view();
    const ids = this.#ids.view();
    if (place < seriesCount) {
      return {
        idScheme: idScheme[place]!,
        tags: tags.subarray(tagsOffset[place]!, tagsOffset[place + 1]!),
        explicitId: ids.subarray(idOffset[place]!, idOffset[place + 1]!),
      };
    }
    const at = place - seriesCount;
    const tagsStart = at === 0 ? tagsOffset[seriesCount]! : this.#tagsEnds[at - 1]!;
    const idStart = at === 0 ? idOffset[seriesCount]! : this.#idEnds[at - 1]!;
    return {
      idScheme: this.#schemes[at]!,
      tags: tags.subarray(tagsStart, this.#tagsEnds[at]!),
      explicitId: ids.subarray(idStart, this.#idEnds[at]!),
    };
  }

  /** Names of the open series, and then the others. No more are added then. */
  joined(): Omit<SeriesBundle, 'chunkData' | 'chunkOffset'> {
    const { seriesCount, ...open } = this.#open;
    const { count } = this;
    const tagsOffset = new Uint32Array(count + 1);
    const idOffset = new Uint32Array(count + 1);
    const idScheme = new Uint8Array(count);
    tagsOffset.set(open.tagsOffset);
    idOffset.set(open.idOffset);
    idScheme.set(open.idScheme);
    tagsOffset.set(this.#tagsEnds, seriesCount + 1);
    idOffset.set(this.#idEnds, seriesCount + 1);
    idScheme.set(this.#schemes, seriesCount);
    const [tagsData, idData] = [this.#tags.view(), this.#ids.view()];
    return { seriesCount: count, tagsData, tagsOffset, idScheme, idData, idOffset };
  }
}

function isSame(a: SeriesName, b: SeriesName): boolean {
  if (a.idScheme !== b.idScheme || compareBytes(a.tags, b.tags) !== 0) return false;
  return compareBytes(a.explicitId, b.explicitId) === 0;
}

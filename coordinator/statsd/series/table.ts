/** What is kept of each metric with its tags: numbers in columns, by the places of their series. */
import type { Members } from './members.ts';

const roomFirst = 256;

/** @typeParam Part what a series has beside numbers */
export class SeriesTable<Part> {
  /** Of kinds in counts.ts; of places that are free nothing holds. */
  kinds: Uint8Array<ArrayBuffer> = new Uint8Array(roomFirst);
  /** Of counters and gauges. */
  values: Float64Array<ArrayBuffer> = new Float64Array(roomFirst);
  /** When the last event came. */
  updatedMillis: Float64Array<ArrayBuffer> = new Float64Array(roomFirst);
  createdMillis: Float64Array<ArrayBuffer> = new Float64Array(roomFirst);
  /** It was written before. */
  isWritten: Uint8Array<ArrayBuffer> = new Uint8Array(roomFirst);
  /** Something came that no row tells yet. */
  hasUnwritten: Uint8Array<ArrayBuffer> = new Uint8Array(roomFirst);
  isUsed: Uint8Array<ArrayBuffer> = new Uint8Array(roomFirst);
  /** Time of the last row of one that left; infinite for others. */
  untilMillis: Float64Array<ArrayBuffer> = new Float64Array(roomFirst);
  /** Of keys. */
  hashes: Int32Array<ArrayBuffer> = new Int32Array(roomFirst);
  /** By place. */
  readonly keys: string[] = [];
  readonly parts: Part[] = [];
  readonly members: (Members | null)[] = [];
  readonly #places = new Map<string, number>();
  readonly #free: number[] = [];

  get count(): number {
    return this.#places.size;
  }

  /** Places below it may be used. */
  get end(): number {
    return this.keys.length;
  }

  placeOf(key: string): number | null {
    return this.#places.get(key) ?? null;
  }

  /** @param key that is not there yet. @returns its place */
  add(
    key: string,
    hash: number,
    kind: number,
    part: Part,
    members: Members | null,
    nowMillis: number,
  ): number {
    const place = this.#free.pop() ?? this.keys.length;
    if (place === this.kinds.length) this.#grow();
    this.#places.set(key, place);
    this.keys[place] = key;
    this.parts[place] = part;
    this.members[place] = members;
    this.kinds[place] = kind;
    this.values[place] = 0;
    this.createdMillis[place] = nowMillis;
    this.updatedMillis[place] = nowMillis;
    this.isWritten[place] = 0;
    this.hasUnwritten[place] = 0;
    this.isUsed[place] = 1;
    this.untilMillis[place] = Infinity;
    this.hashes[place] = hash;
    return place;
  }

  /** Its key may be added again; the place is used until it is removed. */
  detach(place: number, untilMillis: number): void {
    this.#places.delete(this.keys[place]!);
    this.untilMillis[place] = untilMillis;
  }

  detachAll(untilMillis: number): void {
    for (const place of this.#places.values()) this.untilMillis[place] = untilMillis;
    this.#places.clear();
  }

  remove(place: number): void {
    const key = this.keys[place]!;
    if (this.#places.get(key) === place) this.#places.delete(key);
    this.members[place]?.takeCount();
    this.isUsed[place] = 0;
    this.#free.push(place);
  }

  #grow(): void {
    const room = 2 * this.kinds.length;
    this.kinds = grown(this.kinds, new Uint8Array(room));
    this.values = grown(this.values, new Float64Array(room));
    this.updatedMillis = grown(this.updatedMillis, new Float64Array(room));
    this.createdMillis = grown(this.createdMillis, new Float64Array(room));
    this.isWritten = grown(this.isWritten, new Uint8Array(room));
    this.hasUnwritten = grown(this.hasUnwritten, new Uint8Array(room));
    this.isUsed = grown(this.isUsed, new Uint8Array(room));
    this.untilMillis = grown(this.untilMillis, new Float64Array(room));
    this.hashes = grown(this.hashes, new Int32Array(room));
  }
}

function grown<A extends Uint8Array | Int32Array | Float64Array>(from: A, to: A): A {
  to.set(from);
  return to;
}

/** What lines have been seen to be of: keys are a name with its type and its tags as they stand in the line. */

/** Of all keys; what is more begins anew. */
const keysMax: number = 1 << 22;
const bytesMax: number = 128 << 20;
/** Places that are looked at for one: those who make names that all have one place have them read as texts. */
const probesMax = 64;
/** Places for each key, at least. */
const placesOfKey = 2;
const placesMin = 1 << 12;

export class KeyTable {
  #places = new Int32Array(placesMin).fill(-1);
  #bytes = new Uint8Array(1 << 16);
  #byteLength = 0;
  #count = 0;
  #hashes = new Int32Array(placesMin / placesOfKey);
  #ends = new Uint32Array(placesMin / placesOfKey);
  #values = new Int32Array(placesMin / placesOfKey);

  get count(): number {
    return this.#count;
  }

  /** Its number; -1 for one that is not there. @param hash of the key's bytes, any that is the same each time */
  find(key: Uint8Array, length: number, hash: number): number {
    const places = this.#places;
    const mask = places.length - 1;
    let place = mixed(hash) & mask;
    for (let probes = 0; probes < probesMax; probes++, place = (place + 1) & mask) {
      const number = places[place]!;
      if (number < 0) return -1;
      if (this.#hashes[number] === hash && this.#isEqual(number, key, length)) return number;
    }
    return -1;
  }

  /** What was noted of a key. */
  valueOf(number: number): number {
    return this.#values[number]!;
  }

  /** A key that is not there yet; not where too many others have its place. When there are too many all are forgotten. */
  add(key: Uint8Array, length: number, hash: number, value: number): void {
    if (this.#byteLength + length > bytesMax || this.#count === keysMax) this.clear();
    if (this.#count === this.#ends.length) this.#grow();
    if (this.#placeOf(hash) < 0) return;
    this.#reserve(length);
    this.#bytes.set(key.subarray(0, length), this.#byteLength);
    this.#byteLength += length;
    const number = this.#count++;
    this.#hashes[number] = hash;
    this.#ends[number] = this.#byteLength;
    this.#values[number] = value;
    this.#place(number);
  }

  clear(): void {
    this.#places.fill(-1);
    this.#count = 0;
    this.#byteLength = 0;
  }

  #isEqual(number: number, key: Uint8Array, length: number): boolean {
    const bytes = this.#bytes;
    const end = this.#ends[number]!;
    const from = number === 0 ? 0 : this.#ends[number - 1]!;
    if (end - from !== length) return false;
    for (let i = 0; i < length; i++) if (bytes[from + i] !== key[i]) return false;
    return true;
  }

  #place(number: number): void {
    const place = this.#placeOf(this.#hashes[number]!);
    if (place >= 0) this.#places[place] = number;
  }

  /** The first free one; -1 when none is near. */
  #placeOf(hash: number): number {
    const places = this.#places;
    const mask = places.length - 1;
    let place = mixed(hash) & mask;
    for (let probes = 0; probes < probesMax; probes++, place = (place + 1) & mask) {
      if (places[place]! < 0) return place;
    }
    return -1;
  }

  #grow(): void {
    const room = 2 * this.#ends.length;
    this.#hashes = grown(this.#hashes, new Int32Array(room));
    this.#ends = grown(this.#ends, new Uint32Array(room));
    this.#values = grown(this.#values, new Int32Array(room));
    this.#places = new Int32Array(placesOfKey * room).fill(-1);
    for (let number = 0; number < this.#count; number++) this.#place(number);
  }

  #reserve(length: number): void {
    const needed = this.#byteLength + length;
    if (needed <= this.#bytes.length) return;
    const room = new Uint8Array(Math.max(needed, 2 * this.#bytes.length));
    room.set(this.#bytes.subarray(0, this.#byteLength));
    this.#bytes = room;
  }
}

function grown<A extends Int32Array | Uint32Array>(from: A, to: A): A {
  to.set(from);
  return to;
}

function mixed(hash: number): number {
  const h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return h ^ (h >>> 13);
}

/**
 * A number for each of many series, known by a hash of its tags: 128 bits of a key that nobody else knows, so that no two have the
 * same. Some 40 bytes a series, without an object for any.
 */
import type { Random } from '#lib/env/env.ts';
import { hash128, type HashKey } from '#lib/hashing/hash128.ts';

const words = 4;
/** So that what grows at once is a small part of millions of series. */
const tableCount = 64;
const capacityFirst = 1 << 6;

export class KnownSeries {
  readonly #key: HashKey;
  readonly #max: number;
  #tables: readonly Table[] = newTables();
  #count = 0;
  readonly #hash = new Uint32Array(words);
  /** Of the series that was looked for last. */
  #table: Table = this.#tables[0]!;
  #place = 0;

  /** @param max more are not kept */
  constructor(max: number, random: Pick<Random, 'u32'>) {
    this.#key = [random.u32(), random.u32()];
    this.#max = max;
  }

  get count(): number {
    return this.#count;
  }

  forget(): void {
    this.#tables = newTables();
    this.#count = 0;
  }

  /** @returns 0 where there is none */
  find(tags: Uint8Array): number {
    hash128(tags, this.#key, this.#hash);
    this.#table = this.#tables[this.#hash[1]! % tableCount]!;
    this.#place = this.#table.placeOf(this.#hash);
    return this.#table.numberAt(this.#place);
  }

  /** Of the series that was looked for last. @param number above 0 */
  set(number: number): void {
    if (this.#table.numberAt(this.#place) === 0) {
      if (this.#count === this.#max) return;
      this.#count += 1;
    }
    this.#place = this.#table.set(this.#place, this.#hash, number);
  }
}

function newTables(): readonly Table[] {
  return Array.from({ length: tableCount }, () => new Table());
}

class Table {
  #hashes: Uint32Array = new Uint32Array(words * capacityFirst);
  /** 0 where nothing stands. */
  #numbers: Uint32Array = new Uint32Array(capacityFirst);
  #count = 0;

  /** Where a hash stands, or would. */
  placeOf(hash: Uint32Array): number {
    return placeOf(hash, 0, this.#hashes, this.#numbers);
  }

  numberAt(place: number): number {
    return this.#numbers[place]!;
  }

  /** @returns where the hash stands then */
  set(place: number, hash: Uint32Array, number: number): number {
    if (this.#numbers[place] === 0) {
      this.#count += 1;
      this.#hashes.set(hash, words * place);
    }
    this.#numbers[place] = number;
    if (4 * this.#count <= 3 * this.#numbers.length) return place;
    this.#grow();
    return this.placeOf(hash);
  }

  #grow(): void {
    const [hashes, numbers] = [this.#hashes, this.#numbers];
    this.#hashes = new Uint32Array(2 * hashes.length);
    this.#numbers = new Uint32Array(2 * numbers.length);
    for (let from = 0; from < numbers.length; from++) {
      if (numbers[from] === 0) continue;
      const to = placeOf(hashes, from, this.#hashes, this.#numbers);
      for (let i = 0; i < words; i++) this.#hashes[words * to + i] = hashes[words * from + i]!;
      this.#numbers[to] = numbers[from]!;
    }
  }
}

/** @param of the hash at place `at` of these */
function placeOf(of: Uint32Array, at: number, hashes: Uint32Array, numbers: Uint32Array): number {
  const [a, b, c, d] = [
    of[words * at]!,
    of[words * at + 1]!,
    of[words * at + 2]!,
    of[words * at + 3]!,
  ];
  const mask = numbers.length - 1;
  for (let place = a & mask; ; place = (place + 1) & mask) {
    const from = words * place;
    if (numbers[place] === 0) return place;
    if (hashes[from] !== a || hashes[from + 1] !== b) continue;
    if (hashes[from + 2] === c && hashes[from + 3] === d) return place;
  }
}

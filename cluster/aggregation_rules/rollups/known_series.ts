/**
 * A number for each of many series, known by a hash of its tags: 128 bits of a key that nobody else knows, so that no two have the
 * same. Some 40 bytes a series, without an object for any.
 */
import type { Random } from '#lib/env/env.ts';
import { hash128, type HashKey } from '#lib/hashing/hash128.ts';

const capacityFirst = 1 << 12;
const words = 4;

export class KnownSeries {
  readonly #key: HashKey;
  readonly #max: number;
  #hashes: Uint32Array = new Uint32Array(words * capacityFirst);
  /** 0 where nothing stands. */
  #numbers: Uint32Array = new Uint32Array(capacityFirst);
  #count = 0;
  readonly #hash = new Uint32Array(words);
  /** Of the series that was looked for last. */
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
    this.#hashes = new Uint32Array(words * capacityFirst);
    this.#numbers = new Uint32Array(capacityFirst);
    this.#count = 0;
  }

  /** @returns 0 where there is none */
  find(tags: Uint8Array): number {
    hash128(tags, this.#key, this.#hash);
    this.#place = placeOf(this.#hash, 0, this.#hashes, this.#numbers);
    return this.#numbers[this.#place]!;
  }

  /** Of the series that was looked for last. @param number above 0 */
  set(number: number): void {
    if (this.#numbers[this.#place] === 0) {
      if (this.#count === this.#max) return;
      this.#count += 1;
      this.#hashes.set(this.#hash, words * this.#place);
    }
    this.#numbers[this.#place] = number;
    if (4 * this.#count > 3 * this.#numbers.length) this.#grow();
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
    this.#place = placeOf(this.#hash, 0, this.#hashes, this.#numbers);
  }
}

/** Where a hash stands, or would. @param of the hash at place `at` of these */
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

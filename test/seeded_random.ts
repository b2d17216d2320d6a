import type { Random } from '#lib/env/env.ts';

/** Random numbers that a seed decides, for tests and benchmarks (a Weyl sequence, mixed). */
export class SeededRandom implements Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  u32(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let h = this.#state;
    h = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
    h = Math.imul(h ^ (h >>> 15), 0x735a2d97);
    return (h ^ (h >>> 15)) >>> 0;
  }

  bytes(length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let i = 0; i < length; i += 1) bytes[i] = this.u32() & 255;
    return bytes;
  }

  fraction(): number {
    return this.u32() / 2 ** 32;
  }

  /** Whole number in [0, end). */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }
}

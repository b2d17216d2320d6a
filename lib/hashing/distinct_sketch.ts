/**
 * How many distinct texts several parts have together, when the parts may share some: each part
 * gives the smallest of its hashes. The number is exact while it is below `sketchHashes`, and off
 * by some five of a hundred beyond.
 */

/** Most hashes of a sketch. */
export const sketchHashes = 512;

/**
 * @param hashes of texts, in any order; it is sorted. @returns the smallest ones, each once,
 * ascending
 */
export function sketchOf(hashes: Uint32Array): Uint32Array {
  hashes.sort();
  const kept = new Uint32Array(Math.min(hashes.length, sketchHashes));
  let count = 0;
  for (let i = 0; i < hashes.length && count < sketchHashes; i++) {
    if (i === 0 || hashes[i] !== hashes[i - 1]) kept[count++] = hashes[i]!;
  }
  return kept.subarray(0, count);
}

/** Hashes that are taken before those that are not kept are left out. */
const takenMax = 16 * sketchHashes;

/** A sketch of texts that come one after the other. */
export class DistinctSketch {
  readonly #hashes: Uint32Array = new Uint32Array(takenMax);
  #count = 0;

  add(hash: number): void {
    if (this.#count === takenMax) {
      const kept = sketchOf(this.#hashes);
      this.#hashes.set(kept);
      this.#count = kept.length;
    }
    this.#hashes[this.#count++] = hash;
  }

  /** As `sketchOf` gives it. */
  kept(): Uint32Array {
    return sketchOf(this.#hashes.slice(0, this.#count));
  }
}

/** The sketch of all texts of several sketches. */
export function mergedSketch(sketches: readonly Uint32Array[]): Uint32Array {
  const all = new Uint32Array(sketches.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const sketch of sketches) {
    all.set(sketch, at);
    at += sketch.length;
  }
  return sketchOf(all);
}

/** Number of distinct texts. */
export function distinctCount(sketch: Uint32Array): number {
  if (sketch.length < sketchHashes) return sketch.length;
  return Math.round(((sketchHashes - 1) * 2 ** 32) / (sketch[sketchHashes - 1]! + 1));
}

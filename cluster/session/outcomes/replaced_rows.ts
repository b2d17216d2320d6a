/**
 * Rows of a write of which a later one has the series and the time. The later one counts, as its client means it; sent with one
 * version their values would decide.
 */
import type { TargetRows } from './acknowledgements.ts';

interface RowKeys {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
}

export class ReplacedRows {
  /** Of a row that is replaced the last one of its series and time, + 1; null when none is, as usual. */
  #lastOf: Uint32Array | null = null;

  /** @param seed that writers do not know: rows that all have one place would take time that grows with their square */
  constructor({ rowCount, slots, generations, timestamps }: RowKeys, seed: number) {
    const words = new Uint32Array(timestamps.buffer, timestamps.byteOffset, 2 * rowCount);
    // Twice as many places as rows: rows + 1 by hash, 0 where none is.
    const mask = 2 ** Math.ceil(Math.log2(2 * rowCount + 1)) - 1;
    const places = new Uint32Array(mask + 1);
    for (let row = rowCount - 1; row >= 0; row--) {
      const slot = slots[row]!;
      const low = words[2 * row]!;
      const high = words[2 * row + 1]!;
      let place = mixed(seed, slot, low, high) & mask;
      for (; places[place] !== 0; place = (place + 1) & mask) {
        const last = places[place]! - 1;
        if (
          slots[last] === slot &&
          words[2 * last] === low &&
          words[2 * last + 1] === high &&
          generations[last] === generations[row]
        ) {
          break;
        }
      }
      if (places[place] === 0) places[place] = row + 1;
      else {
        this.#lastOf ??= new Uint32Array(rowCount);
        this.#lastOf[row] = places[place]!;
      }
    }
  }

  /** Those that stay: the given ones themselves when none is replaced. */
  without<Rows extends TargetRows>(rows: Rows): Rows | Uint32Array {
    const lastOf = this.#lastOf;
    if (lastOf === null) return rows;
    return (rows ?? lastOf.map((_, row) => row)).filter((row) => lastOf[row] === 0);
  }

  /** What is told of a row that was replaced is what became of the one that did it. */
  tell(outcomes: Uint8Array): void {
    for (const [row, last] of this.#lastOf?.entries() ?? []) {
      if (last !== 0) outcomes[row] = outcomes[last - 1]!;
    }
  }
}

function mixed(seed: number, slot: number, low: number, high: number): number {
  let hash = Math.imul(low ^ seed, 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 15) ^ high, 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 13) ^ slot, 0x9e3779b1);
  return hash ^ (hash >>> 16);
}

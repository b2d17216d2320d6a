/**
 * Rows of a write of which a later one has the series and the time. The later one counts, as its client means it; sent with one
 * version their values would decide.
 */
import type { TargetRows } from './acknowledgements.ts';

interface RowKeys {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  readonly timestamps: BigInt64Array;
}

export class ReplacedRows {
  /** The last row of its series and time, by row that it replaces. */
  readonly #lastOf = new Map<number, number>();
  readonly #rowCount: number;

  constructor({ rowCount, slots, timestamps }: RowKeys) {
    this.#rowCount = rowCount;
    const words = new Uint32Array(timestamps.buffer, timestamps.byteOffset, 2 * rowCount);
    // Twice as many places as rows: rows + 1 by hash, 0 where none is.
    const mask = 2 ** Math.ceil(Math.log2(2 * rowCount + 1)) - 1;
    const places = new Uint32Array(mask + 1);
    for (let row = rowCount - 1; row >= 0; row--) {
      const slot = slots[row]!;
      const low = words[2 * row]!;
      const high = words[2 * row + 1]!;
      for (let place = mixed(slot, low, high) & mask; ; place = (place + 1) & mask) {
        const last = places[place]! - 1;
        if (last < 0) {
          places[place] = row + 1;
          break;
        }
        if (slots[last] === slot && words[2 * last] === low && words[2 * last + 1] === high) {
          this.#lastOf.set(row, last);
          break;
        }
      }
    }
  }

  /** Whether there is one. */
  get isSome(): boolean {
    return this.#lastOf.size > 0;
  }

  /** Those that stay. */
  without(rows: TargetRows): Uint32Array {
    const all = rows ?? Uint32Array.from({ length: this.#rowCount }, (_, row) => row);
    return all.filter((row) => !this.#lastOf.has(row));
  }

  /** What is told of a row that was replaced is what became of the one that did it. */
  tell(outcomes: Uint8Array): void {
    for (const [row, last] of this.#lastOf) outcomes[row] = outcomes[last]!;
  }
}

function mixed(slot: number, low: number, high: number): number {
  let hash = Math.imul(slot, 0x9e3779b1) ^ Math.imul(low, 0x85ebca6b) ^ Math.imul(high, 0xc2b2ae35);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return hash ^ (hash >>> 13);
}

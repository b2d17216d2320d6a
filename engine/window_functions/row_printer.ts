/** Rows of a step grid as JSON pairs, by the kernel of engine/window_functions/kernel/json.ts. */
import { assert } from '#lib/assert.ts';
import { instantiateWindows } from './instance.ts';
import { formatSample } from './number_format.ts';
import type { RowBuffer } from './row.ts';
import type { WindowsExports } from './windows_exports.ts';

const pageBytes = 65_536;
const prefixBytes = 32;
const prefixTextMax = 30;
/** Steps that are handed over at once; longer rows go in several. */
const sliceSteps = 4096;
const outBytes = 262_144;
const pairBytesMax = 64;

const stateAt = 64;
const valuesAt = 128;
const prefixesAt: number = valuesAt + sliceSteps * 8 + 64;
const outAt: number = prefixesAt + sliceSteps * prefixBytes + 64;
const memoryPages: number = Math.ceil((outAt + outBytes + 64) / pageBytes);

export class RowPrinter {
  readonly #kernel: WindowsExports;
  readonly #bytes: Uint8Array;
  readonly #text: Buffer;
  readonly #valueBits: BigUint64Array;
  readonly #values: Float64Array;
  readonly #state: Uint32Array;
  /** What the prefixes in the memory belong to. */
  #prefixOwner: readonly string[] | null;
  #prefixFirst: number;

  constructor() {
    const { memory, kernel } = instantiateWindows(memoryPages);
    this.#kernel = kernel;
    this.#bytes = new Uint8Array(memory.buffer);
    this.#text = Buffer.from(memory.buffer);
    this.#valueBits = new BigUint64Array(memory.buffer, valuesAt, sliceSteps);
    this.#values = new Float64Array(memory.buffer, valuesAt, sliceSteps);
    this.#state = new Uint32Array(memory.buffer, stateAt, 2);
    this.#prefixOwner = null;
    this.#prefixFirst = -1;
  }

  #usePrefixes(prefixes: readonly string[], first: number, count: number): void {
    if (this.#prefixOwner === prefixes && this.#prefixFirst === first) return;
    this.#prefixOwner = prefixes;
    this.#prefixFirst = first;
    for (let step = 0; step < count; step++) {
      const prefix = prefixes[first + step]!;
      assert(prefix.length <= prefixTextMax, 'a prefix fits into its place');
      const at = prefixesAt + step * prefixBytes;
      this.#text.write(prefix, at, 'latin1');
      this.#bytes[at + prefixBytes - 1] = prefix.length;
    }
  }

  /**
   * Prints source[at .. at + prefixes.length): for each step that has a value its prefix, the
   * number and `"]`.
   * @param prefixes `,[time,"` of each step, ASCII; the same array for all rows of a grid
   * @param write gets the text in pieces, which hold until it returns
   */
  print(
    source: RowBuffer,
    at: number,
    prefixes: readonly string[],
    write: (piece: Uint8Array) => void,
  ): void {
    for (let first = 0; first < prefixes.length; first += sliceSteps) {
      const count = Math.min(sliceSteps, prefixes.length - first);
      this.#usePrefixes(prefixes, first, count);
      this.#valueBits.set(source.bits.subarray(at + first, at + first + count));
      this.#printSlice(count, prefixes, first, write);
    }
  }

  #printSlice(
    count: number,
    prefixes: readonly string[],
    first: number,
    write: (piece: Uint8Array) => void,
  ): void {
    let out = outAt;
    const outEnd = outAt + outBytes;
    for (let step = 0; step < count; ) {
      this.#kernel.printRow(valuesAt, step, count, prefixesAt, out, outEnd, stateAt);
      step = this.#state[0]!;
      out += this.#state[1]!;
      if (outEnd - out < 2 * pairBytesMax) {
        write(this.#bytes.subarray(outAt, out));
        out = outAt;
      } else if (step < count) {
        const text = `${prefixes[first + step]!}${formatSample(this.#values[step]!)}"]`;
        out += this.#text.write(text, out, 'latin1');
        step++;
      }
    }
    if (out > outAt) write(this.#bytes.subarray(outAt, out));
  }
}

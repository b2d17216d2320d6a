/** What the bytes of files are spent on, as a table whose lines add up to the files. */

export type Print = (line: string) => void;

/** Bytes by what they are for. */
export class Spent {
  readonly #parts = new Map<string, number>();
  /** Length of the files. */
  fileBytes = 0;
  files = 0;

  add(part: string, bytes: number): void {
    if (bytes !== 0) this.#parts.set(part, (this.#parts.get(part) ?? 0) + bytes);
  }

  addFile(bytes: number): void {
    this.files += 1;
    this.fileBytes += bytes;
  }

  /** Bytes of the parts whose name begins so. */
  sum(prefix = ''): number {
    let sum = 0;
    for (const [part, bytes] of this.#parts) if (part.startsWith(prefix)) sum += bytes;
    return sum;
  }

  /**
   * Prints the parts, the largest first, and what of the files is in none of them.
   * @param rest what the remaining bytes are
   */
  print(print: Print, rest: string): void {
    const rows = [...this.#parts];
    const left = this.fileBytes - this.sum();
    if (left !== 0) rows.push([rest, left]);
    rows.sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
    for (const [part, bytes] of rows) {
      const share = this.fileBytes === 0 ? 0 : (100 * bytes) / this.fileBytes;
      print(`  ${part.padEnd(32)}${String(bytes).padStart(15)}${share.toFixed(1).padStart(7)} %`);
    }
    print(`  ${'all'.padEnd(32)}${String(this.fileBytes).padStart(15)}`);
  }
}

const plurals: Readonly<Record<string, string>> = {
  series: 'series',
  entry: 'entries',
  batch: 'batches',
};

/** `3 files`, `1 file`. */
export function counted(count: number, one: string): string {
  return `${count} ${count === 1 ? one : (plurals[one] ?? `${one}s`)}`;
}

/** A time in UTC; Unix nanoseconds when it is outside of the calendar. */
export function timeText(nanos: bigint): string {
  const millis = Number(nanos / 1_000_000n);
  return Math.abs(millis) > 8.64e15 ? `${nanos} ns` : new Date(millis).toISOString();
}

/** What was passed over, for people and to be counted. */
export class LeftOut {
  readonly #notes = new Map<string, string>();
  readonly #untagged = new Map<string, { count: number; readonly example: string }>();
  readonly #unfinished = new Map<string, number>();

  /** A line about a file, in the place of an earlier one when it is read again. */
  note(file: string, text: string): void {
    this.#notes.set(file, text);
  }

  /** A file is read from its beginning. */
  begin(file: string): void {
    this.#notes.delete(file);
    this.#untagged.delete(file);
  }

  /** A series of which the tags are not known. */
  untagged(file: string, id: Uint8Array): void {
    const soFar = this.#untagged.get(file);
    if (soFar !== undefined) soFar.count += 1;
    else this.#untagged.set(file, { count: 1, example: exampleOf(id) });
  }

  untaggedIn(file: string): number {
    return this.#untagged.get(file)?.count ?? 0;
  }

  /** A folder was listed, and has so many filesets that were not written to their ends. */
  listed(folder: string, unfinished: number): void {
    this.#unfinished.set(folder, unfinished);
  }

  get unfinished(): number {
    let sum = 0;
    for (const count of this.#unfinished.values()) sum += count;
    return sum;
  }

  get notes(): readonly string[] {
    const lines = [...this.#notes.values()];
    for (const [folder, count] of this.#unfinished) {
      if (count > 0) lines.push(`${count} filesets in ${folder} were not written to their ends`);
    }
    let count = 0;
    for (const file of this.#untagged.values()) count += file.count;
    const [first] = this.#untagged;
    if (first !== undefined) {
      const [file, { example }] = first;
      const where = `in ${this.#untagged.size} parts, the first in ${file}: ${example}`;
      lines.push(`${count} series have no tags that can be read and are left out, ${where}`);
    }
    return lines;
  }
}

const exampleBytes = 100;

function exampleOf(id: Uint8Array): string {
  return JSON.stringify(new TextDecoder().decode(id.subarray(0, exampleBytes)));
}

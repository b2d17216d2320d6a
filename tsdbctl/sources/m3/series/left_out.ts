/** What was passed over, for people. */
export class LeftOut {
  readonly #notes = new Map<string, string>();
  readonly #untagged = new Map<string, { count: number; readonly example: string }>();

  /** A line about a part, in the place of an earlier one when it is read again. */
  note(part: string, text: string): void {
    this.#notes.set(part, text);
  }

  /** A part is read from its beginning. */
  begin(part: string): void {
    this.#notes.delete(part);
    this.#untagged.delete(part);
  }

  /** A series of which the tags are not known. */
  untagged(part: string, id: Uint8Array): void {
    const soFar = this.#untagged.get(part);
    if (soFar !== undefined) soFar.count += 1;
    else this.#untagged.set(part, { count: 1, example: exampleOf(id) });
  }

  get notes(): readonly string[] {
    const lines = [...this.#notes.values()];
    let count = 0;
    for (const part of this.#untagged.values()) count += part.count;
    const [first] = this.#untagged;
    if (first !== undefined) {
      const [part, { example }] = first;
      const where = `in ${this.#untagged.size} parts, the first in ${part}: ${example}`;
      lines.push(`${count} series have no tags that can be read and are left out, ${where}`);
    }
    return lines;
  }
}

const exampleBytes = 100;

function exampleOf(id: Uint8Array): string {
  return JSON.stringify(new TextDecoder().decode(id.subarray(0, exampleBytes)));
}

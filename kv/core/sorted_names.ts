/**
 * Names in ascending order, in pages of bounded length: in one list a name that comes before many others would
 * move all of them.
 */

const pageMax = 512;

export class SortedNames {
  /** None is empty, but for the only one. */
  readonly #pages: string[][] = [[]];
  #count = 0;

  /** @param names ascending, each once */
  static of(names: readonly string[]): SortedNames {
    const sorted = new SortedNames();
    for (let from = 0; from < names.length; from += pageMax) {
      sorted.#pages[from / pageMax] = names.slice(from, from + pageMax);
    }
    sorted.#count = names.length;
    return sorted;
  }

  get count(): number {
    return this.#count;
  }

  /** Adds a name that is not there. */
  add(name: string): void {
    const at = this.#pageOf(name);
    const page = this.#pages[at]!;
    page.splice(lowerBound(page, name), 0, name);
    this.#count += 1;
    if (page.length > pageMax) this.#pages.splice(at + 1, 0, page.splice(pageMax >>> 1));
  }

  /** Removes a name that is there. */
  remove(name: string): void {
    const at = this.#pageOf(name);
    const page = this.#pages[at]!;
    page.splice(lowerBound(page, name), 1);
    this.#count -= 1;
    if (page.length === 0 && this.#pages.length > 1) this.#pages.splice(at, 1);
  }

  /** Names from this one on. */
  *from(name: string): Generator<string, void, void> {
    let at = this.#pageOf(name);
    let index = lowerBound(this.#pages[at]!, name);
    for (; at < this.#pages.length; at += 1, index = 0) {
      const page = this.#pages[at]!;
      for (; index < page.length; index += 1) yield page[index]!;
    }
  }

  /** How many are before the name. */
  rank(name: string): number {
    const at = this.#pageOf(name);
    let rank = lowerBound(this.#pages[at]!, name);
    for (let before = 0; before < at; before += 1) rank += this.#pages[before]!.length;
    return rank;
  }

  /** The last page that begins at or before the name; else the first one. */
  #pageOf(name: string): number {
    let low = 0;
    let high = this.#pages.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#pages[middle]![0]! <= name) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** How many are before the name. */
export function lowerBound(names: readonly string[], name: string): number {
  let low = 0;
  let high = names.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (names[middle]! < name) low = middle + 1;
    else high = middle;
  }
  return low;
}

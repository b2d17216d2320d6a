/** Which namespaces a request has read, and how many series of each kind: what the headers of its answer say. */

export class NamespacesRead {
  readonly #names = new Set<string>();
  /** Each as often as it was read. */
  readonly #series = { samples: 0, windows: 0 };

  add(name: string, of: 'samples' | 'windows', seriesCount: number): void {
    this.#names.add(name);
    this.#series[of] += seriesCount;
  }

  /** In the order of their names. */
  get names(): readonly string[] {
    return [...this.#names].sort();
  }

  seriesOf(kind: 'samples' | 'windows'): number {
    return this.#series[kind];
  }
}

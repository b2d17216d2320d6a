/**
 * So many large answers are held at a time by this process, of all clusters together; who comes later
 * waits, in order. Small ones pass.
 */
export class LargeAnswers {
  readonly #max: number;
  readonly #held = new Set<object>();
  readonly #waiting = new Map<object, () => void>();

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Resolves when there is room for one.
   * @param call that has a large answer
   */
  enter(call: object): Promise<void> {
    if (this.#held.size >= this.#max) {
      return new Promise((resolve) => this.#waiting.set(call, resolve));
    }
    this.#held.add(call);
    return Promise.resolve();
  }

  /** The call is done with its answer, or waits for it no more; also one that never had a large one. */
  leave(call: object): void {
    this.#waiting.delete(call);
    if (!this.#held.delete(call)) return;
    const [next] = this.#waiting;
    if (next === undefined) return;
    const [later, resolve] = next;
    this.#waiting.delete(later);
    this.#held.add(later);
    resolve();
  }
}

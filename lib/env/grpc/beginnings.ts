/**
 * When handlers begin: a few in each turn of the main loop, of one connection after the other. One
 * read of a socket can bring a thousand of them, and all their answers would be made before the loop
 * looks at anything else, or an answer could leave.
 */
const ofTurnMax = 4;

export class Beginnings {
  /** In this turn; while it is not zero, another one is to come. */
  #begun = 0;
  /** By connection, the one that comes next first. */
  readonly #waiting = new Map<object, (() => void)[]>();

  /** Resolves when a handler of the connection may begin. */
  turn(connection: object): Promise<void> {
    if (this.#begun === ofTurnMax) {
      return new Promise((resolve) => {
        const others = this.#waiting.get(connection);
        if (others === undefined) this.#waiting.set(connection, [resolve]);
        else others.push(resolve);
      });
    }
    this.#count();
    return Promise.resolve();
  }

  #count(): void {
    if (this.#begun++ === 0) setImmediate(() => this.#next());
  }

  #next(): void {
    this.#begun = 0;
    for (const [connection, [begin, ...others]] of this.#waiting) {
      if (this.#begun === ofTurnMax) return;
      this.#waiting.delete(connection);
      if (others.length > 0) this.#waiting.set(connection, others);
      this.#count();
      begin!();
    }
  }
}

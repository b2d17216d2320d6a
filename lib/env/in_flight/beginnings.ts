/**
 * When handlers begin: for some milliseconds in each turn of the main loop, of one connection after
 * the other. One read of a socket can bring a thousand requests, and all would be worked on before
 * the loop looks at anything else, or an answer could leave.
 */

/** Of each turn, when not said otherwise. */
const sliceMillisDefault = 4;
/** What a handler begins goes on after it first waits. */
const ofTurnMax = 32;

export class Beginnings {
  /** In this turn; while it is not zero, another turn is to come. */
  #begun = 0;
  #sinceMillis = 0;
  readonly #sliceMillis: number;
  /** By connection, the one that comes next first. */
  readonly #waiting = new Map<object, (() => void)[]>();

  constructor(sliceMillis: number = sliceMillisDefault) {
    this.#sliceMillis = sliceMillis;
  }

  /** Resolves when a handler of the connection may begin. */
  turn(connection: object): Promise<void> {
    if (this.#waiting.size === 0 && this.#isTimeLeft()) {
      this.#count();
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const others = this.#waiting.get(connection);
      if (others === undefined) this.#waiting.set(connection, [resolve]);
      else others.push(resolve);
    });
  }

  #isTimeLeft(): boolean {
    if (this.#begun === 0) return true;
    return this.#begun < ofTurnMax && performance.now() - this.#sinceMillis < this.#sliceMillis;
  }

  #count(): void {
    if (this.#begun++ > 0) return;
    this.#sinceMillis = performance.now();
    setImmediate(() => {
      this.#begun = 0;
      this.#beginNext();
    });
  }

  #beginNext(): void {
    const [first] = this.#waiting;
    if (first === undefined || !this.#isTimeLeft()) return;
    const [connection, [begin, ...others]] = first;
    this.#waiting.delete(connection);
    if (others.length > 0) this.#waiting.set(connection, others);
    this.#count();
    begin!();
    // After the handler has begun, which it does in microtasks: then the time tells what it took.
    queueMicrotask(() => process.nextTick(() => this.#beginNext()));
  }
}

/**
 * When handlers begin: for some milliseconds in each turn of the main loop, of one connection after
 * the other. One read of a socket can bring a thousand requests, and all would be worked on before
 * the loop looks at anything else, or an answer could leave. Small and large requests take turns: a small one waits for no
 * thousand large ones.
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
  readonly #small = new Waiting();
  readonly #large = new Waiting();
  /** The next one is a large one, if there is one. */
  #isOfLarge = false;

  constructor(sliceMillis: number = sliceMillisDefault) {
    this.#sliceMillis = sliceMillis;
  }

  /** Resolves when a handler of the connection may begin. */
  turn(connection: object, isSmall = false): Promise<void> {
    if (this.#small.isEmpty && this.#large.isEmpty && this.#isTimeLeft()) {
      this.#count();
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      (isSmall ? this.#small : this.#large).add(connection, resolve);
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
    if (!this.#isTimeLeft()) return;
    const [first, other] = this.#isOfLarge
      ? [this.#large, this.#small]
      : [this.#small, this.#large];
    const begin = first.take() ?? other.take();
    if (begin === null) return;
    this.#isOfLarge = !this.#isOfLarge;
    this.#count();
    begin();
    // After the handler has begun, which it does in microtasks: then the time tells what it took.
    queueMicrotask(() => process.nextTick(() => this.#beginNext()));
  }
}

/** Those that wait, of one connection after the other. */
class Waiting {
  /** By connection, the one that comes next first. */
  readonly #all = new Map<object, (() => void)[]>();

  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  add(connection: object, begin: () => void): void {
    const others = this.#all.get(connection);
    if (others === undefined) this.#all.set(connection, [begin]);
    else others.push(begin);
  }

  take(): (() => void) | null {
    const [first] = this.#all;
    if (first === undefined) return null;
    const [connection, [begin, ...others]] = first;
    this.#all.delete(connection);
    if (others.length > 0) this.#all.set(connection, others);
    return begin!;
  }
}

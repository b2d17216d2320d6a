interface Waiting {
  readonly count: number;
  readonly resolve: () => void;
}

/**
 * Places for what may be done so many times at once, or what takes so many units of something, given in the
 * order in which they were asked for.
 */
export class Places {
  readonly #max: number;
  #free: number;
  readonly #waiting = new Set<Waiting>();

  constructor(max: number) {
    this.#max = max;
    this.#free = max;
  }

  /**
   * Resolves when there are places, which have to be given back.
   * @param count more than there are at all is all of them
   * @throws the signal's reason when aborted
   */
  async take(signal: AbortSignal, count: number = 1): Promise<void> {
    const taken = Math.min(count, this.#max);
    if (this.#waiting.size === 0 && this.#free >= taken) {
      this.#free -= taken;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { count: taken, resolve };
    const leave = (): void => {
      // One that has its places already gives them back by itself.
      if (!this.#waiting.delete(waiting)) return;
      reject(signal.reason as Error);
      // Those behind it may need fewer.
      this.#hand();
    };
    signal.throwIfAborted();
    this.#waiting.add(waiting);
    signal.addEventListener('abort', leave);
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** @param count as it was asked for */
  give(count: number = 1): void {
    this.#free += Math.min(count, this.#max);
    this.#hand();
  }

  #hand(): void {
    for (const next of this.#waiting) {
      if (next.count > this.#free) return;
      this.#waiting.delete(next);
      this.#free -= next.count;
      next.resolve();
    }
  }
}

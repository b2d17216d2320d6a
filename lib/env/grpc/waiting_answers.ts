/**
 * Answers that wait until their clients take them, and what they may hold in memory together. When
 * there is no room for one more, the one goes that has held most for longest: bytes times time.
 */

/** Beside the time that an answer may wait anyway, it has a second for each so many bytes. */
const takenBytesPerSecond: number = 1 << 20;

export interface WaitingAnswer {
  readonly bytes: number;
  readonly sinceMillis: number;
  /** Nobody waits any longer until it is taken. */
  readonly cut: () => void;
}

export class WaitingAnswers {
  readonly #bytesMax: number;
  readonly #stalledMillisMax: number;
  /** In the order in which they began to wait. */
  readonly #all = new Set<WaitingAnswer>();
  #bytes = 0;

  constructor(bytesMax: number, stalledMillisMax: number) {
    this.#bytesMax = bytesMax;
    this.#stalledMillisMax = stalledMillisMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  begin(bytes: number, cut: () => void): WaitingAnswer {
    while (this.#bytes + bytes > this.#bytesMax) {
      const answer = this.#leastWanted();
      if (answer === null) break;
      this.#cut(answer);
    }
    const answer: WaitingAnswer = { bytes, sinceMillis: performance.now(), cut };
    this.#all.add(answer);
    this.#bytes += bytes;
    return answer;
  }

  #leastWanted(): WaitingAnswer | null {
    const now = performance.now();
    let most: WaitingAnswer | null = null;
    let mostHeld = -1;
    for (const answer of this.#all) {
      const held = answer.bytes * (now - answer.sinceMillis);
      if (answer.bytes === 0 || held <= mostHeld) continue;
      most = answer;
      mostHeld = held;
    }
    return most;
  }

  /** It is taken, or its call is over. */
  end(answer: WaitingAnswer): void {
    if (this.#all.delete(answer)) this.#bytes -= answer.bytes;
  }

  #cut(answer: WaitingAnswer): void {
    this.end(answer);
    answer.cut();
  }

  /** Those whose clients take too long. */
  cutStalled(): void {
    const now = performance.now();
    for (const answer of this.#all) {
      const millis = now - answer.sinceMillis;
      if (millis < this.#stalledMillisMax) return;
      const millisMax = this.#stalledMillisMax + (answer.bytes * 1000) / takenBytesPerSecond;
      if (millis >= millisMax) this.#cut(answer);
    }
  }
}

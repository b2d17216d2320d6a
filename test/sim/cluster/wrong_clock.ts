/** The clock of a machine, which may show the wrong time and run too fast or too slowly. */
import type { SimulatedTime } from './time.ts';

export class WrongClock {
  readonly #time: SimulatedTime;
  /** What a wall clock shows too much, besides what came of its rate. */
  offsetMillis = 0;
  #rate = 1;
  /** When the rate was set, and what had passed by this clock then. */
  #sinceMillis = 0;
  #passedMillis = 0;

  constructor(time: SimulatedTime) {
    this.#time = time;
  }

  /** Its milliseconds since the simulation began, which nobody sets: of monotonic clocks. */
  get passedMillis(): number {
    return this.#passedMillis + (this.#time.nowMillis - this.#sinceMillis) * this.#rate;
  }

  /** The same as its wall clock shows it. */
  get wallMillis(): number {
    return this.passedMillis + this.offsetMillis;
  }

  /** Its milliseconds in a true one. */
  get rate(): number {
    return this.#rate;
  }

  set rate(rate: number) {
    this.#passedMillis = this.passedMillis;
    this.#sinceMillis = this.#time.nowMillis;
    this.#rate = rate;
  }

  /** It runs well from now on, and shows the right time. */
  setRight(): void {
    this.rate = 1;
    this.offsetMillis = this.#time.nowMillis - this.passedMillis;
  }
}

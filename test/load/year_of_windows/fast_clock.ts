/** A clock that is moved, and on which nobody waits: what takes a year takes as long as its work. */
import { setImmediate } from 'node:timers/promises';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';

export class FastClock {
  readonly env: Env;
  #nowMillis: number;
  readonly #startMillis: number;

  constructor(startMillis: number) {
    this.#startMillis = startMillis;
    this.#nowMillis = startMillis;
    const clock: Env['clock'] = {
      ...realEnv.clock,
      nowMillis: () => this.#nowMillis,
      nowNanos: () => BigInt(this.#nowMillis) * 1_000_000n,
      monotonicMillis: () => this.#nowMillis - this.#startMillis,
      sleep: async () => {
        await setImmediate();
      },
    };
    this.env = { ...realEnv, clock };
  }

  get nowMillis(): number {
    return this.#nowMillis;
  }

  moveTo(millis: number): void {
    this.#nowMillis = millis;
  }
}

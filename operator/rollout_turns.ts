/**
 * Which clusters may be rolled out because the operator has changed, not their resource: so many at a
 * time, so that a bad version of ours stops at the first. One that does not get well keeps its turn.
 */
import type { Env } from '#lib/env/env.ts';

/** Who leads first looks at all clusters: some may be in the middle of a rollout. */
const settleMillis = 15_000;

export class RolloutTurns {
  readonly #env: Env;
  readonly #turnsMax: number;
  readonly #startedAtMillis: number;
  readonly #holders = new Set<string>();
  /** Clusters that wait, and whether their rollout has begun already. */
  readonly #waiting = new Map<string, boolean>();

  constructor(env: Env, turnsMax: number) {
    this.#env = env;
    this.#turnsMax = turnsMax;
    this.#startedAtMillis = env.clock.monotonicMillis();
  }

  has(key: string): boolean {
    return this.#holders.has(key);
  }

  /** @param hasBegun some of its pods are new already */
  ask(key: string, hasBegun: boolean): void {
    if (this.#holders.has(key)) return;
    this.#waiting.set(key, hasBegun);
    const sinceStartMillis = this.#env.clock.monotonicMillis() - this.#startedAtMillis;
    if (sinceStartMillis < settleMillis) return;
    const rank = ([name, begun]: [string, boolean]): string => `${begun ? 0 : 1} ${name}`;
    const inOrder = [...this.#waiting].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
    for (const [name] of inOrder.slice(0, this.#turnsMax - this.#holders.size)) {
      this.#waiting.delete(name);
      this.#holders.add(name);
    }
  }

  /** It is done, gone or paused. */
  leave(key: string): void {
    this.#waiting.delete(key);
    this.#holders.delete(key);
  }
}

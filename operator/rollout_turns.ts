/**
 * Which clusters may be rolled out because the operator has changed, not their resource: so many at a
 * time, so that a bad version of ours stops at the first. One that does not get well keeps its turn,
 * unless it was ill before: that says nothing about the version.
 */
import type { Env } from '#lib/env/env.ts';

/** Who leads first looks at all clusters: some may be in the middle of a rollout. */
const settleMillis = 15_000;
/** How long one that was ill already keeps others waiting. */
const illTurnMillis = 900_000;

/** A cluster that asks for its turn. */
export interface RolloutAsker {
  /** Some of its pods are new already. */
  readonly hasBegun: boolean;
  /** All of its nodes serve. */
  readonly isWell: boolean;
}

interface Turn {
  readonly wasWell: boolean;
  readonly sinceMillis: number;
}

export class RolloutTurns {
  readonly #env: Env;
  readonly #turnsMax: number;
  readonly #startedAtMillis: number;
  readonly #holders = new Map<string, Turn>();
  readonly #waiting = new Map<string, RolloutAsker>();
  /** Turns that were taken from a cluster which waits or holds one. */
  readonly #turnsLost = new Map<string, number>();

  constructor(env: Env, turnsMax: number) {
    this.#env = env;
    this.#turnsMax = turnsMax;
    this.#startedAtMillis = env.clock.monotonicMillis();
  }

  has(key: string): boolean {
    return this.#holders.has(key);
  }

  /** Who is rolled now, by name. */
  holders(): string[] {
    return [...this.#holders.keys()].sort();
  }

  ask(key: string, asker: RolloutAsker): void {
    if (this.#holders.has(key)) return;
    this.#waiting.set(key, asker);
    const nowMillis = this.#env.clock.monotonicMillis();
    if (nowMillis - this.#startedAtMillis < settleMillis) return;
    this.#endTurnsOfIll(nowMillis);
    const inOrder = [...this.#waiting].sort(([a], [b]) => this.#compare(a, b));
    for (const [name, { isWell }] of inOrder.slice(0, this.#turnsMax - this.#holders.size)) {
      this.#waiting.delete(name);
      this.#holders.set(name, { wasWell: isWell, sinceMillis: nowMillis });
    }
  }

  /** It is done, gone or paused. */
  leave(key: string): void {
    this.#waiting.delete(key);
    this.#holders.delete(key);
    this.#turnsLost.delete(key);
  }

  /** Others wait: who was ill when it got its turn has had it for long enough. */
  #endTurnsOfIll(nowMillis: number): void {
    for (const [key, { wasWell, sinceMillis }] of this.#holders) {
      if (wasWell || nowMillis - sinceMillis < illTurnMillis) continue;
      this.#holders.delete(key);
      this.#turnsLost.set(key, (this.#turnsLost.get(key) ?? 0) + 1);
    }
  }

  /** Who lost no turn first, of these who has begun, of these who is well. */
  #compare(a: string, b: string): number {
    const rank = (key: string): readonly number[] => {
      const { hasBegun, isWell } = this.#waiting.get(key)!;
      return [this.#turnsLost.get(key) ?? 0, hasBegun ? 0 : 1, isWell ? 0 : 1];
    };
    const others = rank(b);
    const difference = rank(a)
      .map((number, i) => number - others[i]!)
      .find((less) => less !== 0);
    return difference ?? (a < b ? -1 : 1);
  }
}

/** The process of those who attack. */
import type { Target } from './attack.ts';
import { Child } from './child.ts';

export interface PlannedAttack {
  readonly name: string;
  readonly seed: number;
  readonly seconds: number;
}

export interface ToAttacker {
  readonly attacks: readonly PlannedAttack[];
  readonly target: Target;
}

export type FromAttacker = readonly {
  readonly name: string;
  /** How many of each kind. */
  readonly answers: string;
  /** What it got that nobody may get. */
  readonly error: string | null;
}[];

export class Attacker {
  readonly #child = new Child<ToAttacker, FromAttacker>('attacker_process.ts', []);
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
  }

  /** Carries them out side by side. */
  run(attacks: readonly PlannedAttack[]): Promise<FromAttacker> {
    return this.#child.ask({ attacks, target: this.#target });
  }

  stop(): void {
    this.#child.stop();
  }
}

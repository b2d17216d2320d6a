/**
 * What an attack is: requests of a stranger to a running single node, each kind an object. What it
 * does to others is measured beside it (probe.ts, watched.ts); an attack itself says only what it
 * was answered, and fails when it got what nobody may get.
 */
import type { NodePorts } from '../integration/process.ts';

export const subjects = [
  'browsers',
  'parsing',
  'bodies',
  'answers',
  'queries',
  'regexps',
  'rules',
  'connections',
  'grpc',
  'wrong answers',
  'requests',
] as const;

export type Subject = (typeof subjects)[number];

/** Where lines are taken by TCP, and what has it by UDP at the same port. */
export interface Listeners {
  readonly carbon: number;
  readonly carbonPickle: number;
  readonly openTsdb: number;
  readonly statsd: number;
}

/** Where the victim is; an attacker knows no more of it. */
export interface Target {
  readonly ports: NodePorts;
  readonly listeners: Listeners;
}

export interface Attack {
  readonly name: string;
  readonly subject: Subject;
  /**
   * Goes on for about the time, and has left all connections when it is done.
   * @param seed decides which of its variants come, and in which order
   * @throws when an answer is one that nobody may get
   */
  run(target: Target, seed: number, seconds: number): Promise<Answers>;
}

/** How many answers there were of each kind. */
export class Answers {
  readonly counts: Map<string, number> = new Map();

  note(kind: string | number): void {
    const key = String(kind);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
  }

  toString(): string {
    const kinds = [...this.counts].sort(([, a], [, b]) => b - a);
    return kinds.map(([kind, count]) => `${kind} × ${count}`).join(', ') || 'no answers';
  }
}

/** Until when an attack goes on. */
export class Span {
  readonly #endMillis: number;

  constructor(seconds: number) {
    this.#endMillis = performance.now() + seconds * 1000;
  }

  get isOver(): boolean {
    return performance.now() >= this.#endMillis;
  }

  get leftMillis(): number {
    return Math.max(0, this.#endMillis - performance.now());
  }
}

/** Does something again and again until the time is over, so many at once. */
export async function keepDoing(
  span: Span,
  atOnce: number,
  action: (round: number) => Promise<void>,
): Promise<void> {
  let rounds = 0;
  const one = async (): Promise<void> => {
    do await action(rounds++);
    while (!span.isOver);
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

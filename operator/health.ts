/** What /readyz and /healthz say of this process: whether it sees what it looks after. */
import type { Env } from '#lib/env/env.ts';

/** The lease is read every two seconds, by the leader and by who waits. */
const contactMillisMax = 30_000;
/** Longer than any request to the server may take. */
const silenceMillisMax = 120_000;

export class Health {
  readonly #env: Env;
  /** When Kubernetes answered last. */
  #contactAtMillis: number;
  readonly #unlisted = new Set<string>();

  constructor(env: Env) {
    this.#env = env;
    this.#contactAtMillis = env.clock.monotonicMillis();
  }

  /** Kubernetes has answered. */
  noteContact(): void {
    this.#contactAtMillis = this.#env.clock.monotonicMillis();
  }

  /** @param kind that is watched, with its namespace; `isListed` when all of its objects are known */
  noteWatch(kind: string, isListed: boolean): void {
    if (isListed) this.#unlisted.delete(kind);
    else this.#unlisted.add(kind);
  }

  /** Why this process cannot do its work; null when it can. */
  get readyProblem(): string | null {
    const silentMillis = this.#silentMillis();
    if (silentMillis > contactMillisMax) {
      return `Kubernetes has not answered for ${Math.round(silentMillis / 1000)} s`;
    }
    if (this.#unlisted.size === 0) return null;
    return `not listed: ${[...this.#unlisted].sort().join(', ')}`;
  }

  /** Why only a new process helps; null when this one does. */
  get liveProblem(): string | null {
    const silentMillis = this.#silentMillis();
    if (silentMillis <= silenceMillisMax) return null;
    return `no answer of Kubernetes for ${Math.round(silentMillis / 1000)} s`;
  }

  #silentMillis(): number {
    return this.#env.clock.monotonicMillis() - this.#contactAtMillis;
  }
}

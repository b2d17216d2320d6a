/**
 * What failed of a cluster's actions, and when each is tried again: an action that fails holds up
 * nothing but itself. Kept in the process only: after a start everything is tried once more.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { KubeError } from '../kube/kube_api.ts';
import { type Action, hashOf, keyOf } from './action.ts';

const retryMillisMin = 1_000;
const retryMillisMax = 120_000;
/** What is refused is as good as sure to be refused again. */
const refusedRetryMillisMin = 30_000;
const messageCharactersMax = 500;

export interface ActionFailure {
  readonly message: string;
  /** The server will not do it as it is asked for: a person must change something. */
  readonly isRefused: boolean;
  /** By rights, a quota or limits (403); what of that it is stands in the message. */
  readonly isForbidden: boolean;
  /** It cannot be done yet, which is no news: an approval waits for all nodes to have said what they knew. */
  readonly isEarly: boolean;
  /** Of the first one since it succeeded last. */
  readonly sinceMillis: number;
}

interface Entry extends ActionFailure {
  readonly hash: string;
  readonly count: number;
  readonly retryAtMillis: number;
}

export class ActionFailures {
  readonly #env: Env;
  readonly #entries = new Map<string, Entry>();

  constructor(env: Env) {
    this.#env = env;
  }

  /** Of the very same action; null when it has not failed since it succeeded last. */
  of(action: Action): ActionFailure | null {
    const entry = this.#entries.get(keyOf(action));
    return entry?.hash === hashOf(action) ? entry : null;
  }

  /** Of whatever was asked last under this key. */
  ofKey(key: string): ActionFailure | null {
    return this.#entries.get(key) ?? null;
  }

  /** Milliseconds until the action may be tried; 0 for now. */
  dueInMillis(action: Action): number {
    const entry = this.#entries.get(keyOf(action));
    if (entry?.hash !== hashOf(action)) return 0;
    return Math.max(0, entry.retryAtMillis - this.#env.clock.monotonicMillis());
  }

  noteFailure(action: Action, error: unknown): void {
    const { clock, random } = this.#env;
    const hash = hashOf(action);
    const entry = this.#entries.get(keyOf(action));
    const before = entry?.hash === hash ? entry : null;
    const count = (before?.count ?? 0) + 1;
    const isRefused = wasRefused(action, error);
    const backoffMillis = retryMillisMin * 2 ** Math.min(count - 1, 20);
    const leastMillis = Math.max(
      isRefused ? refusedRetryMillisMin : 0,
      error instanceof KubeError ? error.retryAfterMillis : 0,
    );
    const delayMillis = Math.max(Math.min(backoffMillis, retryMillisMax), leastMillis);
    this.#entries.set(keyOf(action), {
      hash,
      message: messageOf(error).slice(0, messageCharactersMax),
      isRefused,
      isForbidden: error instanceof KubeError && error.status === 403,
      isEarly: isEarly(action, error),
      sinceMillis: before?.sinceMillis ?? clock.nowMillis(),
      count,
      retryAtMillis: clock.monotonicMillis() + delayMillis * (0.75 + random.fraction() / 2),
    });
  }

  noteSuccess(action: Action): void {
    this.#entries.delete(keyOf(action));
  }

  /** What is not planned any more is forgotten. */
  keepOnly(actions: readonly Action[]): void {
    const keys = new Set(actions.map(keyOf));
    for (const key of this.#entries.keys()) if (!keys.has(key)) this.#entries.delete(key);
  }
}

const isEarly = (action: Action, error: unknown): boolean =>
  action.kind === 'placement-approve' && error instanceof TsdbError && error.code === 'CONFLICT';

/** Answers that say nothing of what was asked for: not there, in between, too many requests. */
const passingStatuses: readonly number[] = [404, 408, 409, 429];

/** Kubernetes will not do it as it is asked for. */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  return error.status >= 400 && error.status < 500 && !passingStatuses.includes(error.status);
}

function wasRefused(action: Action, error: unknown): boolean {
  if (error instanceof KubeError) {
    // A server before 1.33 does not know the subresource, nor whether there is the pod.
    if (action.kind === 'resize-pod' && error.status === 404) return true;
    return isRefusal(error);
  }
  // A member of etcd cannot be promoted before it has caught up.
  if (action.kind.startsWith('etcd-')) return false;
  return error instanceof TsdbError && error.code === 'BAD_REQUEST';
}

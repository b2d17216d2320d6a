/**
 * What a request has had of the main loop. It is many pieces of work, begun in several rooms that know no more of it than its
 * signal, or one that was derived of it: together they are one piece to those who wait for a turn. Were each counted for itself, a
 * large query would begin anew as a small one with each of its stages, and fifty of them would be before a small one for ever.
 */

/** Of one request, or of one piece of work that is of none. */
export class Account {
  /** Time of the loop. */
  attainedMillis = 0;
  /** Of the loop, that it will take at least, as far as is known. */
  foreseenMillis = 0;
  /** Ascending in the order in which they began to work; null before. */
  ordinal: number | null = null;
  /** Turn of the loop in which it worked last. */
  turned = -1;
}

const accounts = new WeakMap<AbortSignal, Account>();

/** A request begins: what is done with its signal is one. */
export function openAccount(request: AbortSignal): void {
  accounts.set(request, new Account());
}

/** Who waits by the child does it for the same request. */
export function deriveAccount(child: AbortSignal, parent: AbortSignal): void {
  const account = accounts.get(parent);
  if (account !== undefined) accounts.set(child, account);
}

/** Of the request that the signal is of; a new one without. */
export function accountOf(signal: AbortSignal): Account {
  return accounts.get(signal) ?? new Account();
}

/**
 * The signal of one request that nobody gives up. Each request has its own: a common one would hold
 * whatever ever waited for it, from run to run.
 */
export function requestSignal(): AbortSignal {
  return new AbortController().signal;
}

/**
 * `AbortSignal.any` while a simulation runs. Node keeps each such signal that somebody listens to
 * until it aborts, for ever where its process was killed, and with it the whole cluster; of a
 * thousand runs none would be let go.
 */
export function anySignal(signals: Iterable<AbortSignal>): AbortSignal {
  const sources = [...signals];
  const own = new AbortController();
  const aborted = sources.find((source) => source.aborted);
  if (aborted !== undefined) {
    own.abort(aborted.reason);
    return own.signal;
  }
  const onAbort = ({ target }: Event): void => {
    for (const source of sources) source.removeEventListener('abort', onAbort);
    own.abort((target as AbortSignal).reason);
  };
  for (const source of sources) source.addEventListener('abort', onAbort);
  return own.signal;
}

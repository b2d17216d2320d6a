/** How a process is asked to end: SIGINT of a terminal, SIGTERM of whoever runs services. */

/**
 * A terminal sends Ctrl-C to its whole group of processes, and a parent such as npm passes it on
 * once more: what comes within this time is one request.
 */
const sameRequestMillis = 1_000;
/** As shells name an end by Ctrl-C. */
const forcedExitCode = 130;

/**
 * A signal that is aborted by the first request to end; the process then ends by itself. A request
 * that comes later than a second after it ends the process at once.
 */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  let askedAtMillis = 0;
  const onSignal = (): void => {
    const nowMillis = performance.now();
    if (!stop.signal.aborted) {
      askedAtMillis = nowMillis;
      stop.abort();
    } else if (nowMillis - askedAtMillis > sameRequestMillis) {
      process.stderr.write('ended before the stop was complete, as asked for twice\n');
      process.exit(forcedExitCode);
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal);
  return stop.signal;
}

/** Resolves when the signal is aborted. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  await promise;
}

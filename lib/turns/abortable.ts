/** Settles as `start` says, or rejects with the signal's reason. Leaves no listener behind. */
export function abortable(
  signal: AbortSignal,
  start: (resolve: () => void, reject: (error: Error) => void) => void,
): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    const settle = () => signal.removeEventListener('abort', onAbort);
    start(
      () => {
        settle();
        resolve();
      },
      (error) => {
        settle();
        reject(error);
      },
    );
  });
}

/** Waits for work until the signal aborts it; then calls `aborted` and rejects with the signal's reason. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined, aborted?: () => void): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const calledOff = () => {
      reject(signal.reason);
      aborted?.();
    };
    const done = () => signal.removeEventListener("abort", calledOff);
    if (signal.aborted) calledOff();
    else signal.addEventListener("abort", calledOff, { once: true });
    work.finally(done).then(resolve, reject);
  });
}

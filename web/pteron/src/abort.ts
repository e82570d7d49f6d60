/** Waits for work, but no longer than until the signal calls it off: then it rejects with the reason, and `aborted` is called. */
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

// Decides whether to reload after the GPU or the worker was lost.

const WINDOW_MILLISECONDS = 60_000;

/** Allows a reload after the first loss and denies it after a second one within a minute, which a retry is unlikely to fix. */
export class LossGuard {
  #last: number | null = null;

  /** Records a loss at `now` and returns whether to load again without asking. */
  mayRecover(now: number): boolean {
    const recent = this.#last !== null && now - this.#last < WINDOW_MILLISECONDS;
    this.#last = now;
    return !recent;
  }

  /** Resets the guard: the user decided to continue. */
  forgive(): void {
    this.#last = null;
  }
}

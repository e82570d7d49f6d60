// Whether to try again after the GPU or the worker was lost.

const WINDOW_MILLISECONDS = 60_000;

/** Lets the first loss pass and says no to a second one within a minute: something is wrong that trying again will not mend. */
export class LossGuard {
  #last: number | null = null;

  /** Records a loss at `now` and says whether to load again without asking. */
  mayRecover(now: number): boolean {
    const recent = this.#last !== null && now - this.#last < WINDOW_MILLISECONDS;
    this.#last = now;
    return !recent;
  }

  /** A person decided to go on. */
  forgive(): void {
    this.#last = null;
  }
}

import { untilAborted } from "./abort.js";
import type { GenerateResult, GeneratedToken } from "./engine.js";

/** Starts the engine, which calls back per token and continues while the callback returns true. */
export type Run = (onToken: (token: GeneratedToken) => Promise<boolean>) => Promise<GenerateResult>;

/**
 * A text that is being generated, token by token. The model computes the next token when it is asked for.
 *
 * ```js
 * const generation = session.generate("A thread is", { maxTokens: 100 });
 * for await (const { text } of generation) show(text);     // `break` stops the model
 * const { finish } = await generation.result;
 * ```
 */
export class Generation implements AsyncIterable<GeneratedToken> {
  readonly #finished: Promise<GenerateResult>;
  /** Resolves when the engine has returned, which is later than an abort. */
  #returned: Promise<unknown> = Promise.resolve();
  /** Tokens that were generated and not yet read. */
  readonly #ready: GeneratedToken[] = [];
  /** Set while the engine waits to be told whether to continue. */
  #resume: ((goOn: boolean) => void) | undefined;
  /** Set while a reader waits for a token. */
  #wake: (() => void) | undefined;
  /** Serves concurrent reads in order. */
  #turn: Promise<unknown> = Promise.resolve();
  #stopped = false;
  #over = false;
  #reading = false;
  #running = false;

  /** @internal */
  constructor(run: Run, signal?: AbortSignal) {
    this.#finished = this.#start(run, signal);
    // A caller that does not use `result` gets the error from the iterator.
    this.#finished.catch(() => {});
  }

  async #start(run: Run, signal: AbortSignal | undefined): Promise<GenerateResult> {
    try {
      signal?.throwIfAborted();
      const work = run((token) => this.#take(token));
      this.#returned = work.catch(() => {});
      return await untilAborted(work, signal, () => this.#drop());
    } finally {
      this.#over = true;
      this.#wake?.();
    }
  }

  /** Takes a token from the engine. Resolves when a reader wants the next one. */
  #take(token: GeneratedToken): Promise<boolean> {
    if (this.#stopped) return Promise.resolve(false);
    this.#ready.push(token);
    this.#wake?.();
    if (this.#running && !this.#reading) return Promise.resolve(true);
    return new Promise((resolve) => (this.#resume = resolve));
  }

  #reply(goOn: boolean): void {
    this.#resume?.(goOn);
    this.#resume = undefined;
  }

  #halt(): void {
    this.#stopped = true;
    this.#reply(false);
  }

  /** Drops unread tokens after an abort. */
  #drop(): void {
    this.#ready.length = 0;
    this.#halt();
  }

  /**
   * Resolves to the outcome when the generation has ended. Rejects with the engine's error or with the signal's reason. If no
   * reader takes the tokens, getting `result` runs the model to the end.
   */
  get result(): Promise<GenerateResult> {
    this.#running = true;
    if (!this.#reading) this.#reply(true);
    return this.#finished;
  }

  /** Stops the generation. Resolves when the model has stopped; `result` then reports `"stopped"`. */
  async stop(): Promise<void> {
    this.#halt();
    await this.#returned;
    await this.#finished.catch(() => {});
  }

  /** Resolves to the whole text when it is complete. */
  async text(): Promise<string> {
    let text = "";
    for await (const token of this) text += token.text;
    return text;
  }

  [Symbol.asyncIterator](): AsyncIterator<GeneratedToken, undefined> {
    this.#reading = true;
    return {
      next: () => {
        const token = this.#turn.then(() => this.#next());
        this.#turn = token.catch(() => {});
        return token.then((value) => (value ? { done: false, value } : { done: true, value: undefined }));
      },
      return: async () => {
        await this.stop();
        return { done: true, value: undefined };
      },
    };
  }

  async #next(): Promise<GeneratedToken | undefined> {
    while (!this.#over) {
      const token = this.#ready.shift();
      if (token) return token;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#reply(true);
      });
    }
    const rest = this.#ready.shift();
    if (!rest) await this.#finished;
    return rest;
  }
}

/// <reference lib="esnext.disposable" preserve="true" />
import type { ChatMessage, LlmSession, Piece, Profile, SamplingOptions } from "./engine.js";
import { makeDisposable } from "./disposable.js";
import { engineCall, PteronError } from "./errors.js";
import { Generation } from "./generation.js";

/** What a text goes on from: a text, a conversation for the model's chat template, or tokens. */
export type Prompt = string | readonly Readonly<ChatMessage>[] | Uint32Array;

/** How a text is written. */
export interface GenerateOptions extends SamplingOptions {
  /** Stops it; iterator and result then reject with the signal's reason. */
  signal?: AbortSignal;
}

/** A conversation: what was read and written stays in its KV cache, and a prompt that begins the same is not read again. */
export class Session {
  readonly #llm: LlmSession;
  readonly #closed: (session: Session) => void;
  #generation: Generation | undefined;
  #tokens = 0;
  #work: Promise<unknown> | undefined;
  #disposed: Promise<void> | undefined;

  /** @internal */
  constructor(llm: LlmSession, closed: (session: Session) => void) {
    this.#llm = llm;
    this.#closed = closed;
  }

  /** How many tokens its KV cache holds; while it generates, how many it held before. */
  get tokens(): number {
    if (!this.#work && !this.#disposed) this.#tokens = engineCall(() => this.#llm.tokens()).length;
    return this.#tokens;
  }

  /** Goes on from a prompt. Only one generation of a session runs at a time. */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    this.#free();
    this.#tokens = this.tokens;
    const { signal, ...sampling } = options;
    const given = typeof prompt === "string" || prompt instanceof Uint32Array ? prompt : prompt.map((message) => ({ ...message }));
    const run = (onPiece: (piece: Piece) => Promise<boolean>) => engineCall(() => this.#llm.generate(given, sampling, onPiece));
    const generation = new Generation((onPiece) => this.#track(run(onPiece)), signal);
    if (this.#work) this.#generation = generation;
    return generation;
  }

  /** One step of the model, kernel by kernel. */
  profile(): Promise<Profile> {
    this.#free();
    return this.#track(engineCall(() => this.#llm.profile()));
  }

  /** Forgets the conversation. */
  reset(): void {
    this.#free();
    engineCall(() => this.#llm.reset());
  }

  /** Refuses where it is gone or busy: the engine's session is lent to whoever works with it. */
  #free(): void {
    if (this.#disposed) throw new PteronError("input", "the session was disposed");
    if (this.#work) throw new PteronError("input", "the session is generating: stop that, or wait for its end");
  }

  async #track<T>(work: Promise<T>): Promise<T> {
    this.#work = work;
    try {
      return await work;
    } finally {
      this.#work = undefined;
      this.#generation = undefined;
    }
  }

  /** Stops what runs and frees its KV cache. Resolves when that is done. */
  dispose(): Promise<void> {
    return (this.#disposed ??= this.#close());
  }

  async #close(): Promise<void> {
    await this.#generation?.stop();
    await this.#work?.catch(() => {});
    this.#llm.free();
    this.#closed(this);
  }

  static {
    makeDisposable(this);
  }
}

export interface Session extends AsyncDisposable {}

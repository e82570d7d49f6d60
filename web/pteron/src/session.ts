/// <reference lib="esnext.disposable" preserve="true" />
import type { ChatMessage, LlmSession, PartialChat, Piece, Profile, SamplingOptions } from "./engine.js";
import { makeDisposable } from "./disposable.js";
import { engineCall, freeBehind } from "./engine-call.js";
import { PteronError } from "./errors.js";
import { Generation } from "./generation.js";
import { defined } from "./options.js";

/**
 * What a text goes on from: a text, a conversation for the model's chat template, such a conversation with the beginning of the
 * answer (`partial`) that is to be gone on with, or tokens.
 */
export type Prompt = string | readonly Readonly<ChatMessage>[] | Readonly<PartialChat> | Uint32Array;

/** Every name, so that one that is misspelt is not simply without effect. */
const SAMPLING: Record<keyof SamplingOptions, true> = {
  temperature: true,
  topK: true,
  topP: true,
  minP: true,
  repetitionPenalty: true,
  presencePenalty: true,
  frequencyPenalty: true,
  seed: true,
  logitBias: true,
  logprobs: true,
  maxTokens: true,
  stopStrings: true,
  stopTokens: true,
  ignoreEnd: true,
};

/** Options as the engine takes them. */
function samplingOf(options: SamplingOptions): SamplingOptions {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(SAMPLING, name));
  if (unknown === undefined) return defined(options);
  throw new PteronError("input", `there is no option ${unknown}; there are signal, ${Object.keys(SAMPLING).join(", ")}`);
}

/** A prompt that the caller may change without an effect. */
function copyOf(prompt: Prompt): string | ChatMessage[] | PartialChat | Uint32Array {
  if (typeof prompt === "string") return prompt;
  if (prompt instanceof Uint32Array) return prompt.slice();
  if ("messages" in prompt) return { messages: copyMessages(prompt.messages), partial: prompt.partial };
  return copyMessages(prompt);
}

function copyMessages(messages: readonly Readonly<ChatMessage>[]): ChatMessage[] {
  return messages.map((message) => ({ ...message }));
}

/** How a text is written. */
export interface GenerateOptions extends SamplingOptions {
  /** Calls it off: iterator and result reject with the signal's reason, at once. */
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

  /**
   * Goes on from a prompt. Only one generation of a session runs at a time; one that was called off still counts until the step
   * that it was at is done, which `await generation.stop()` waits for.
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    this.#free();
    this.#tokens = this.tokens;
    const { signal, ...others } = options;
    const sampling = samplingOf(others);
    const given = copyOf(prompt);
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
    await freeBehind(this.#llm);
    this.#closed(this);
  }

  static {
    makeDisposable(this);
  }
}

export interface Session extends AsyncDisposable {}

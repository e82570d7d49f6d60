/// <reference lib="esnext.disposable" preserve="true" />
import type { ChatMessage, LlmSession, PartialChat, GeneratedToken, Profile, SamplingOptions } from "./engine.js";
import { makeDisposable } from "./disposable.js";
import { engineCall, freeAfterCalls } from "./engine-call.js";
import { PteronError } from "./errors.js";
import { Generation } from "./generation.js";
import { defined } from "./options.js";

/**
 * A prompt: a text, a conversation for the model's chat template, a conversation with the start of a reply to continue
 * (`partial`), or tokens.
 */
export type Prompt = string | readonly Readonly<ChatMessage>[] | Readonly<PartialChat> | Uint32Array;

/** Every option name, so that a misspelt one is an error. */
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
  ignoreEos: true,
};

/** Options as the engine takes them. */
function samplingOf({ ignoreEnd, ...options }: Omit<GenerateOptions, "signal">): SamplingOptions {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(SAMPLING, name));
  if (unknown === undefined) return defined({ ...options, ignoreEos: options.ignoreEos ?? ignoreEnd });
  throw new PteronError("input", `there is no option ${unknown}; there are signal, ${Object.keys(SAMPLING).join(", ")}`);
}

/** Copies a prompt, so that the caller may change it afterwards. */
function copyOf(prompt: Prompt): string | ChatMessage[] | PartialChat | Uint32Array {
  if (typeof prompt === "string") return prompt;
  if (prompt instanceof Uint32Array) return prompt.slice();
  if ("messages" in prompt) return { messages: copyMessages(prompt.messages), partial: prompt.partial };
  return copyMessages(prompt);
}

function copyMessages(messages: readonly Readonly<ChatMessage>[]): ChatMessage[] {
  return messages.map((message) => ({ ...message }));
}

/** Options of {@link Session.generate}. */
export interface GenerateOptions extends SamplingOptions {
  /** @deprecated Use `ignoreEos`. */
  ignoreEnd?: boolean;
  /** Aborts the generation: iterator and result reject with the signal's reason at once. */
  signal?: AbortSignal;
}

/** A conversation with its own KV cache. A prompt that shares a prefix with the cache prefills only the rest. */
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

  /** The number of tokens in the KV cache; during a generation, the number before it. */
  get tokens(): number {
    if (!this.#work && !this.#disposed) this.#tokens = engineCall(() => this.#llm.tokens()).length;
    return this.#tokens;
  }

  /**
   * Generates text after a prompt. A session runs one generation at a time; an aborted one stays in flight until its current step
   * ends, which `await generation.stop()` waits for.
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    this.#free();
    this.#tokens = this.tokens;
    const { signal, ...others } = options;
    const sampling = samplingOf(others);
    const given = copyOf(prompt);
    const run = (onToken: (token: GeneratedToken) => Promise<boolean>) => engineCall(() => this.#llm.generate(given, sampling, onToken));
    const generation = new Generation((onToken) => this.#track(run(onToken)), signal);
    if (this.#work) this.#generation = generation;
    return generation;
  }

  /** Profiles one decode step, kernel by kernel. */
  profile(): Promise<Profile> {
    this.#free();
    return this.#track(engineCall(() => this.#llm.profile()));
  }

  /** Clears the conversation. */
  reset(): void {
    this.#free();
    engineCall(() => this.#llm.reset());
  }

  /** Throws if the session is closed or busy: the engine's session is lent to the call that uses it. */
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

  /** Stops a running generation and frees the KV cache. Resolves when that is done. */
  dispose(): Promise<void> {
    return (this.#disposed ??= this.#close());
  }

  async #close(): Promise<void> {
    await this.#generation?.stop();
    await this.#work?.catch(() => {});
    await freeAfterCalls(this.#llm);
    this.#closed(this);
  }

  static {
    makeDisposable(this);
  }
}

export interface Session extends AsyncDisposable {}

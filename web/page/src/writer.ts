// Generates replies: calls the engine, streams its tokens and stores the conversation.

import type { GenerateResult } from "pteron";
import { Chat } from "./chat.js";
import { newTurn, promptFor, restore, save, tokensPerSecond, type Answer, type Stats } from "./conversation.js";
import { announce, byId } from "./dom.js";
import * as format from "./format.js";
import type { Host } from "./host.js";
import type { ModelFacts } from "./protocol.js";
import { ABORTED, CRASHED, CallError } from "./rpc.js";
import { optionsOf, type Sampling } from "./settings.js";
import { openStore } from "./storage.js";

export interface WriterContext {
  host: Host;
  /** The model to generate with; null while there is none. */
  facts(): ModelFacts | null;
  sampling(): Sampling;
  system(): string;
  /** Called when a reply starts or ends. */
  onChange(): void;
  notify(sentence: string): void;
  suggest(text: string): void;
}

const SAVE_MILLISECONDS = 500;

export class Writer {
  #context: WriterContext;
  /** The storage of this tab: it outlives reloads and killed tabs, and is not shared between tabs. */
  #store = openStore("sessionStorage");
  #turns = restore(this.#store);
  #chat: Chat;
  #running: AbortController | null = null;
  #saved = 0;
  #status = byId("status", "p");

  constructor(context: WriterContext) {
    this.#context = context;
    this.#chat = new Chat({ regenerate: () => this.#regenerate(), goOn: () => this.#goOn(), suggest: context.suggest });
    addEventListener("pagehide", () => this.#save());
    document.addEventListener("visibilitychange", () => this.#save());
  }

  get isWriting(): boolean {
    return this.#running !== null;
  }

  /** A stop was requested and has not taken effect yet. */
  get isStopping(): boolean {
    return this.#running?.signal.aborted ?? false;
  }

  get isEmpty(): boolean {
    return this.#turns.length === 0;
  }

  show(): void {
    this.#chat.show(this.#turns, this.#context.facts() !== null && !this.isWriting);
  }

  welcome(content: Parameters<Chat["welcome"]>[0]): void {
    this.#chat.welcome(content);
  }

  send(prompt: string): void {
    const facts = this.#context.facts();
    if (!facts || this.isWriting) return;
    this.#turns.push(newTurn(facts.chat ? "chat" : "text", prompt));
    void this.#write();
  }

  stop(): void {
    if (!this.#running || this.isStopping) return;
    this.#running.abort();
    this.#status.textContent = "Stopping…";
    this.#context.onChange();
  }

  clear(): void {
    const facts = this.#context.facts();
    this.#running?.abort();
    this.#turns = [];
    this.#running = null;
    if (facts) this.showMemory(facts);
    else this.#status.hidden = true;
    this.#save();
    this.#context.onChange();
  }

  /** Shows the model's memory, while nothing has been generated yet. */
  showMemory(facts: ModelFacts): void {
    this.#showStatus([], facts);
  }

  #regenerate(): void {
    const last = this.#turns.at(-1);
    if (!last || this.isWriting || !this.#context.facts()) return;
    this.#turns[this.#turns.length - 1] = newTurn(last.style, last.prompt);
    void this.#write();
  }

  #goOn(): void {
    const last = this.#turns.at(-1);
    if (!last || this.isWriting || !this.#context.facts()) return;
    last.answer.state = "writing";
    void this.#write();
  }

  async #write(): Promise<void> {
    const turn = this.#turns.at(-1)!;
    const { answer } = turn;
    const { host, sampling, system } = this.#context;
    const before = answer.tokens.length;
    const controller = new AbortController();
    const clock = new Clock();
    this.#running = controller;
    this.#context.onChange();
    this.#chat.toEnd();
    const onNote = ({ token, text }: { token: number; text: string }) => {
      if (this.#running !== controller) return;
      answer.tokens.push(token);
      answer.text += text;
      clock.tick();
      this.#chat.grow();
      if (!this.isStopping) this.#showStatus(clock.line(answer.tokens.length - before), this.#context.facts());
      this.#saveSoon();
    };
    const args = { prompt: promptFor(this.#turns, system()), options: optionsOf(sampling()) };
    const outcome = await host.call("generate", args, { signal: controller.signal, onNote }).catch((error: CallError) => error);
    // A conversation that was cleared meanwhile has ended this reply already.
    if (this.#running !== controller) return;
    this.#running = null;
    if (outcome instanceof CallError) this.#fail(answer, outcome);
    else this.#finish(answer, outcome.result, clock, before, outcome.wasmBytes);
    announceAnswer(answer);
    this.#save();
    this.#context.onChange();
  }

  #finish(answer: Answer, result: GenerateResult, clock: Clock, before: number, wasmBytes: number): void {
    answer.state = result.finish;
    const written = answer.tokens.length - before;
    answer.stats = { tokens: written, firstSeconds: clock.firstSeconds, tokensPerSecond: tokensPerSecond(written, result.decodeSeconds) };
    const facts = this.#context.facts();
    if (facts) facts.wasmBytes = wasmBytes;
    this.#showStatus(statsLine(answer.stats), facts);
    const dropped = result.droppedMessages;
    if (dropped > 0) {
      const oldest = dropped === 1 ? "its oldest message was" : `its ${dropped} oldest messages were`;
      this.#context.notify(`The conversation is longer than the model's context: ${oldest} left out.`);
    }
  }

  #fail(answer: Answer, error: CallError): void {
    const facts = this.#context.facts();
    if (facts) this.showMemory(facts);
    if (error.code === ABORTED) {
      answer.state = "stopped";
    } else if (error.code === CRASHED) {
      answer.state = "interrupted";
    } else {
      answer.state = "failed";
      answer.problem = error.message;
    }
  }

  #showStatus(parts: readonly string[], facts: ModelFacts | null): void {
    const memory = facts ? [`GPU ${format.bytes(facts.gpuBytes)}`, `wasm ${format.bytes(facts.wasmBytes)}`] : [];
    this.#status.textContent = [...parts, ...memory].join(format.DOT);
    this.#status.hidden = false;
  }

  #saveSoon(): void {
    if (performance.now() - this.#saved > SAVE_MILLISECONDS) this.#save();
  }

  #save(): void {
    this.#saved = performance.now();
    save(this.#store, this.#turns);
  }
}

function statsLine({ tokens, firstSeconds, tokensPerSecond }: Stats): string[] {
  const parts = [format.count(tokens, "token"), `first after ${format.seconds(firstSeconds)}`];
  return tokensPerSecond === null ? parts : [format.rate(tokensPerSecond), ...parts];
}

function announceAnswer({ state, text, problem }: Answer): void {
  // The cause of the interruption is announced instead.
  if (state === "interrupted") return;
  announce(state === "failed" ? (problem ?? "") : (state === "stopped" ? "Stopped. " : "") + text);
}

/** Measures a reply as the page sees it, the first token separately from the rest. */
class Clock {
  #begin = performance.now();
  #first = 0;
  #last = 0;

  tick(): void {
    this.#last = performance.now();
    this.#first ||= this.#last;
  }

  get firstSeconds(): number {
    return Math.max(0, this.#first - this.#begin) / 1000;
  }

  line(tokens: number): string[] {
    return statsLine({ tokens, firstSeconds: this.firstSeconds, tokensPerSecond: tokensPerSecond(tokens, (this.#last - this.#first) / 1000) });
  }
}

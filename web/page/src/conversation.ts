// The conversation, and how it is stored across reloads.

import type { GenerateResult } from "pteron";
import type { Message, Prompt } from "./protocol.js";
import type { Store } from "./storage.js";

export interface Stats {
  tokens: number;
  /** Time to first token. */
  firstSeconds: number;
  /** Null if there were too few tokens to measure. */
  tokensPerSecond: number | null;
}

/** Prefill yields the first token, so decode speed counts from there. */
export function tokensPerSecond(tokens: number, secondsAfterFirst: number): number | null {
  return tokens > 1 && secondsAfterFirst > 0 ? (tokens - 1) / secondsAfterFirst : null;
}

export type AnswerState = "writing" | "interrupted" | "failed" | GenerateResult["finish"];

export interface Answer {
  text: string;
  tokens: number[];
  state: AnswerState;
  /** The engine's error message. */
  problem?: string;
  stats?: Stats;
}

/** A prompt and its reply. A "text" turn is one text: the reply continues directly after the prompt. */
export interface Turn {
  style: "chat" | "text";
  prompt: string;
  answer: Answer;
}

export function newTurn(style: Turn["style"], prompt: string): Turn {
  return { style, prompt, answer: { text: "", tokens: [], state: "writing" } };
}

/** Whether a reply can be continued where it ended. */
export function canContinue({ state, text }: Answer): boolean {
  return state === "interrupted" || ((state === "stopped" || state === "max-tokens") && text !== "");
}

/** The prompt for the last of `turns`; the model continues its reply so far. */
export function promptFor(turns: readonly Turn[], system: string): Prompt {
  const last = turns.at(-1);
  if (!last) throw new Error("an empty conversation asks nothing");
  if (last.style === "text") return { style: "text", text: last.prompt + last.answer.text };
  const messages: Message[] = system.trim() ? [{ role: "system", content: system }] : [];
  for (const turn of turns.slice(0, -1)) {
    // A question without a reply would be followed by another question, which templates reject.
    if (!turn.answer.text) continue;
    messages.push({ role: "user", content: turn.prompt }, { role: "assistant", content: turn.answer.text });
  }
  messages.push({ role: "user", content: last.prompt });
  return { style: "chat", messages, partial: last.answer.text };
}

const KEY = "pteron.conversation.1";

export function save(store: Store, turns: readonly Turn[]): void {
  try {
    if (turns.length === 0) store.removeItem(KEY);
    else store.setItem(KEY, JSON.stringify(turns));
  } catch {
    // Storage is full or denied: the conversation lasts as long as the page.
  }
}

export function restore(store: Store): Turn[] {
  try {
    const parsed: unknown = JSON.parse(store.getItem(KEY) ?? "[]");
    return Array.isArray(parsed) && parsed.every(isTurn) ? parsed.map(interrupted) : [];
  } catch {
    return [];
  }
}

/** Marks a reply that was being generated when the page closed as interrupted. */
function interrupted(turn: Turn): Turn {
  return turn.answer.state === "writing" ? { ...turn, answer: { ...turn.answer, state: "interrupted" } } : turn;
}

function isTurn(value: unknown): value is Turn {
  const turn = value as Partial<Turn> | null;
  const answer = turn?.answer as Partial<Answer> | null | undefined;
  return (
    (turn?.style === "chat" || turn?.style === "text") &&
    typeof turn.prompt === "string" &&
    typeof answer?.text === "string" &&
    typeof answer.state === "string" &&
    Array.isArray(answer.tokens)
  );
}

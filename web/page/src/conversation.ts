// What was said, and how it is kept over reloads.

import type { GenerateResult } from "pteron";
import type { Message, Prompt } from "./protocol.js";
import type { Store } from "./storage.js";

export interface Stats {
  tokens: number;
  /** Until the first token. */
  firstSeconds: number;
  /** Null where there were too few tokens to tell. */
  tokensPerSecond: number | null;
}

/** The first token comes with the prompt; the clock of those behind it starts there. */
export function tokensPerSecond(tokens: number, secondsBehindFirst: number): number | null {
  return tokens > 1 && secondsBehindFirst > 0 ? (tokens - 1) / secondsBehindFirst : null;
}

export type AnswerState = "writing" | "interrupted" | "failed" | GenerateResult["finish"];

export interface Answer {
  text: string;
  tokens: number[];
  state: AnswerState;
  /** Why it failed, in the engine's words. */
  problem?: string;
  stats?: Stats;
}

/** A prompt and what came of it. A "text" turn is one text: the answer goes on directly behind the prompt. */
export interface Turn {
  style: "chat" | "text";
  prompt: string;
  answer: Answer;
}

export function newTurn(style: Turn["style"], prompt: string): Turn {
  return { style, prompt, answer: { text: "", tokens: [], state: "writing" } };
}

/** An answer that can be taken up again where it ended. */
export function canContinue({ state, text }: Answer): boolean {
  return state === "interrupted" || ((state === "stopped" || state === "max-tokens") && text !== "");
}

/** What the model is asked for the last of `turns`; its answer so far is where it goes on. */
export function promptFor(turns: readonly Turn[], system: string): Prompt {
  const last = turns.at(-1);
  if (!last) throw new Error("an empty conversation asks nothing");
  if (last.style === "text") return { style: "text", text: last.prompt + last.answer.text };
  const messages: Message[] = system.trim() ? [{ role: "system", content: system }] : [];
  for (const turn of turns.slice(0, -1)) {
    // A question that got no answer would stand beside the next one, which templates refuse.
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
    // Full or forbidden: the conversation lives on in the page and is not kept beyond it.
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

/** What was being written when the page went away is not being written now. */
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

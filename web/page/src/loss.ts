// When the engine is of no more use, and how the page says so.

import type { CallName } from "./protocol.js";

export interface Loss {
  /** A whole sentence. */
  what: string;
  /** The browser's or the engine's own words. */
  words: string;
}

export const GPU_LOST = "The GPU was lost.";
export const ENGINE_STOPPED = "The engine stopped.";

/** Failures behind which nothing can be trusted: the device is gone, or the WebAssembly module ended in the middle of its work. */
const ALWAYS: Readonly<Record<string, string>> = { "device-lost": GPU_LOST, internal: ENGINE_STOPPED };
/** Those that end a model which is running. A load can fail like this and leave the model beside it whole. */
const RUNNING: Readonly<Record<string, string>> = { ...ALWAYS, device: "The GPU failed.", "out-of-memory": "The GPU ran out of memory." };

const FATAL: Partial<Record<CallName, Readonly<Record<string, string>>>> = { support: ALWAYS, inspect: ALWAYS, load: ALWAYS, generate: RUNNING, profile: RUNNING };

/** What a failed call means for the engine; null where it can go on. */
export function lossOf(call: CallName, { code, message }: { code: string; message: string }): Loss | null {
  const what = FATAL[call]?.[code];
  return what === undefined ? null : { what, words: message };
}

/** The page's own sentences come first, and what the browser said behind them. */
export function lossText({ what, words }: Loss, then = ""): string {
  return [what, then, words && `(${words})`].filter(Boolean).join(" ");
}

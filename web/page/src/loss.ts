// Errors that the engine does not survive, and the page's messages for them.

import type { CallName } from "./protocol.js";

export interface Loss {
  /** A whole sentence. */
  what: string;
  /** The browser's or the engine's message. */
  words: string;
}

export const GPU_LOST = "The GPU was lost.";
export const ENGINE_STOPPED = "The engine stopped.";

/** Errors after which the engine cannot be trusted: the device is lost, or the WebAssembly module trapped. */
const ALWAYS: Readonly<Record<string, string>> = { "device-lost": GPU_LOST, internal: ENGINE_STOPPED };
/** Errors that end a running model. A load can fail like this and leave the loaded model intact. */
const RUNNING: Readonly<Record<string, string>> = { ...ALWAYS, device: "The GPU failed.", "out-of-memory": "The GPU ran out of memory." };

const FATAL: Partial<Record<CallName, Readonly<Record<string, string>>>> = { support: ALWAYS, inspect: ALWAYS, load: ALWAYS, generate: RUNNING, profile: RUNNING };

/** Classifies the error of a call; null if the engine can continue. */
export function lossOf(call: CallName, { code, message }: { code: string; message: string }): Loss | null {
  const what = FATAL[call]?.[code];
  return what === undefined ? null : { what, words: message };
}

/** The page's message, followed by the browser's. */
export function lossText({ what, words }: Loss, then = ""): string {
  return [what, then, words && `(${words})`].filter(Boolean).join(" ");
}

import start, { DataHead, Gpu, Head, Llm, Loader } from "pteron-web";

import type * as border from "./engine.js";
import { listenForTraps } from "./engine-call.js";
import { PteronError } from "./errors.js";

/** Options of {@link init}. */
export interface InitOptions {
  /** The URL of the WebAssembly module, or the module itself. Default: `pteron.wasm` beside this package's JavaScript. */
  wasm?: string | URL | Response | BufferSource | WebAssembly.Module;
}

let started: Promise<border.Engine> | undefined;
let memory: WebAssembly.Memory | undefined;

async function load(wasm: InitOptions["wasm"]): Promise<border.Engine> {
  try {
    ({ memory } = await start({ module_or_path: wasm ?? new URL("pteron.wasm", import.meta.url) }));
  } catch (cause) {
    const place = typeof wasm === "string" || wasm instanceof URL ? ` from ${String(wasm)}` : "";
    throw new PteronError("internal", `the WebAssembly module could not be loaded${place}: ${String(cause)}`, { cause });
  }
  listenForTraps();
  return { Gpu, Head, DataHead, Loader, Llm };
}

/** Loads the engine once. A failure is not remembered, so a later call tries again. */
export function engine(wasm?: InitOptions["wasm"]): Promise<border.Engine> {
  if (!started) {
    started = load(wasm);
    started.catch(() => (started = undefined));
  }
  return started;
}

/**
 * Loads the WebAssembly module. Other functions load it on demand; call this to load it early or to set its URL.
 * Only the first call has an effect.
 */
export async function init(options: InitOptions = {}): Promise<void> {
  await engine(options.wasm);
}

/** Bytes of memory allocated by the WebAssembly module, which never shrinks. Weights are not included: they are on the GPU. */
export function wasmBytes(): number {
  return memory?.buffer.byteLength ?? 0;
}

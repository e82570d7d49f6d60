import type { AdapterSummary, Gpu } from "./engine.js";
import { engineCall, PteronError } from "./errors.js";
import { engine } from "./wasm.js";

/** What is known about the GPU that models run on. */
export interface AdapterInfo extends Readonly<AdapterSummary> {}

/** How a device was lost. */
export interface DeviceLost {
  /** The browser's words. */
  reason: string;
}

let shared: Promise<Gpu> | undefined;

async function open(): Promise<Gpu> {
  const { Gpu } = await engine();
  return engineCall(() => Gpu.open());
}

/** The GPU that all models of this page share. One that was lost is opened anew. */
export function sharedGpu(): Promise<Gpu> {
  if (!shared) {
    const opening = open();
    const forget = () => {
      if (shared === opening) shared = undefined;
    };
    shared = opening;
    opening.then((gpu) => gpu.lost()).then(forget, forget);
  }
  return shared;
}

/** Gives the GPU back: every model on it is lost. The next `Model.load` opens it anew. */
export async function release(): Promise<void> {
  const opening = shared;
  shared = undefined;
  (await opening?.catch(() => undefined))?.destroy();
}

/** Whether models run here, on what, or why not. */
export type Support = { supported: true; adapter: AdapterInfo } | { supported: false; reason: string };

/** Says whether this browser has a GPU for models. Opens it, so that a `Model.load` behind it is quicker. */
export async function support(): Promise<Support> {
  try {
    const adapter = (await sharedGpu()).summary();
    return { supported: true, adapter: { ...adapter, name: adapter.name || (await adapterName()) } };
  } catch (error) {
    // A module that does not load says nothing about the browser.
    if (!(error instanceof PteronError) || error.code === "internal") throw error;
    return { supported: false, reason: error.message };
  }
}

/** What browsers tell of a GPU that they do not describe: "apple metal-3", "google swiftshader". */
async function adapterName(): Promise<string> {
  const adapter = await (navigator as WithGpu).gpu?.requestAdapter();
  const { vendor = "", architecture = "", device = "" } = adapter?.info ?? {};
  return [vendor, architecture, device].filter(Boolean).join(" ");
}

interface WithGpu {
  gpu?: { requestAdapter(): Promise<{ info?: { vendor?: string; architecture?: string; device?: string } } | null> };
}

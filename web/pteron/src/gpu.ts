import type { AdapterSummary, Gpu } from "./engine.js";
import { engineCall, freeAfterCalls } from "./engine-call.js";
import { PteronError } from "./errors.js";
import { engine } from "./wasm.js";

/** A description of the GPU that models run on. */
export interface AdapterInfo extends Readonly<AdapterSummary> {}

/** How a device was lost. */
export interface DeviceLost {
  /** The browser's message. */
  reason: string;
}

/** The GPU that models share. */
export interface OpenGpu {
  readonly adapter: AdapterInfo;
  readonly lost: Promise<DeviceLost>;
  /** The engine's device; throws once it is lost. */
  live(): Gpu;
}

let shared: Promise<OpenGpu> | undefined;

async function open(): Promise<OpenGpu> {
  const { Gpu } = await engine();
  const gpu = await engineCall(() => Gpu.open());
  const summary = engineCall(() => gpu.summary());
  const adapter = { ...summary, name: summary.name || (await adapterName()) };
  let gone: string | undefined;
  const lost = engineCall(() => gpu.lost()).then((reason) => {
    gone = reason;
    void freeAfterCalls(gpu);
    return { reason };
  });
  const live = () => {
    if (gone !== undefined) throw new PteronError("device-lost", `the GPU was lost: ${gone}`);
    return gpu;
  };
  return { adapter, lost, live };
}

/** Returns the GPU that all models of this page share. Opens it again if it was lost. */
export function sharedGpu(): Promise<OpenGpu> {
  if (!shared) {
    const opening = open();
    const forget = () => {
      if (shared === opening) shared = undefined;
    };
    shared = opening;
    opening.then(({ lost }) => lost).then(forget, forget);
  }
  return shared;
}

/** Releases the GPU. Every model on it is lost; the next `Model.load` opens the GPU again. */
export async function release(): Promise<void> {
  const opening = shared;
  shared = undefined;
  const gpu = await opening?.catch(() => undefined);
  if (!gpu) return;
  try {
    gpu.live().destroy();
  } catch {
    // It was lost before.
  }
  await gpu.lost.catch(() => {});
}

/** Whether models run in this browser, with the GPU or the reason. */
export type Support = { supported: true; adapter: AdapterInfo } | { supported: false; reason: string };

/** Reports whether this browser has a GPU for models. Opens it, so that the next `Model.load` is faster. */
export async function support(): Promise<Support> {
  try {
    return { supported: true, adapter: (await sharedGpu()).adapter };
  } catch (error) {
    // A module that fails to load is no evidence about the browser.
    if (!(error instanceof PteronError) || error.code === "internal") throw error;
    return { supported: false, reason: error.message };
  }
}

/** A name for a GPU without a description, from vendor and architecture: "apple metal-3", "google swiftshader". */
async function adapterName(): Promise<string> {
  const adapter = await (navigator as WithGpu).gpu?.requestAdapter().catch(() => null);
  const { vendor = "", architecture = "", device = "" } = adapter?.info ?? {};
  return [vendor, architecture, device].filter(Boolean).join(" ");
}

interface WithGpu {
  gpu?: { requestAdapter(): Promise<{ info?: { vendor?: string; architecture?: string; device?: string } } | null> };
}

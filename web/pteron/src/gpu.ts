import type { AdapterSummary, Gpu } from "./engine.js";
import { engineCall, freeBehind } from "./engine-call.js";
import { PteronError } from "./errors.js";
import { engine } from "./wasm.js";

/** What is known about the GPU that models run on. */
export interface AdapterInfo extends Readonly<AdapterSummary> {}

/** How a device was lost. */
export interface DeviceLost {
  /** The browser's words. */
  reason: string;
}

/** The GPU that models share, and what was asked of it while it was there. */
export interface OpenGpu {
  readonly adapter: AdapterInfo;
  readonly lost: Promise<DeviceLost>;
  /** The engine's own; throws once it is lost. */
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
    void freeBehind(gpu);
    return { reason };
  });
  const live = () => {
    if (gone !== undefined) throw new PteronError("device-lost", `the GPU was lost: ${gone}`);
    return gpu;
  };
  return { adapter, lost, live };
}

/** The GPU that all models of this page share. One that was lost is opened anew. */
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

/** Gives the GPU back: every model on it is lost. The next `Model.load` opens it anew. */
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

/** Whether models run here, on what, or why not. */
export type Support = { supported: true; adapter: AdapterInfo } | { supported: false; reason: string };

/** Says whether this browser has a GPU for models. Opens it, so that a `Model.load` behind it is quicker. */
export async function support(): Promise<Support> {
  try {
    return { supported: true, adapter: (await sharedGpu()).adapter };
  } catch (error) {
    // A module that does not load says nothing about the browser.
    if (!(error instanceof PteronError) || error.code === "internal") throw error;
    return { supported: false, reason: error.message };
  }
}

/** What browsers tell of a GPU that they do not describe: "apple metal-3", "google swiftshader". */
async function adapterName(): Promise<string> {
  const adapter = await (navigator as WithGpu).gpu?.requestAdapter().catch(() => null);
  const { vendor = "", architecture = "", device = "" } = adapter?.info ?? {};
  return [vendor, architecture, device].filter(Boolean).join(" ");
}

interface WithGpu {
  gpu?: { requestAdapter(): Promise<{ info?: { vendor?: string; architecture?: string; device?: string } } | null> };
}

/** The part of wasm-bindgen's module that this package uses. The build replaces this file with the generated one. */
import type { Engine } from "./engine.js";

export default function start(input: { module_or_path: unknown }): Promise<{ memory: WebAssembly.Memory }>;
export const Gpu: Engine["Gpu"];
export const Head: Engine["Head"];
export const DataHead: Engine["DataHead"];
export const Loader: Engine["Loader"];
export const Llm: Engine["Llm"];

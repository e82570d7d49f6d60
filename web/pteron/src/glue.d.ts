/** The module that wasm-bindgen writes, as far as this package uses it. The build puts the written one in its place. */
import type { Engine } from "./engine.js";

export default function start(input: { module_or_path: unknown }): Promise<{ memory: WebAssembly.Memory }>;
export const Gpu: Engine["Gpu"];
export const Head: Engine["Head"];
export const DataHead: Engine["DataHead"];
export const Loader: Engine["Loader"];
export const Llm: Engine["Llm"];

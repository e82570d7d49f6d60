export { type CheckOptions, type Fit } from "./check.js";
export type { ChatMessage, GenerateResult, MemoryUse, GeneratedToken, KvDtype, PartialChat, Profile, SamplingOptions, TensorSpec } from "./engine.js";
/** @deprecated Use `GeneratedToken`. */
export type { GeneratedToken as Piece } from "./engine.js";
export { type ErrorCode, PteronError } from "./errors.js";
export { formatBytes } from "./format.js";
export { type FileDigests, IntegrityError, type Manifest } from "./integrity.js";
export { Generation } from "./generation.js";
export { type AdapterInfo, type DeviceLost, release, support, type Support } from "./gpu.js";
export { type LoadOptions, Model, type ModelInfo, State } from "./model.js";
export type { FetchOptions } from "./open.js";
export type { MethodOptions } from "./options.js";
export type { Phase, Progress } from "./progress.js";
export { type GenerateOptions, type Prompt, Session } from "./session.js";
export type { SideFiles } from "./side-files.js";
export type { Source } from "./source.js";
export { cache, type CachedFile } from "./store.js";
export type { DType, Tensor, TensorData } from "./tensor.js";
export { init, type InitOptions, wasmBytes } from "./wasm.js";

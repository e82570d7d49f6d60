import type { DType } from "./tensor.js";

/**
 * The interface between this package and the engine. The module that wasm-bindgen generates implements it, and so does the fake
 * engine of the tests. Nothing here is public unless `index.ts` exports it.
 */

export interface Freed {
  free(): void;
}

export interface AdapterSummary {
  name: string;
  driver: string;
  backend: string;
  kind: string;
  software: boolean;
  features: string[];
  maxBufferSize: number;
  maxBindingSize: number;
}

export interface Gpu extends Freed {
  summary(): AdapterSummary;
  lost(): Promise<string>;
  destroy(): void;
}

export interface TensorSpec {
  dtype: DType;
  shape: number[];
  dynamic: boolean;
}

export interface HeadInfo {
  methods: { name: string; inputs: TensorSpec[]; outputs: TensorSpec[] }[];
  languageModel: { method: string; contextLength?: number; maxPrefill?: number; vocabSize?: number } | null;
  externalKeys: string[];
  bytes: number;
}

/** The tables of a file: `needs` returns the next byte range to fetch, `supply` takes the bytes. */
export interface DataHead extends Freed {
  needs(): Float64Array;
  supply(start: number, bytes: Uint8Array): void;
}

export interface Head extends DataHead {
  attach(data: DataHead): void;
  info(): HeadInfo;
}

export interface MemoryUse {
  constants: number;
  activations: number;
  other: number;
  state: number;
  total: number;
  largest: number;
}

export interface CorruptConstant {
  key: string;
  file: number;
  start: number;
  length: number;
}

/** The element type of a KV cache; `"auto"` is `"f16"` where the GPU has it. */
export type KvDtype = "auto" | "f16" | "f32";

export interface LoaderOptions {
  method?: string;
  languageModel?: boolean;
  maxPrefill?: number;
  memoryBudget?: number;
  kvDtype?: KvDtype;
  exact?: boolean;
}

export interface Loader extends Freed {
  benchmark(seconds: number): Promise<{ tokensPerSecond: number; steps: number }>;
  needs(): Float64Array;
  /** The ranges of constants that no checksum in the program covers. */
  unchecked(): Float64Array;
  write(file: number, start: number, bytes: Uint8Array): void;
  /** Constants that did not match their checksums since the last call. */
  takeCorrupt(): CorruptConstant[];
  waitIdle(): Promise<void>;
  finish(): Promise<Method>;
}

export interface RawTensor {
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

export interface Profile {
  timing: "inside-pass" | "pass-each";
  dispatches: { operator: string; kernel: string; microseconds: number; bytes: number }[];
}

export interface Method extends Freed {
  inputs(): TensorSpec[];
  outputs(): TensorSpec[];
  memory(): MemoryUse;
  newState(): Freed;
  call(state: Freed, inputs: RawTensor[]): Promise<RawTensor[]>;
  profile(state: Freed, inputs: RawTensor[]): Promise<{ outputs: RawTensor[]; profile: Profile }>;
}

export interface ChatMessage {
  role: string;
  content: string;
}

/** A conversation and the start of a reply to continue. */
export interface PartialChat {
  messages: ChatMessage[];
  partial: string;
}

export interface SamplingOptions {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  seed?: number;
  logitBias?: [number, number][];
  logprobs?: number;
  maxTokens?: number;
  stopStrings?: string[];
  stopTokens?: number[];
  /** Continues after an end-of-sequence token. */
  ignoreEos?: boolean;
}

/** A generated token and the text it completes. */
export interface GeneratedToken {
  token: number;
  text: string;
  logprob?: number;
  top?: [number, number][];
}

export interface GenerateResult {
  finish: "stop-token" | "stop-string" | "max-tokens" | "context-full" | "stopped";
  tokens: number[];
  promptTokens: number;
  reusedTokens: number;
  droppedMessages: number;
  prefillSeconds: number;
  decodeSeconds: number;
}

export interface LlmInfo {
  contextLength: number;
  maxPrefill: number;
  vocabSize: number;
  bosId: number | null;
  eosIds: number[];
  chat: boolean;
  memory: MemoryUse;
}

export interface LlmSession extends Freed {
  tokens(): Uint32Array;
  generate(
    prompt: string | ChatMessage[] | PartialChat | Uint32Array,
    options: SamplingOptions,
    onToken: (piece: GeneratedToken) => Promise<boolean> | boolean,
  ): Promise<GenerateResult>;
  profile(): Promise<Profile>;
  reset(): void;
}

export interface Llm extends Freed {
  info(): LlmInfo;
  encode(text: string, special: boolean): Uint32Array;
  decode(ids: Uint32Array): string;
  render(messages: ChatMessage[]): string;
  session(): LlmSession;
}

export interface LlmFiles {
  sidecar?: string;
  tokenizerConfig?: string;
  template?: string;
}

export interface Engine {
  Gpu: { open(): Promise<Gpu> };
  Head: new (length: number) => Head;
  DataHead: new (length: number) => DataHead;
  Loader: {
    open(gpu: Gpu, head: Head, options: LoaderOptions): Promise<Loader>;
    /** Computes the memory that loading would use; allocates nothing. */
    plan(gpu: Gpu, head: Head, options: LoaderOptions): MemoryUse;
  };
  Llm: new (method: Method, head: Head, tokenizer: Uint8Array, files: LlmFiles) => Llm;
}

// The messages between the page and its worker: one union of requests, one of events.

import type { CachedFile, Fit, GenerateOptions, GenerateResult, Progress, Support } from "pteron";
import type { ModelSource } from "./source.js";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** The prompt of a generation. `partial` is the start of an interrupted reply. */
export type Prompt = { style: "text"; text: string } | { style: "chat"; messages: Message[]; partial: string };

export interface ModelFacts {
  name: string;
  chat: boolean;
  contextLength: number;
  vocabSize: number;
  fileBytes: number;
  gpuBytes: number;
  /** Labelled parts of `gpuBytes`. */
  memory: { label: string; bytes: number }[];
  wasmBytes: number;
}

/** A file cached on this device, completely or in part. */
export type Cached = CachedFile;

export interface Inspection {
  cached: Cached | null;
  /** Null if the whole file is cached: then the user need not be asked. */
  fit: Fit | null;
}

export interface TokenNote {
  token: number;
  text: string;
}

export interface GenerateReply {
  result: GenerateResult;
  wasmBytes: number;
}

export interface KernelTime {
  kernel: string;
  operators: string[];
  microseconds: number;
  count: number;
}

export interface ProfileReport {
  steps: number;
  timing: "inside-pass" | "pass-each";
  totalMicroseconds: number;
  kernels: KernelTime[];
}

/** Each call: its arguments, its result and its progress events. */
export interface Calls {
  support: { args: null; result: Support; note: never };
  inspect: { args: { source: ModelSource }; result: Inspection; note: never };
  load: { args: { source: ModelSource }; result: ModelFacts; note: Progress };
  generate: { args: { prompt: Prompt; options: GenerateOptions }; result: GenerateReply; note: TokenNote };
  profile: { args: { steps: number }; result: ProfileReport; note: never };
  cached: { args: null; result: Cached[]; note: never };
  forget: { args: { url: string }; result: null; note: never };
}

export type CallName = keyof Calls;

export type Request =
  | { [K in CallName]: { kind: K; id: number; args: Calls[K]["args"] } }[CallName]
  | { kind: "abort"; id: number };

export interface Failure {
  message: string;
  code: string;
  /** Whether the previously loaded model had to be freed. */
  modelGone?: boolean;
}

export type Event =
  | { [K in CallName]: { kind: "done"; call: K; id: number; result: Calls[K]["result"] } }[CallName]
  | { [K in CallName]: { kind: "note"; call: K; id: number; note: Calls[K]["note"] } }[CallName]
  | { kind: "failed"; id: number; failure: Failure }
  | { kind: "lost"; reason: string };

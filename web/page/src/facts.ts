// The description of a model on the page.

import { wasmBytes, type Model } from "pteron";
import type { ModelFacts } from "./protocol.js";
import type { ModelSource } from "./source.js";

export function factsOf(source: ModelSource, { info }: Model): ModelFacts {
  const { memory, languageModel } = info;
  const parts: [string, number][] = [
    ["weights", memory.constants],
    ["activations", memory.activations],
    ["KV cache and state", memory.state],
    ["other", memory.other],
  ];
  return {
    name: source.name,
    chat: languageModel?.chat ?? false,
    contextLength: languageModel?.contextLength ?? 0,
    vocabSize: languageModel?.vocabSize ?? 0,
    fileBytes: info.bytes,
    gpuBytes: memory.total,
    memory: parts.map(([label, bytes]) => ({ label, bytes })),
    wasmBytes: wasmBytes(),
  };
}

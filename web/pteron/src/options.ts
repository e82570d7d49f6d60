import type { HeadInfo, KvDtype, LoaderOptions } from "./engine.js";

/** Selects a method of a program and how to plan it. */
export interface MethodOptions {
  /** The method's name. Default: the language model's, else `forward`. */
  method?: string;
  /** The longest prefill of one call, in tokens. Smaller values need less memory. */
  maxPrefill?: number;
  /** The most GPU memory to use, in bytes. */
  memoryBudget?: number;
  /** The element type of KV caches: `f16` takes half the memory and is a little less exact. Default: `f16` for models that write text, where the GPU has it. */
  kvDtype?: KvDtype;
  /** @deprecated Use `kvDtype: "f16"`. */
  halfCache?: boolean;
  /** Computes as the export did, in 32 bits and operator by operator: slower, for comparisons. */
  exact?: boolean;
}

/** Converts options to those of the engine. */
export function loaderOptions(info: HeadInfo, options: MethodOptions, writesText: boolean): LoaderOptions {
  const { maxPrefill, memoryBudget, exact } = options;
  const kvDtype = options.kvDtype ?? (options.halfCache ? "f16" : undefined);
  const method = options.method ?? info.languageModel?.method;
  return defined({ method, maxPrefill, memoryBudget, kvDtype, exact, languageModel: writesText });
}

/** Drops options that are undefined: the engine would reject them as values of a wrong type. */
export function defined<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

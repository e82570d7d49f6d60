import type { HeadInfo, LoaderOptions } from "./engine.js";

/** Which method of a program is meant, and how it is planned. */
export interface MethodOptions {
  /** The method's name. Default: the language model's, else `forward`. */
  method?: string;
  /** The most tokens that are read at once; fewer need less memory. */
  maxPrefill?: number;
  /** Bytes of GPU memory that the plan may use. */
  memoryBudget?: number;
  /** Keeps KV caches in 16 bits: half the memory, a little less exact. */
  halfCache?: boolean;
  /** Computes as the export did, in 32 bits and operator by operator: slower, for comparisons. */
  exact?: boolean;
}

/** What the engine is asked for. */
export function loaderOptions(info: HeadInfo, options: MethodOptions, writesText: boolean): LoaderOptions {
  const { maxPrefill, memoryBudget, halfCache, exact } = options;
  const method = options.method ?? info.languageModel?.method;
  return defined({ method, maxPrefill, memoryBudget, halfCache, exact, chooseTokens: writesText });
}

/** Options without those that are undefined: the engine takes these for values of a wrong type. */
export function defined<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

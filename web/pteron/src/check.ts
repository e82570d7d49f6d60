import { untilAborted } from "./abort.js";
import type { Engine, Gpu, Head, HeadInfo, LoaderOptions } from "./engine.js";
import { engineCall, engineWait, freeAfterCalls } from "./engine-call.js";
import { PteronError } from "./errors.js";
import { formatBytes } from "./format.js";
import { sharedGpu } from "./gpu.js";
import { openLoader, type OpenProgram, withProgram } from "./load.js";
import type { FetchOptions } from "./open.js";
import { loaderOptions, type MethodOptions } from "./options.js";
import { openDigests } from "./pins.js";
import type { Source } from "./source.js";
import { engine } from "./wasm.js";

/** Options of {@link Model.check}. */
export interface CheckOptions extends FetchOptions, MethodOptions {
  /** External weights (`.ptd`) in the order of the export. */
  data?: readonly Source[];
  /**
   * Allocates the buffers and benchmarks decode on empty weights for a second. Default: true. With `false`, only the memory plan
   * is computed.
   */
  benchmark?: boolean;
  /** @deprecated Use `benchmark`. */
  rehearse?: boolean;
}

/** Whether a model fits, before it is downloaded. */
export interface Fit {
  fits: boolean;
  /** `needs 812 MB, this GPU allows 1 GB buffers: fits, about 31 tokens/s`. */
  sentence: string;
  /** Bytes still to be downloaded. */
  downloadBytes: number;
  /** Bytes already on this machine. */
  cachedBytes: number;
  /** GPU memory in bytes; null if the program cannot run. */
  memoryBytes: number | null;
  /** The largest single buffer in bytes; null if unknown. */
  largestBufferBytes: number | null;
  /** The largest buffer that the GPU allows; null without a GPU. */
  maxBufferBytes: number | null;
  /** Decode speed of the benchmark on empty weights; null without one. */
  tokensPerSecond: number | null;
}

/** How long the benchmark runs. */
const BENCHMARK_SECONDS = 1;

/** Error codes that mean the program cannot run here. Other errors are thrown. */
const UNFIT = new Set(["no-webgpu", "unsupported", "out-of-memory"]);

/** Summarises a fit in one sentence. */
export function sentenceOf(fit: Omit<Fit, "sentence">, refusal: string | null): string {
  const needs = fit.memoryBytes === null ? [] : [`needs ${formatBytes(fit.memoryBytes)}`];
  const allows = fit.maxBufferBytes === null ? [] : [`this GPU allows ${formatBytes(fit.maxBufferBytes)} buffers`];
  const figures = [...needs, ...allows].join(", ");
  const outcome = refusal === null ? "fits" : `does not fit: ${refusal}`;
  const speed = fit.tokensPerSecond === null ? "" : `, about ${formatSpeed(fit.tokensPerSecond)} tokens/s`;
  return `${figures}${figures && ": "}${outcome}${speed}`;
}

function formatSpeed(perSecond: number): string {
  return perSecond < 9.95 ? perSecond.toFixed(1) : perSecond.toFixed(0);
}

/** Reads a program's tables, plans its memory and benchmarks it. Does not download the weights. */
export async function check(source: Source, options: CheckOptions = {}): Promise<Fit> {
  options.signal?.throwIfAborted();
  const module = await untilAborted(engine(), options.signal);
  const digests = await openDigests(source, options);
  const files = { source, data: options.data, write: false, digests };
  return withProgram(module, files, options, (program) => fitOf(module, program, options));
}

async function fitOf(module: Engine, { head, info, files }: OpenProgram, options: CheckOptions): Promise<Fit> {
  let total = 0;
  for (const file of files) total += await file.size(options.signal);
  const cachedBytes = files.reduce((sum, file) => sum + file.cachedBytes, 0);
  const unknown = { memoryBytes: null, largestBufferBytes: null, maxBufferBytes: null, tokensPerSecond: null };
  let fit: Omit<Fit, "sentence"> = { fits: false, downloadBytes: total - cachedBytes, cachedBytes, ...unknown };
  let refusal: string | null = null;
  try {
    const shared = await untilAborted(sharedGpu(), options.signal);
    fit = { ...fit, maxBufferBytes: shared.adapter.maxBufferSize };
    const gpu = shared.live();
    const method = loaderOptions(info, options, writesText(info, options.method));
    const { total: memoryBytes, largest } = engineCall(() => module.Loader.plan(gpu, head, method));
    fit = { ...fit, memoryBytes, largestBufferBytes: largest };
    const tokensPerSecond = (options.benchmark ?? options.rehearse) === false ? null : await benchmark(module, gpu, head, method, options.signal);
    fit = { ...fit, tokensPerSecond, fits: true };
  } catch (error) {
    if (!(error instanceof PteronError) || !UNFIT.has(error.code)) throw error;
    refusal = error.message;
  }
  return { ...fit, sentence: sentenceOf(fit, refusal) };
}

/** Allocates the buffers, which may fail, and benchmarks decode on empty weights. */
async function benchmark(
  { Loader }: Engine,
  gpu: Gpu,
  head: Head,
  options: LoaderOptions,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  const loader = await openLoader(Loader, gpu, head, options, signal);
  try {
    if (!options.languageModel) return null;
    const { tokensPerSecond } = await engineWait({ call: () => loader.benchmark(BENCHMARK_SECONDS), uses: [loader], signal });
    return tokensPerSecond;
  } finally {
    void freeAfterCalls(loader);
  }
}

/** Whether the selected method is the language model. */
export function writesText(info: HeadInfo, method: string | undefined): boolean {
  return !!info.languageModel && (method ?? info.languageModel.method) === info.languageModel.method;
}

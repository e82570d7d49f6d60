// The engine's worker thread, so that the page never blocks.

import { Model, cache, support, wasmBytes, type GenerateOptions, type LoadOptions, type Prompt as PackagePrompt, type Session } from "pteron";
import { factsOf } from "./facts.js";
import { group } from "./profile.js";
import type { GenerateReply, Calls, Event, Inspection, ModelFacts, TokenNote, ProfileReport, Prompt, Request } from "./protocol.js";
import { serve, type Port } from "./rpc.js";
import type { ModelSource } from "./source.js";

const port = globalThis as unknown as Port<Event, Request>;

interface Loaded {
  model: Model;
  session: Session;
}

let loaded: Loaded | null = null;

async function unload(): Promise<void> {
  const old = loaded;
  loaded = null;
  await old?.model.dispose();
}

function current(): Loaded {
  if (!loaded) throw new Error("no model is loaded");
  return loaded;
}

function loadOptions(source: ModelSource): LoadOptions {
  if (source.kind === "url") return { ...(source.unasked && { redirect: "error" }), ...(source.integrity && { integrity: source.integrity }) };
  const { data, tokenizer, tokenizerConfig, template, sidecar } = source;
  return {
    ...(data.length > 0 && { data }),
    ...(tokenizer && { tokenizer }),
    ...(tokenizerConfig && { tokenizerConfig }),
    ...(template && { template }),
    ...(sidecar && { sidecar }),
  };
}

function programOf(source: ModelSource): string | File {
  return source.kind === "url" ? source.url : source.program;
}

async function inspect(source: ModelSource, signal: AbortSignal): Promise<Inspection> {
  const kept = source.kind === "url" ? (await cache.list()).find((entry) => entry.url === source.url) : undefined;
  if (kept?.complete) return { cached: kept, fit: null };
  const fit = await Model.check(programOf(source), { ...loadOptions(source), signal });
  return { cached: kept ?? null, fit };
}

async function open(source: ModelSource, signal: AbortSignal, onProgress: (note: Calls["load"]["note"]) => void): Promise<Loaded> {
  const model = await Model.load(programOf(source), { ...loadOptions(source), signal, onProgress });
  try {
    return { model, session: model.session() };
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

/** Loads a model beside the current one, so that a bad file costs nothing. Frees the current one first if both do not fit. */
async function load(source: ModelSource, signal: AbortSignal, onProgress: (note: Calls["load"]["note"]) => void): Promise<Loaded> {
  try {
    return await open(source, signal, onProgress);
  } catch (error) {
    if (!loaded || (error as { code?: unknown }).code !== "out-of-memory") throw error;
    signal.throwIfAborted();
    await unload();
    try {
      return await open(source, signal, onProgress);
    } catch (second) {
      throw Object.assign(second as Error, { modelGone: true });
    }
  }
}

/** Replaces the old model with the new one. If the load was cancelled meanwhile, the old one stays. */
async function replace(source: ModelSource, signal: AbortSignal, onProgress: (note: Calls["load"]["note"]) => void): Promise<ModelFacts> {
  signal.throwIfAborted();
  const next = await load(source, signal, onProgress);
  if (signal.aborted) {
    await next.model.dispose();
    throw signal.reason;
  }
  await unload();
  loaded = next;
  void next.model.lost.then(({ reason }) => {
    if (loaded !== next) return;
    loaded = null;
    port.postMessage({ kind: "lost", reason });
  });
  return factsOf(source, next.model);
}

function promptOf(prompt: Prompt): PackagePrompt {
  if (prompt.style === "text") return prompt.text;
  const { messages, partial } = prompt;
  return partial ? { messages, partial } : messages;
}

/** Runs tasks one after the other. */
function queue(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
}

/** A session runs one task at a time. */
const inTurn = queue();
/** Two loads at once would need the memory of three models, and the last request might not be the model that stays. */
const oneLoad = queue();

async function generate(prompt: Prompt, options: GenerateOptions, signal: AbortSignal, note: (piece: TokenNote) => void): Promise<GenerateReply> {
  signal.throwIfAborted();
  const { session } = current();
  const generation = session.generate(promptOf(prompt), options);
  // Stopped, not aborted: the text so far counts, with its times.
  signal.addEventListener("abort", () => void generation.stop());
  for await (const { token, text } of generation) note({ token, text });
  return { result: await generation.result, wasmBytes: wasmBytes() };
}

async function profile(steps: number): Promise<ProfileReport> {
  const { session } = current();
  const profiles = [];
  for (let step = 0; step < steps; step += 1) profiles.push(await session.profile());
  return group(profiles);
}

serve(port, {
  support: () => support(),
  inspect: ({ source }, { signal }) => inspect(source, signal),
  load: ({ source }, { signal, note }) => oneLoad(() => replace(source, signal, note)),
  generate: ({ prompt, options }, { signal, note }) => inTurn(() => generate(prompt, options, signal, note)),
  profile: ({ steps }) => inTurn(() => profile(steps)),
  cached: () => cache.list(),
  forget: async ({ url }) => {
    await cache.delete(url);
    return null;
  },
});

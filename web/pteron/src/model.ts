/// <reference lib="esnext.disposable" preserve="true" />
import { untilAborted } from "./abort.js";
import { check, type CheckOptions, type Fit, writesText } from "./check.js";
import { makeDisposable } from "./disposable.js";
import type { ChatMessage, Engine, Freed, Gpu, Llm, LlmInfo, MemoryUse, Method } from "./engine.js";
import type { Profile, TensorSpec } from "./engine.js";
import { engineCall, engineWait, freeBehind } from "./engine-call.js";
import { PteronError } from "./errors.js";
import { type AdapterInfo, type DeviceLost, type OpenGpu, sharedGpu } from "./gpu.js";
import { fill, openLoader, type OpenProgram, withProgram } from "./load.js";
import { type FetchOptions, urlOf } from "./open.js";
import { loaderOptions, type MethodOptions } from "./options.js";
import { keepPins, openDigests } from "./pins.js";
import { Meter, type Progress } from "./progress.js";
import { Session } from "./session.js";
import { type LlmSide, NO_SIDE, noTokenizer, readSideFiles, type SideFiles } from "./side-files.js";
import type { Source } from "./source.js";
import { DELETED, forgetBeside, HELD } from "./store.js";
import { fromRaw, type Tensor, toRaw } from "./tensor.js";
import { engine } from "./wasm.js";

/** Options of {@link Model.load}. */
export interface LoadOptions extends FetchOptions, MethodOptions, SideFiles {
  /** External weights (`.ptd`) in the order of the export. */
  data?: readonly Source[];
  /** Told how far the load is: first, last, and about ten times a second in between. */
  onProgress?: (progress: Progress) => void;
}

/** What is known about a model. */
export interface ModelInfo {
  /** The name of the file, or its address. */
  name: string;
  /** The size of the program's file. */
  bytes: number;
  methods: { name: string; inputs: TensorSpec[]; outputs: TensorSpec[] }[];
  /** GPU memory in bytes: weights, activations, other buffers and the state of one conversation. */
  memory: MemoryUse;
  adapter: AdapterInfo;
  /** Null where it was not loaded as a language model. */
  languageModel: Omit<LlmInfo, "memory"> | null;
}

/** What stays between calls: KV caches and other buffers that a program changes. */
export class State {
  /** @internal */
  readonly raw: Freed;
  /** Takes it out of its model; resolves when no call works with it any more. */
  readonly #leave: (state: State) => Promise<unknown>;
  #disposed: Promise<void> | undefined;

  /** @internal */
  constructor(raw: Freed, leave: (state: State) => Promise<unknown>) {
    this.raw = raw;
    this.#leave = leave;
  }

  /** Frees it, behind the calls that work with it. Resolves when that is done. */
  dispose(): Promise<void> {
    return (this.#disposed ??= this.#leave(this).then(() => freeBehind(this.raw)));
  }

  static {
    makeDisposable(this);
  }
}

export interface State extends AsyncDisposable {}

/** What a loaded model consists of. */
interface Parts {
  /** A language model, or a method that is called plainly. */
  llm: Llm | null;
  method: Method | null;
  lost: Promise<DeviceLost>;
  info: ModelInfo;
  /** Why it has no sessions. */
  noSession: string;
}

/** A program on the GPU. */
export class Model {
  /** What is known about it. */
  readonly info: ModelInfo;
  /** Resolves when the GPU is lost; the model is then of no use and may be loaded again. */
  readonly lost: Promise<DeviceLost>;
  readonly #parts: Parts;
  readonly #sessions = new Set<Session>();
  readonly #states = new Set<State>();
  /** Calls run one behind the other. */
  #calls: Promise<unknown> = Promise.resolve();
  #disposed: Promise<void> | undefined;

  /** @internal */
  constructor(parts: Parts) {
    this.#parts = parts;
    this.info = parts.info;
    this.lost = parts.lost;
  }

  /**
   * Loads a program: its weights are checked and go to the GPU as they arrive, and are kept for the next visit.
   *
   * Beside an address the tokenizer and chat template are looked for under their usual names.
   */
  static async load(source: Source, options: LoadOptions = {}): Promise<Model> {
    return new Model(await load(source, options));
  }

  /** Says whether a program fits and how fast it will be, without downloading its weights. */
  static check(source: Source, options: CheckOptions = {}): Promise<Fit> {
    return check(source, options);
  }

  /** A conversation with a language model. */
  session(): Session {
    const session = new Session(engineCall(() => this.#llm().session()), (closed) => this.#sessions.delete(closed));
    this.#sessions.add(session);
    return session;
  }

  /** The tokens of a text. With `special`, names of special tokens in it stand for these, as in what `render` gives. */
  encode(text: string, options: { special?: boolean } = {}): Uint32Array {
    // The border to the engine believes in types: another one would be written past its memory.
    if (typeof text !== "string") refuse("a text must be a string");
    return engineCall(() => this.#llm().encode(text, options.special ?? false));
  }

  /** The text of tokens. */
  decode(tokens: Uint32Array): string {
    if (!(tokens instanceof Uint32Array)) refuse("tokens must be a Uint32Array");
    return engineCall(() => this.#llm().decode(tokens));
  }

  /** A conversation as the text that the model reads, by its chat template. */
  render(messages: ChatMessage[]): string {
    return engineCall(() => this.#llm().render(messages));
  }

  #llm(): Llm {
    this.#here();
    return this.#parts.llm ?? refuse(this.#parts.noSession);
  }

  #method(): Method {
    this.#here();
    return this.#parts.method ?? refuse("it was loaded as a language model: load it with tokenizer: false to call its method");
  }

  #here(): void {
    if (this.#disposed) refuse("the model was disposed");
  }

  /** Runs the method. Without a state, the call starts afresh and forgets what it changed. */
  call(inputs: readonly Tensor[], options: { state?: State } = {}): Promise<Tensor[]> {
    return this.#run(inputs, options, async (method, state, raw) => (await method.call(state, raw)).map(fromRaw));
  }

  /** Runs the method and says how long each kernel took. */
  profile(inputs: readonly Tensor[], options: { state?: State } = {}): Promise<{ outputs: Tensor[]; profile: Profile }> {
    return this.#run(inputs, options, async (method, state, raw) => {
      const { outputs, profile } = await method.profile(state, raw);
      return { outputs: outputs.map(fromRaw), profile };
    });
  }

  async #run<T>(
    inputs: readonly Tensor[],
    { state }: { state?: State },
    work: (method: Method, state: Freed, raw: ReturnType<typeof toRaw>[]) => Promise<T>,
  ): Promise<T> {
    const method = this.#method();
    if (state && !this.#states.has(state)) refuse("the state was disposed, or belongs to another model");
    const raw = inputs.map(toRaw);
    const turn = this.#calls.then(async () => {
      const used = state?.raw ?? engineCall(() => method.newState());
      try {
        return await engineCall(() => work(method, used, raw));
      } finally {
        if (!state) await freeBehind(used);
      }
    });
    this.#calls = turn.catch(() => {});
    return turn;
  }

  /** A state for calls that go on from one another. */
  state(): State {
    const leave = (left: State) => {
      this.#states.delete(left);
      return this.#calls;
    };
    const state = new State(engineCall(() => this.#method().newState()), leave);
    this.#states.add(state);
    return state;
  }

  /** Stops what runs and frees everything. Resolves when that is done. */
  dispose(): Promise<void> {
    return (this.#disposed ??= this.#close());
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.dispose()));
    await this.#calls;
    await Promise.all([...this.#states].map((state) => state.dispose()));
    const { llm, method } = this.#parts;
    if (llm) await freeBehind(llm);
    if (method) await freeBehind(method);
  }

  static {
    makeDisposable(this);
  }
}

export interface Model extends AsyncDisposable {}

function refuse(reason: string): never {
  throw new PteronError("input", reason);
}

async function load(source: Source, options: LoadOptions): Promise<Parts> {
  options.signal?.throwIfAborted();
  const meter = new Meter(options.onProgress);
  meter.enter("check");
  const module = await untilAborted(engine(), options.signal);
  const gpu = await untilAborted(sharedGpu(), options.signal);
  const digests = await openDigests(source, options);
  const files = { source, data: options.data, write: true, digests };
  const parts = await withProgram(module, files, options, async (program) => {
    meter.notCached = program.files[0]?.notCached ?? null;
    const side = writesText(program.info, options.method) ? await readSideFiles(source, options, options, digests) : NO_SIDE;
    options.signal?.throwIfAborted();
    meter.enter("prepare");
    const method = await loadMethod(module, gpu.live(), program, options, side.tokenizer !== null, meter);
    const parts = assemble(module, method, program, side, source, gpu);
    const notCached = program.files[0]?.notCached;
    if (notCached !== DELETED && notCached !== HELD) await keepPins(source, digests);
    return parts;
  }).catch((error: unknown) => forgetTokenizer(error, source));
  meter.enter("ready");
  return parts;
}

/** A tokenizer that is none would come from the cache for ever. */
async function forgetTokenizer(error: unknown, model: Source): Promise<never> {
  const url = urlOf(model);
  if (url && error instanceof PteronError && error.code === "tokenizer") await forgetBeside(url);
  throw error;
}

async function loadMethod(
  { Loader }: Engine,
  gpu: Gpu,
  program: OpenProgram,
  options: LoadOptions,
  writes: boolean,
  meter: Meter,
): Promise<Method> {
  const { signal } = options;
  const loader = await openLoader(Loader, gpu, program.head, loaderOptions(program.info, options, writes), signal);
  try {
    await fill(loader, program, meter, signal);
    signal?.throwIfAborted();
  } catch (error) {
    void freeBehind(loader);
    throw error;
  }
  // Finishing takes the loader, whether it succeeds or not.
  return engineWait({ call: () => loader.finish(), uses: [], signal, late: (method) => void freeBehind(method) });
}

function assemble(
  { Llm }: Engine,
  method: Method,
  { head, info, files }: OpenProgram,
  { tokenizer, files: texts, refusal }: LlmSide,
  source: Source,
  { adapter, lost }: OpenGpu,
): Parts {
  const name = files[0]?.name ?? "the model";
  const shared = { name, bytes: info.bytes, methods: info.methods, adapter };
  if (!tokenizer) {
    const none = info.languageModel ? noTokenizer(source, refusal) : `${name} is not a language model: call its method instead`;
    return { lost, llm: null, method, noSession: none, info: { ...shared, memory: method.memory(), languageModel: null } };
  }
  const llm = engineCall(() => new Llm(method, head, tokenizer, texts));
  const { memory, ...languageModel } = engineCall(() => llm.info());
  return { lost, llm, method: null, noSession: "", info: { ...shared, memory, languageModel } };
}

/// <reference lib="esnext.disposable" preserve="true" />
import { untilAborted } from "./abort.js";
import { check, type CheckOptions, type Fit, writesText } from "./check.js";
import { makeDisposable } from "./disposable.js";
import type { ChatMessage, Engine, Freed, Gpu, Llm, LlmInfo, MemoryUse, Method } from "./engine.js";
import type { Profile, TensorSpec } from "./engine.js";
import { engineCall, engineWait, freeAfterCalls } from "./engine-call.js";
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
  /** Called with the progress: at the start, at the end, and about ten times a second in between. */
  onProgress?: (progress: Progress) => void;
}

/** A description of a model. */
export interface ModelInfo {
  /** The name of the file, or its URL. */
  name: string;
  /** The size of the program's file. */
  bytes: number;
  methods: { name: string; inputs: TensorSpec[]; outputs: TensorSpec[] }[];
  /** GPU memory in bytes: weights, activations, other buffers and the state of one conversation. */
  memory: MemoryUse;
  adapter: AdapterInfo;
  /** Null if it was not loaded as a language model. */
  languageModel: Omit<LlmInfo, "memory"> | null;
}

/** State kept between calls: KV caches and other buffers that a program changes. */
export class State {
  /** @internal */
  readonly raw: Freed;
  /** Removes it from its model; resolves when no call uses it any more. */
  readonly #leave: (state: State) => Promise<unknown>;
  #disposed: Promise<void> | undefined;

  /** @internal */
  constructor(raw: Freed, leave: (state: State) => Promise<unknown>) {
    this.raw = raw;
    this.#leave = leave;
  }

  /** Frees it after the calls that use it. Resolves when that is done. */
  dispose(): Promise<void> {
    return (this.#disposed ??= this.#leave(this).then(() => freeAfterCalls(this.raw)));
  }

  static {
    makeDisposable(this);
  }
}

export interface State extends AsyncDisposable {}

/** The parts of a loaded model. */
interface Parts {
  /** A language model, or a method to call with tensors. */
  llm: Llm | null;
  method: Method | null;
  lost: Promise<DeviceLost>;
  info: ModelInfo;
  /** The reason why it has no sessions. */
  noSession: string;
}

/** A program on the GPU. */
export class Model {
  /** A description of the model. */
  readonly info: ModelInfo;
  /** Resolves when the GPU is lost. The model is then unusable and must be loaded again. */
  readonly lost: Promise<DeviceLost>;
  readonly #parts: Parts;
  readonly #sessions = new Set<Session>();
  readonly #states = new Set<State>();
  /** Runs calls one after the other. */
  #calls: Promise<unknown> = Promise.resolve();
  #disposed: Promise<void> | undefined;

  /** @internal */
  constructor(parts: Parts) {
    this.#parts = parts;
    this.info = parts.info;
    this.lost = parts.lost;
  }

  /**
   * Loads a program. Weights are checked and uploaded to the GPU as they arrive, and cached for the next visit.
   *
   * For a program at a URL, the tokenizer and chat template are looked for beside it under their usual names.
   */
  static async load(source: Source, options: LoadOptions = {}): Promise<Model> {
    return new Model(await load(source, options));
  }

  /** Reports whether a program fits and how fast it will be, without downloading its weights. */
  static check(source: Source, options: CheckOptions = {}): Promise<Fit> {
    return check(source, options);
  }

  /** Creates a conversation with a language model. */
  session(): Session {
    const session = new Session(engineCall(() => this.#llm().session()), (closed) => this.#sessions.delete(closed));
    this.#sessions.add(session);
    return session;
  }

  /** Encodes a text. With `special`, names of special tokens in it become these tokens, as the output of `render` needs. */
  encode(text: string, options: { special?: boolean } = {}): Uint32Array {
    // The bindings trust the type: another one would be written past its memory.
    if (typeof text !== "string") refuse("a text must be a string");
    return engineCall(() => this.#llm().encode(text, options.special ?? false));
  }

  /** Decodes tokens to text. */
  decode(tokens: Uint32Array): string {
    if (!(tokens instanceof Uint32Array)) refuse("tokens must be a Uint32Array");
    return engineCall(() => this.#llm().decode(tokens));
  }

  /** Renders a conversation with the model's chat template. */
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

  /** Runs the method. Without a state, the call starts from a new state and discards it. */
  call(inputs: readonly Tensor[], options: { state?: State } = {}): Promise<Tensor[]> {
    return this.#run(inputs, options, async (method, state, raw) => (await method.call(state, raw)).map(fromRaw));
  }

  /** Runs the method and returns the time of each kernel. */
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
        if (!state) await freeAfterCalls(used);
      }
    });
    this.#calls = turn.catch(() => {});
    return turn;
  }

  /** Creates a state for calls that continue one another. */
  state(): State {
    const leave = (left: State) => {
      this.#states.delete(left);
      return this.#calls;
    };
    const state = new State(engineCall(() => this.#method().newState()), leave);
    this.#states.add(state);
    return state;
  }

  /** Stops running calls and frees everything. Resolves when that is done. */
  dispose(): Promise<void> {
    return (this.#disposed ??= this.#close());
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.dispose()));
    await this.#calls;
    await Promise.all([...this.#states].map((state) => state.dispose()));
    const { llm, method } = this.#parts;
    if (llm) await freeAfterCalls(llm);
    if (method) await freeAfterCalls(method);
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

/** Drops an invalid tokenizer from the cache; otherwise every load would get it again. */
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
    void freeAfterCalls(loader);
    throw error;
  }
  // Finishing consumes the loader, whether it succeeds or not.
  return engineWait({ call: () => loader.finish(), uses: [], signal, late: (method) => void freeAfterCalls(method) });
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

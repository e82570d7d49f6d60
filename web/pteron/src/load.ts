import type { DataHead, Engine, CorruptConstant, Gpu, Head, HeadInfo, Loader, LoaderOptions } from "./engine.js";
import { engineCall, engineWait, freeAfterCalls } from "./engine-call.js";
import { FileChanged, FileError, PteronError } from "./errors.js";
import { type Digests, IntegrityError, readBlocks, readChecked } from "./integrity.js";
import { type FetchOptions, openSource, optionsFor, urlOf } from "./open.js";
import type { Meter } from "./progress.js";
import { type ByteSource, CHUNK, type Source } from "./source.js";

/** Bytes to upload before waiting for the GPU: pending uploads stay in memory. */
const FLUSH_BYTES = 32 << 20;

/** The largest gap between ranges that is read along: another request costs more. */
const GAP = 1 << 20;

/** The number of times bytes that do not match their checksum are fetched again. */
const REPAIRS = 2;

/** A program whose tables are known, and the files that hold its weights. */
export interface OpenProgram {
  head: Head;
  info: HeadInfo;
  /** The `.pte`, then the `.ptd`s, as the engine numbers them. */
  files: readonly ByteSource[];
  digests: Digests;
}

/** The location of a program, and how its files are handled. */
export interface ProgramFiles {
  source: Source;
  data?: readonly Source[] | undefined;
  /** Whether downloaded bytes are cached for the next visit. */
  write: boolean;
  /** The digests that tables are compared with. */
  digests: Digests;
}

/** The number of restarts if a file changes during the load, or the cache has other bytes. */
const TRIES = 3;

/** Reads the tables of a program and of its external data, and passes them to a callback. Closes everything afterwards. */
export async function withProgram<T>(
  engine: Engine,
  { source, data = [], write, digests }: ProgramFiles,
  options: FetchOptions,
  work: (program: OpenProgram) => Promise<T>,
): Promise<T> {
  const recovery = new Recovery();
  for (;;) {
    const files: ByteSource[] = [];
    let head: Head | undefined;
    digests.begin();
    try {
      for (const file of [source, ...data]) {
        const own = recovery.options(file, optionsFor(file, source, options));
        files.push(await openSource(file, own, { write }));
      }
      const opened = await readHead(engine, files, digests, options.signal);
      head = opened.head;
      return await work({ ...opened, files, digests });
    } catch (error) {
      if (!(await recovery.worthAnotherTry(error, files))) throw error;
    } finally {
      if (head) void freeAfterCalls(head);
      for (const file of files) file.close();
    }
  }
}

/** Drops cached bytes of files that changed or are malformed, and reports whether a retry may get other bytes. */
class Recovery {
  #tries = 1;
  #wasDamaged = false;
  /** Files whose cached bytes are bad and locked by another tab: they are read without the cache. */
  readonly #past = new Set<string>();

  options(file: Source, options: FetchOptions): FetchOptions {
    const url = urlOf(file);
    return url !== null && this.#past.has(url) ? { ...options, cache: false } : options;
  }

  async worthAnotherTry(error: unknown, files: readonly ByteSource[]): Promise<boolean> {
    if (!(error instanceof PteronError) || this.#tries++ === TRIES) return false;
    if (error.code === "damaged") return this.#afterDamage(files);
    const changed = error instanceof FileChanged || (error instanceof IntegrityError && error.cached);
    if (!changed && error.code !== "bad-file") return false;
    const file = error instanceof FileError ? error.file : null;
    const forgotten = await this.#forget(files.filter(({ name }) => file === null || name === file));
    return changed || forgotten;
  }

  /** Tables hold the offsets and checksums of constants, so cached tables may be the damaged part. */
  async #afterDamage(files: readonly ByteSource[]): Promise<boolean> {
    const cached = files.filter(({ usedCache }) => usedCache);
    if (this.#wasDamaged || !cached.length) return false;
    this.#wasDamaged = true;
    await this.#forget(cached);
    return true;
  }

  async #forget(files: readonly ByteSource[]): Promise<boolean> {
    let any = false;
    for (const file of files) {
      const outcome = await file.forget();
      if (outcome === "held") this.#past.add(file.name);
      any ||= outcome !== "nothing";
    }
    return any;
  }
}

type Tables = Pick<OpenProgram, "head" | "info">;

async function readHead(engine: Engine, files: readonly ByteSource[], digests: Digests, signal?: AbortSignal): Promise<Tables> {
  const [program, ...others] = files as [ByteSource, ...ByteSource[]];
  const size = await program.size(signal);
  const head = named(program, () => new engine.Head(size));
  try {
    await readTables(head, program, digests, signal);
    for (const file of others) await attach(engine, head, file, digests, signal);
    // External data may refer to more tables.
    if (others.length) await readTables(head, program, digests, signal);
    return { head, info: named(program, () => head.info()) };
  } catch (error) {
    void freeAfterCalls(head);
    throw error;
  }
}

async function attach(engine: Engine, head: Head, file: ByteSource, digests: Digests, signal?: AbortSignal): Promise<void> {
  const size = await file.size(signal);
  const data = named(file, () => new engine.DataHead(size));
  try {
    await readTables(data, file, digests, signal);
  } catch (error) {
    void freeAfterCalls(data);
    throw error;
  }
  named(file, () => head.attach(data));
}

async function readTables(head: DataHead, file: ByteSource, digests: Digests, signal?: AbortSignal): Promise<void> {
  for (;;) {
    const needs = named(file, () => head.needs());
    if (!needs.length) return;
    for (let i = 0; i + 1 < needs.length; i += 2) {
      const [start = 0, length = 0] = needs.subarray(i, i + 2);
      // Otherwise the same range would be requested forever.
      if (!(length > 0)) throw new FileError("bad-file", file.name, `${file.name} ends before its tables do`);
      const bytes = await readChecked(file, [start, start + length], digests, signal);
      named(file, () => head.supply(start, bytes));
    }
  }
}

/** Calls the engine about a file, and adds the file's name to its error message. */
function named<T>(file: ByteSource, call: () => T): T {
  try {
    return engineCall(call);
  } catch (error) {
    if (!(error instanceof PteronError)) throw error;
    throw new FileError(error.code, file.name, `${file.name}: ${error.message}`, { cause: error });
  }
}

interface Range {
  file: number;
  start: number;
  end: number;
}

/** Whether any of these overlaps a range. */
const within = ({ file, start, end }: Range, others: readonly Range[]) =>
  others.some((other) => other.file === file && other.start < end && start < other.end);

/** The byte ranges that the loader needs, merged into few long ones. */
function rangesOf(needs: Float64Array): Range[] {
  const ranges: Range[] = [];
  for (let i = 0; i + 2 < needs.length; i += 3) {
    const [file = 0, start = 0, length = 0] = needs.subarray(i, i + 3);
    const last = ranges.at(-1);
    if (last?.file === file && start - last.end <= GAP) last.end = Math.max(last.end, start + length);
    else ranges.push({ file, start, end: start + length });
  }
  return ranges;
}

/** Allocates the memory of a method. An abort does not wait for it; memory allocated after the abort is freed. */
export function openLoader(
  type: Engine["Loader"],
  gpu: Gpu,
  head: Head,
  options: LoaderOptions,
  signal: AbortSignal | undefined,
): Promise<Loader> {
  const late = (loader: Loader) => void freeAfterCalls(loader);
  return engineWait({ call: () => type.open(gpu, head, options), uses: [gpu, head], signal, late });
}

/** Streams the weights into the loader. Bytes that do not match their checksums are fetched again; then it gives up. */
export async function fill(loader: Loader, program: OpenProgram, meter: Meter, signal?: AbortSignal): Promise<void> {
  for (const file of program.files) file.ascending();
  let ranges = rangesOf(engineCall(() => loader.needs()));
  const total = ranges.reduce((sum, range) => sum + range.end - range.start, 0);
  meter.begin(total);
  for (let repairs = 0; ; repairs++) {
    const [fault] = await stream(loader, program, ranges, meter, signal, repairs > 0);
    if (!fault) return;
    if (repairs === REPAIRS || !program.files[fault.file]?.remote) throw damaged(fault, program, repairs);
    meter.enter("repair");
    ranges = rangesOf(engineCall(() => loader.needs()));
  }
}

/** Makes one pass over ranges of the files and returns those that were damaged. */
async function stream(
  loader: Loader,
  { files, digests }: OpenProgram,
  ranges: readonly Range[],
  meter: Meter,
  signal: AbortSignal | undefined,
  fresh: boolean,
): Promise<CorruptConstant[]> {
  const corrupt: CorruptConstant[] = [];
  let pending = 0;
  const flush = async () => {
    pending = 0;
    await engineWait({ call: () => loader.waitIdle(), uses: [loader], signal });
    corrupt.push(...engineCall(() => loader.takeCorrupt()));
  };
  // Constants without a checksum of their own are compared block by block, as tables are.
  const unchecked = digests.isActive ? rangesOf(engineCall(() => loader.unchecked())) : [];
  for (const range of ranges) {
    const { file, start, end } = range;
    const source = files[file];
    if (!source) throw new PteronError("internal", `the program names file ${file}, and ${files.length} are open`);
    const chunks = within(range, unchecked) ? readBlocks(source, [start, end], digests, signal) : source.read(start, end, signal, fresh);
    for await (const chunk of chunks) {
      signal?.throwIfAborted();
      for (let at = 0; at < chunk.bytes.length; at += CHUNK) {
        engineCall(() => loader.write(file, chunk.start + at, chunk.bytes.subarray(at, at + CHUNK)));
      }
      meter.notCached ??= source.notCached;
      meter.add(chunk.bytes.length, chunk.cached);
      pending += chunk.bytes.length;
      if (pending >= FLUSH_BYTES) await flush();
    }
  }
  await flush();
  return corrupt;
}

function damaged(fault: CorruptConstant, program: OpenProgram, repairs: number): PteronError {
  const name = program.files[fault.file]?.name ?? "the file";
  const bytes = `bytes ${fault.start} to ${fault.start + fault.length}`;
  const again = repairs ? `, also when fetched ${repairs} more times` : "";
  return new FileError("damaged", name, `${name} is damaged: ${bytes} do not match the checksum of constant ${fault.key}${again}`);
}

import { untilAborted } from "./abort.js";
import type { Freed } from "./engine.js";
import { type ErrorCode, PteronError } from "./errors.js";

/** Set when the WebAssembly module trapped. Its memory is then in an unknown state, so it is not called again. */
let stopped: PteronError | undefined;

/** Functions that reject the calls in progress: after a trap the module settles none of them. */
const pending = new Set<(error: PteronError) => void>();

/** Objects that the engine is using, each with the promise of that call. They are freed after it settles. */
const borrowed = new WeakMap<Freed, Promise<unknown>>();

function stop(trap: Error): PteronError {
  stopped ??= new PteronError("internal", `the engine stopped: ${trap.message}; load the page anew`, { cause: trap });
  for (const reject of pending) reject(stopped);
  pending.clear();
  return stopped;
}

/** Catches traps outside of any call, in tasks that the module runs by itself. */
export function listenForTraps(): void {
  const heard = (thrown: unknown) => {
    if (!(thrown instanceof WebAssembly.RuntimeError) || !pending.size) return;
    // Other modules of a page may trap, too; the stack trace names the module's file.
    const stack = thrown.stack ?? "";
    if (stack.includes("pteron") || stack.includes(import.meta.url)) stop(thrown);
  };
  globalThis.addEventListener?.("error", ({ error }) => heard(error));
  globalThis.addEventListener?.("unhandledrejection", ({ reason }) => heard(reason));
}

/** Converts an exception of the engine to an error of this package. */
function fromEngine(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return new PteronError("internal", String(thrown));
  if (thrown instanceof PteronError || thrown.name === "AbortError") return thrown;
  if (thrown instanceof WebAssembly.RuntimeError) return stop(thrown);
  const code = "code" in thrown && typeof thrown.code === "string" ? (thrown.code as ErrorCode) : "internal";
  return new PteronError(code, thrown.message, { cause: thrown });
}

/** Calls the engine and converts its exceptions and rejections to errors of this package. */
export function engineCall<T>(call: () => T): T {
  if (stopped) throw stopped;
  try {
    const result = call();
    return result instanceof Promise ? (unlessStopped(result) as T) : result;
  } catch (thrown) {
    throw fromEngine(thrown);
  }
}

function unlessStopped<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    pending.add(reject);
    const settle = (done: () => void) => {
      pending.delete(reject);
      done();
    };
    work.then(
      (result) => settle(() => resolve(result)),
      (thrown: unknown) => settle(() => reject(fromEngine(thrown))),
    );
  });
}

/** An asynchronous call of the engine. */
interface LongCall<T> {
  call: () => Promise<T>;
  /** The objects that the call borrows. */
  uses: readonly Freed[];
  signal?: AbortSignal | undefined;
  /** Receives the result of a call that completes after an abort. */
  late?: (result: T) => void;
}

/** Calls the engine and waits for the result or an abort. Borrowed objects are freed when the call has really ended. */
export function engineWait<T>({ call, uses, signal, late }: LongCall<T>): Promise<T> {
  const work = engineCall(call);
  const ended = work.catch(() => {});
  for (const thing of uses) borrow(thing, ended);
  return untilAborted(work, signal, () => void work.then(late, () => {}));
}

function borrow(thing: Freed, work: Promise<unknown>): void {
  const all = Promise.all([borrowed.get(thing), work]).then(() => {
    if (borrowed.get(thing) === all) borrowed.delete(thing);
  });
  borrowed.set(thing, all);
}

/** Frees an object of the engine after the calls that use it. A failure to free one object does not affect others. */
export async function freeAfterCalls(thing: Freed): Promise<void> {
  const work = borrowed.get(thing);
  if (work) await work;
  if (stopped) return;
  try {
    thing.free();
  } catch (thrown) {
    fromEngine(thrown);
  }
}

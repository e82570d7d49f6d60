import { untilAborted } from "./abort.js";
import type { Freed } from "./engine.js";
import { type ErrorCode, PteronError } from "./errors.js";

/** Set when the WebAssembly module trapped: its memory is in no known state, so nothing is asked of it any more. */
let stopped: PteronError | undefined;

/** How to reject the calls that are under way: behind a trap the module settles none of them. */
const pending = new Set<(error: PteronError) => void>();

/** Things that the engine works with, and the end of that work: they are freed behind it. */
const borrowed = new WeakMap<Freed, Promise<unknown>>();

function stop(trap: Error): PteronError {
  stopped ??= new PteronError("internal", `the engine stopped: ${trap.message}; load the page anew`, { cause: trap });
  for (const reject of pending) reject(stopped);
  pending.clear();
  return stopped;
}

/** Hears of traps that nobody catches: those in steps that the module takes by itself. */
export function listenForTraps(): void {
  const heard = (thrown: unknown) => {
    if (!(thrown instanceof WebAssembly.RuntimeError) || !pending.size) return;
    // Other modules of a page may trap, too; the stack names the file of the code that ran.
    const stack = thrown.stack ?? "";
    if (stack.includes("pteron") || stack.includes(import.meta.url)) stop(thrown);
  };
  globalThis.addEventListener?.("error", ({ error }) => heard(error));
  globalThis.addEventListener?.("unhandledrejection", ({ reason }) => heard(reason));
}

/** What the engine threw, as an error of this package. */
function fromEngine(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return new PteronError("internal", String(thrown));
  if (thrown instanceof PteronError || thrown.name === "AbortError") return thrown;
  if (thrown instanceof WebAssembly.RuntimeError) return stop(thrown);
  const code = "code" in thrown && typeof thrown.code === "string" ? (thrown.code as ErrorCode) : "internal";
  return new PteronError(code, thrown.message, { cause: thrown });
}

/** Calls the engine; what it throws or rejects with becomes an error of this package. */
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

/** A call of the engine that takes its time. */
interface LongCall<T> {
  call: () => Promise<T>;
  /** What it borrows. */
  uses: readonly Freed[];
  signal?: AbortSignal | undefined;
  /** Takes what comes behind an abort. */
  late?: (result: T) => void;
}

/** Calls the engine and waits, but no longer than until an abort. What the call borrows is freed behind its real end. */
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

/** Frees a thing of the engine, behind the calls that work with it. A thing that cannot be freed keeps nothing else from it. */
export async function freeBehind(thing: Freed): Promise<void> {
  const work = borrowed.get(thing);
  if (work) await work;
  if (stopped) return;
  try {
    thing.free();
  } catch (thrown) {
    fromEngine(thrown);
  }
}

// Remote procedure calls between page and worker, both ends.

import type { CallName, Calls, Event, Failure, Request } from "./protocol.js";

/** An error sent between page and worker: the engine's message and its code. */
export class CallError extends Error {
  readonly code: string;
  readonly modelGone: boolean;

  constructor(failure: Failure) {
    super(failure.message);
    this.name = "CallError";
    this.code = failure.code;
    this.modelGone = failure.modelGone ?? false;
  }
}

/** The code of a call that its caller cancelled. */
export const ABORTED = "aborted";
/** The code of calls in progress when their worker was terminated. */
export const CRASHED = "crashed";

/** The part of `Worker` and `MessagePort` that is used here. */
export interface Port<Out, In> {
  postMessage(message: Out): void;
  addEventListener(type: "message", listener: (event: { data: In }) => void): void;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: CallError): void;
  note(note: unknown): void;
}

export interface CallOptions<K extends CallName> {
  signal?: AbortSignal;
  onNote?: (note: Calls[K]["note"]) => void;
}

export class Client {
  #port: Port<Request, Event>;
  #pending = new Map<number, Pending>();
  #nextId = 1;
  #closed = false;

  constructor(port: Port<Request, Event>, onLost: (reason: string) => void) {
    this.#port = port;
    port.addEventListener("message", ({ data }) => {
      if (this.#closed || !isMessage(data)) return;
      if (data.kind === "lost") onLost(data.reason);
      else this.#receive(data);
    });
  }

  call<K extends CallName>(kind: K, args: Calls[K]["args"], options: CallOptions<K> = {}): Promise<Calls[K]["result"]> {
    const { signal, onNote } = options;
    if (this.#closed) return Promise.reject(new CallError({ message: "the worker has ended", code: CRASHED }));
    if (signal?.aborted) return Promise.reject(new CallError({ message: "cancelled", code: ABORTED }));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const abort = () => this.#port.postMessage({ kind: "abort", id });
      const settle = () => {
        this.#pending.delete(id);
        signal?.removeEventListener("abort", abort);
      };
      this.#pending.set(id, {
        resolve: (result) => (settle(), resolve(result as Calls[K]["result"])),
        reject: (error) => (settle(), reject(error)),
        note: (note) => onNote?.(note as Calls[K]["note"]),
      });
      signal?.addEventListener("abort", abort);
      this.#port.postMessage({ kind, id, args } as Request);
    });
  }

  /** Rejects the calls in progress and stops listening: the worker is gone. */
  close(message: string): void {
    this.#closed = true;
    for (const pending of [...this.#pending.values()]) pending.reject(new CallError({ message, code: CRASHED }));
  }

  #receive(event: Exclude<Event, { kind: "lost" }>): void {
    const pending = this.#pending.get(event.id);
    if (!pending) return;
    if (event.kind === "note") pending.note(event.note);
    else if (event.kind === "done") pending.resolve(event.result);
    else if (event.kind === "failed") pending.reject(new CallError(event.failure));
  }
}

export type Handlers = {
  [K in CallName]: (
    args: Calls[K]["args"],
    context: { signal: AbortSignal; note: (note: Calls[K]["note"]) => void },
  ) => Promise<Calls[K]["result"]>;
};

/** Serves requests that arrive at `port`. */
export function serve(port: Port<Event, Request>, handlers: Handlers): void {
  const running = new Map<number, AbortController>();

  async function respond<K extends CallName>(call: K, id: number, args: Calls[K]["args"]): Promise<void> {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      if (!Object.hasOwn(handlers, call)) throw new Error(`there is no call ${String(call)}`);
      const note = (note: Calls[K]["note"]) => port.postMessage({ kind: "note", call, id, note } as Event);
      const result = await handlers[call](args, { signal: controller.signal, note });
      port.postMessage({ kind: "done", call, id, result } as Event);
    } catch (error) {
      port.postMessage({ kind: "failed", id, failure: failureOf(error) });
    } finally {
      running.delete(id);
    }
  }

  port.addEventListener("message", ({ data }) => {
    if (!isMessage(data)) return;
    if (data.kind === "abort") running.get(data.id)?.abort();
    else void respond(data.kind, data.id, data.args);
  });
}

/** Whether a value is a message of this protocol; extensions and tools post their own messages. */
function isMessage(data: unknown): boolean {
  return typeof data === "object" && data !== null && typeof (data as { kind?: unknown }).kind === "string";
}

export function failureOf(error: unknown): Failure {
  if (!(error instanceof Error)) return { message: String(error), code: "internal" };
  const { name, message, code, modelGone } = error as Error & { code?: unknown; modelGone?: unknown };
  const failure: Failure = name === "AbortError" ? { message: "cancelled", code: ABORTED } : { message, code: typeof code === "string" ? code : codeless(error) };
  return modelGone === true ? { ...failure, modelGone } : failure;
}

/** Errors of the browser, such as a changed file, do not harm the engine; any other error is unexpected. */
function codeless(error: Error): string {
  return error instanceof DOMException ? "browser" : "internal";
}

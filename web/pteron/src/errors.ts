/** What kind of failure a {@link PteronError} is. */
export type ErrorCode =
  | "no-webgpu"
  | "bad-file"
  | "unsupported"
  | "no-such-method"
  | "input"
  | "out-of-memory"
  | "device-lost"
  | "device"
  | "tokenizer"
  | "missing"
  | "internal"
  | "network"
  | "no-such-file"
  | "truncated"
  | "damaged";

/**
 * A failure with a sentence for people (`message`) and a word for programs (`code`).
 *
 * An abort is not one of these: it rejects with the reason of the signal.
 */
export class PteronError extends Error {
  override readonly name = "PteronError";
  /** What kind of failure it is. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The file behind an address is not the one that was begun with: what was read of it is worth nothing. */
export class FileChanged extends PteronError {
  constructor(url: string) {
    super("network", `${url} changed on the server while it was being read: load it again`);
  }
}

/** What the engine threw, as an error of this package. */
export function fromEngine(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return new PteronError("internal", String(thrown));
  if (thrown instanceof PteronError || thrown.name === "AbortError") return thrown;
  const code = "code" in thrown && typeof thrown.code === "string" ? (thrown.code as ErrorCode) : "internal";
  return new PteronError(code, thrown.message, { cause: thrown });
}

/** Calls the engine; what it throws or rejects with becomes an error of this package. */
export function engineCall<T>(call: () => T): T {
  try {
    const result = call();
    if (!(result instanceof Promise)) return result;
    return result.catch((thrown: unknown) => {
      throw fromEngine(thrown);
    }) as T;
  } catch (thrown) {
    throw fromEngine(thrown);
  }
}

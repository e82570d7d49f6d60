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
  | "damaged"
  | "integrity"
  | "storage";

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

/** A failure of one file, so that only what is kept of that one is forgotten. */
export class FileError extends PteronError {
  /** @internal */
  readonly file: string;

  constructor(code: ErrorCode, file: string, message: string, options?: ErrorOptions) {
    super(code, message, options);
    this.file = file;
  }
}

/** The file behind an address is not the one that was begun with: what was read of it is worth nothing. */
export class FileChanged extends FileError {
  constructor(url: string) {
    super("network", url, `${url} changed on the server while it was being read: load it again`);
  }
}

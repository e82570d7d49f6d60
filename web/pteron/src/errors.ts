/** The kind of a {@link PteronError}. */
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
 * An error with a sentence for people (`message`) and a code to match on (`code`).
 *
 * An abort is not a `PteronError`: it rejects with the signal's reason.
 */
export class PteronError extends Error {
  override readonly name = "PteronError";
  /** The kind of error. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** An error of one file. Only that file's cached bytes are dropped. */
export class FileError extends PteronError {
  /** @internal */
  readonly file: string;

  constructor(code: ErrorCode, file: string, message: string, options?: ErrorOptions) {
    super(code, message, options);
    this.file = file;
  }
}

/** The file at a URL changed while it was read. The bytes read so far are invalid. */
export class FileChanged extends FileError {
  constructor(url: string) {
    super("network", url, `${url} changed on the server while it was being read: load it again`);
  }
}

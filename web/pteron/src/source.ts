import { PteronError } from "./errors.js";

/** The source of bytes: a URL, a file that was picked or dropped, or bytes in memory. */
export type Source = string | URL | File | Blob | ArrayBuffer | Uint8Array;

/** Bytes of a file and their offset in it. */
export interface Chunk {
  start: number;
  bytes: Uint8Array<ArrayBuffer>;
  cached: boolean;
}

/** A file that is read in pieces. */
export interface ByteSource {
  /** Its name in messages. */
  readonly name: string;
  /** Whether reading it `fresh` may return other bytes. */
  readonly remote: boolean;
  size(signal?: AbortSignal): Promise<number>;
  /** The bytes from `start` to before `end`, in order and without gaps. With `fresh`, past every cache. */
  read(start: number, end: number, signal?: AbortSignal, fresh?: boolean): AsyncIterable<Chunk>;
  /** Announces that reads are in ascending order from now on, so that bytes may be dropped once they are read. */
  ascending(): void;
  /** Drops its cached bytes, so that a retry may succeed. */
  forget(): Promise<Forgotten>;
  /** The reason why it is not cached for the next visit; null if it is, or if caching was not requested. */
  readonly notCached: string | null;
  /** The number of its bytes that are on this machine already. */
  readonly cachedBytes: number;
  /** Whether bytes of an earlier visit were returned. */
  readonly usedCache: boolean;
  close(): void;
}

/** The outcome of dropping a file's cached bytes: there were none, they are deleted, or another tab holds them. */
export type Forgotten = "nothing" | "forgotten" | "held";

/** The largest chunk in bytes. */
export const CHUNK = 1 << 20;

/** A file on this machine. */
export class LocalSource implements ByteSource {
  readonly name: string;
  readonly remote = false;
  readonly notCached = null;
  readonly usedCache = false;
  readonly cachedBytes: number;
  readonly #content: Blob | Uint8Array<ArrayBuffer>;

  constructor(content: Blob | ArrayBuffer | Uint8Array) {
    const isOne = [Blob, ArrayBuffer, Uint8Array].some((type) => content instanceof type);
    // A number would be taken for the length of an array.
    if (!isOne) throw new PteronError("input", "a source is an address, a File, a Blob, an ArrayBuffer or a Uint8Array");
    this.#content = content instanceof Blob ? content : view(content);
    this.name = "name" in content && typeof content.name === "string" ? content.name : "the file";
    this.cachedBytes = lengthOf(this.#content);
  }

  async size(): Promise<number> {
    return this.cachedBytes;
  }

  async *read(start: number, end: number, signal?: AbortSignal): AsyncGenerator<Chunk> {
    for (let at = start; at < end; at += CHUNK) {
      signal?.throwIfAborted();
      const bytes = await this.#slice(at, Math.min(at + CHUNK, end));
      signal?.throwIfAborted();
      yield { start: at, bytes, cached: true };
    }
  }

  async #slice(start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
    if (!(this.#content instanceof Blob)) return this.#content.subarray(start, end);
    try {
      return new Uint8Array(await this.#content.slice(start, end).arrayBuffer());
    } catch (cause) {
      throw new PteronError("no-such-file", `${this.name} cannot be read any more: choose it again`, { cause });
    }
  }

  ascending(): void {}

  async forget(): Promise<Forgotten> {
    return "nothing";
  }

  close(): void {}
}

function view(content: ArrayBuffer | Uint8Array): Uint8Array<ArrayBuffer> {
  return content instanceof Uint8Array ? (content as Uint8Array<ArrayBuffer>) : new Uint8Array(content);
}

function lengthOf(content: Blob | Uint8Array): number {
  return content instanceof Blob ? content.size : content.byteLength;
}

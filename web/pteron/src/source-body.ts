import type { Chunk } from "./source.js";

/** The body of a response, read in chunks of any size. */
export class Body {
  /** The offset of the next byte in the file. */
  position: number;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined;
  #rest: Uint8Array<ArrayBuffer> | undefined;

  readonly #stall: number;

  /** Fails if no byte arrives for `stall` milliseconds. */
  constructor(response: Response, position: number, stall: number) {
    this.position = position;
    this.#stall = stall;
    this.#reader = response.body?.getReader();
  }

  /** Returns the next bytes, at most `most`; null at the end. */
  async next(most: number): Promise<Uint8Array<ArrayBuffer> | null> {
    let bytes = this.#rest;
    while (!bytes?.length) {
      const read = await this.#read();
      if (!read || read.done) return null;
      bytes = read.value;
    }
    this.#rest = bytes.length > most ? bytes.subarray(most) : undefined;
    bytes = bytes.subarray(0, most);
    this.position += bytes.length;
    return bytes;
  }

  async #read(): Promise<ReadableStreamReadResult<Uint8Array<ArrayBuffer>> | undefined> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stalled = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing came for ${this.#stall / 1000} seconds`)), this.#stall);
    });
    try {
      return await Promise.race([this.#reader?.read(), stalled]);
    } finally {
      clearTimeout(timer);
    }
  }

  cancel(): void {
    this.#reader?.cancel().catch(() => {});
  }
}

/** Bytes that arrived before they were requested, or that may be requested twice. */
export class Spool {
  /** While set, bytes stay after they are read. */
  keeping = true;
  #kept: { start: number; blob: Blob }[] = [];
  #recent: Uint8Array<ArrayBuffer>[] = [];
  #recentStart = 0;
  #recentLength = 0;

  /** Stores large runs as blobs, which a browser may move to disk. */
  static readonly #BLOB = 8 << 20;

  push(start: number, bytes: Uint8Array<ArrayBuffer>): void {
    if (start !== this.#recentStart + this.#recentLength) this.#seal();
    if (!this.#recentLength) this.#recentStart = start;
    this.#recent.push(bytes);
    this.#recentLength += bytes.length;
    if (this.#recentLength >= Spool.#BLOB) this.#seal();
  }

  #seal(): void {
    if (this.#recentLength) this.#kept.push({ start: this.#recentStart, blob: new Blob(this.#recent) });
    this.#recent = [];
    this.#recentLength = 0;
  }

  /** Returns the buffered bytes from `start`, up to `end` and at most `most`; null if the first one is not here. */
  async take(start: number, end: number, most: number): Promise<Chunk | null> {
    this.#seal();
    if (!this.keeping) this.#kept = this.#kept.filter((run) => run.start + run.blob.size > start);
    const run = this.#kept.find((run) => run.start <= start && start < run.start + run.blob.size);
    if (!run) return null;
    const slice = run.blob.slice(start - run.start, Math.min(end, start + most) - run.start);
    return { start, bytes: new Uint8Array(await slice.arrayBuffer()), cached: false };
  }

  clear(): void {
    this.#kept = [];
    this.#recent = [];
    this.#recentLength = 0;
  }
}

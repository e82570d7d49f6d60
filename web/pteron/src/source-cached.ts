import { type ByteSource, type Chunk, CHUNK, type Forgotten } from "./source.js";
import type { UrlSource } from "./source-url.js";
import { type FileStore, PART } from "./store.js";

/** A file at a URL, cached part by part as it is read. */
export class CachedSource implements ByteSource {
  readonly name: string;
  readonly remote = true;
  readonly #server: UrlSource;
  readonly #store: FileStore;
  /** Set when the tables are known and the whole file is read in order. Before that, single ranges are fetched and not cached. */
  #sequential = false;
  /** Whether parts from an earlier visit are cached. */
  readonly #old: boolean;
  #usedCache = false;

  constructor(server: UrlSource, store: FileStore) {
    this.#old = store.bytes > 0;
    this.name = server.name;
    this.#server = server;
    this.#store = store;
  }

  get notCached(): string | null {
    return this.#store.notCached;
  }

  get cachedBytes(): number {
    return this.#store.bytes;
  }

  get usedCache(): boolean {
    return this.#usedCache;
  }

  async size(signal?: AbortSignal): Promise<number> {
    const known = this.#store.facts?.size;
    if (known != null) return known;
    const size = await this.#server.size(signal);
    if (this.#server.facts) await this.#store.begin(this.#server.facts);
    return size;
  }

  async *read(start: number, end: number, signal?: AbortSignal, fresh = false): AsyncGenerator<Chunk> {
    for (let at = start; at < end; ) {
      signal?.throwIfAborted();
      const part = Math.floor(at / PART);
      const partEnd = Math.min(end, (part + 1) * PART);
      const blob = fresh ? null : await this.#store.read(part);
      if (blob) {
        this.#usedCache = this.#old;
        yield* this.#readCached(blob, part * PART, at, partEnd, signal);
        at = partEnd;
        continue;
      }
      const last = this.#lastMissing(part, end, fresh);
      const stop = Math.min(end, (last + 1) * PART);
      if (this.#sequential && this.#store.keeps) yield* this.#fetchParts(part, last, at, stop, signal, fresh);
      else yield* this.#server.read(at, stop, signal, fresh);
      at = stop;
    }
  }

  async *#readCached(blob: Blob, base: number, start: number, end: number, signal?: AbortSignal): AsyncGenerator<Chunk> {
    for (let at = start; at < end; at += CHUNK) {
      const slice = blob.slice(at - base, Math.min(at + CHUNK, end) - base);
      const bytes = new Uint8Array(await slice.arrayBuffer());
      signal?.throwIfAborted();
      yield { start: at, bytes, cached: true };
    }
  }

  /** The last part, counted from `first`, that one request can fetch. */
  #lastMissing(first: number, end: number, fresh: boolean): number {
    let last = first;
    while ((last + 1) * PART < end && (fresh || !this.#store.has(last + 1))) last++;
    return last;
  }

  /** Fetches whole parts and caches them; yields the bytes from `start` to `end`. */
  async *#fetchParts(
    first: number,
    last: number,
    start: number,
    end: number,
    signal: AbortSignal | undefined,
    fresh: boolean,
  ): AsyncGenerator<Chunk> {
    const stop = last * PART + this.#store.partLength(last);
    let part = first;
    let collected: Uint8Array<ArrayBuffer>[] = [];
    for await (const chunk of this.#server.read(first * PART, stop, signal, fresh)) {
      for (let piece: Chunk | null = chunk; piece; ) {
        const partEnd = part * PART + this.#store.partLength(part);
        const inside = clip(piece, piece.start, partEnd);
        if (inside) collected.push(inside.bytes);
        if (piece.start + piece.bytes.length < partEnd) break;
        await this.#store.write(part++, new Blob(collected));
        collected = [];
        piece = clip(piece, partEnd, Infinity);
      }
      const handed = clip(chunk, start, end);
      if (handed) yield handed;
    }
  }

  ascending(): void {
    this.#sequential = true;
    this.#server.ascending();
  }

  async forget(): Promise<Forgotten> {
    const { bytes, facts } = this.#store;
    const gone = await this.#store.forget();
    if (!gone && facts) return "held";
    return bytes > 0 ? "forgotten" : "nothing";
  }

  /** Remembers that the server has no such file. */
  recordAbsence(): Promise<void> {
    return this.#store.beginAbsent();
  }

  close(): void {
    this.#server.close();
    this.#store.close();
  }
}

/** The bytes of a chunk between two offsets of the file; null if there are none. */
function clip(chunk: Chunk, start: number, end: number): Chunk | null {
  const from = Math.max(start, chunk.start);
  const to = Math.min(end, chunk.start + chunk.bytes.length);
  if (from >= to) return null;
  return { ...chunk, start: from, bytes: chunk.bytes.subarray(from - chunk.start, to - chunk.start) };
}

import { PteronError } from "./errors.js";
import { Body, Spool } from "./source-body.js";
import { checkLimit, checkStatus, checkVersion, factsOf, type FileFacts, ifRange } from "./source-http.js";
import { fetchWithin, pause, Refused, sameOrigin, Truncation } from "./source-http.js";
import { type ByteSource, type Chunk, CHUNK, type Forgotten } from "./source.js";

/** Options for fetching a file from a URL. */
export interface UrlOptions {
  headers?: HeadersInit | undefined;
  redirect?: RequestRedirect | undefined;
  /** The file's description from an earlier visit. */
  facts?: FileFacts | null;
  /** Requests the whole file at once: for small files, whose transfer may then be compressed. */
  whole?: boolean;
  /** Whether bytes may be skipped if a server sends only the whole file. False if the question is whether to download. */
  through?: boolean;
  /** The mode of the browser's HTTP cache. */
  httpCache?: RequestCache;
  /** The reason why it is not cached although that was requested. */
  notCached?: string;
  /** The file may be missing: an unreachable origin is not retried for long. */
  optional?: boolean;
  /** The most bytes to accept. */
  limit?: number | undefined;
  /** Milliseconds before each retry. */
  pauses?: readonly number[];
  /** Milliseconds without a byte after which a response counts as stalled. */
  stall?: number;
}

const STALL = 30_000;

/** The most bytes read from a stream of unknown length: more than any browser's GPU holds. */
const LIMIT = 2 ** 36;

const PAUSES = [300, 1000, 2500, 5000] as const;

/** The bytes of the first request, which often contain all tables of a program. */
const PROBE = 256 << 10;

/** The most bytes to skip if streaming through the file is not allowed. */
const SHORT_WAY = 4 << 20;

/** A file at a URL: fetched in ranges if the server supports them, else as one stream. */
export class UrlSource implements ByteSource {
  readonly name: string;
  readonly remote = true;
  readonly notCached: string | null;
  readonly cachedBytes = 0;
  readonly usedCache = false;
  facts: FileFacts | null;
  readonly #options: UrlOptions;
  readonly #pauses: readonly number[];
  readonly #spool = new Spool();
  /** The stream of a server that sends the whole file. */
  #stream: Body | undefined;

  constructor(url: string, options: UrlOptions = {}) {
    this.name = url;
    this.#options = options;
    this.notCached = options.notCached ?? null;
    this.#pauses = options.pauses ?? PAUSES;
    this.facts = options.facts ?? null;
  }

  async size(signal?: AbortSignal): Promise<number> {
    for (let tries = 0; this.facts?.size == null; tries++) {
      try {
        await this.#probe(signal);
      } catch (error) {
        await this.#again(error, tries, 0, signal);
      }
    }
    return this.facts.size;
  }

  /** Reads the file's description; keeps the bytes that come with the response. */
  async #probe(signal?: AbortSignal): Promise<void> {
    const body = await this.#request(0, PROBE, signal);
    if (body !== this.#stream) {
      while (body.position < PROBE && (await this.#bite(body, PROBE - body.position)));
      body.cancel();
      if (this.facts?.size == null) await this.#askSize(signal);
    } else if (this.facts?.size == null) {
      await this.#drain(body);
    }
  }

  /** Servers of other origins may hide `Content-Range`; the length of the whole is never hidden. */
  async #askSize(signal?: AbortSignal): Promise<void> {
    const response = await this.#fetch({ method: "HEAD" }, signal);
    checkStatus(this.name, response);
    const { size } = factsOf(response, false);
    if (size === null || !this.facts) throw new PteronError("network", `${this.name}: the server does not say how long it is`);
    this.facts = { ...this.facts, size };
    if (response.type === "cors") await this.#checkEnd(size, signal);
  }

  /** Another origin may hide that the length is that of a compressed transfer: then bytes follow the supposed last one. */
  async #checkEnd(size: number, signal?: AbortSignal): Promise<void> {
    const response = await this.#fetch({ headers: { Range: `bytes=${size}-${size}` } }, signal);
    void response.body?.cancel().catch(() => {});
    if (response.status === 206) throw this.#surplus(size);
  }

  #surplus(size: number): PteronError {
    const sentence = `the server announced ${size} bytes and sends more; turn off compression for this file there`;
    return new PteronError("network", `${this.name}: ${sentence}`);
  }

  /** Reads a stream to its end to learn the length of the file. */
  async #drain(body: Body): Promise<void> {
    if (!this.#options.through && !this.#options.whole) {
      throw new PteronError("network", `${this.name}: the server does not say how long it is, so only a download can tell`);
    }
    this.#spool.clear();
    while (await this.#bite(body, CHUNK));
    if (this.facts) this.facts = { ...this.facts, size: body.position };
  }

  async *read(start: number, end: number, signal?: AbortSignal, fresh = false): AsyncGenerator<Chunk> {
    if (fresh) this.#restart();
    let at = start;
    for (let tries = 0; at < end; ) {
      try {
        const chunk = await this.#spool.take(at, end, CHUNK);
        if (chunk) {
          at += chunk.bytes.length;
          yield chunk;
          continue;
        }
        for await (const bytes of this.#ranged(at, end, signal, fresh)) {
          tries = 0;
          at += bytes.length;
          yield { start: at - bytes.length, bytes, cached: false };
        }
        if (at < end) throw new Truncation("the stream ended early");
      } catch (error) {
        await this.#again(error, tries++, at, signal, end);
      }
    }
  }

  /** Drops buffered bytes: the next read must come from the server. */
  #restart(): void {
    this.close();
    this.#spool.clear();
  }

  /** Yields the bytes of one response, in order. While tables are read, requests a little more and keeps all bytes. */
  async *#ranged(
    start: number,
    end: number,
    signal: AbortSignal | undefined,
    fresh: boolean,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const open = this.#stream && this.#stream.position <= start ? this.#stream : undefined;
    const ahead = this.#spool.keeping && !fresh;
    const from = ahead && start < PROBE ? 0 : start;
    const stop = ahead ? Math.max(end, from + PROBE) : end;
    const body = open ?? (await this.#request(from, stop, signal, fresh));
    try {
      await this.#passOver(body, start, signal);
      for (let bytes; body.position < end && (bytes = await this.#bite(body, Math.min(CHUNK, end - body.position))); ) {
        signal?.throwIfAborted();
        // Extra bytes must be noticed before the last bytes are passed on and cached.
        if (body === this.#stream && body.position === this.facts?.size) await this.#bite(body, 1);
        yield bytes;
      }
      if (body !== this.#stream) while (body.position < stop && (await this.#bite(body, stop - body.position)));
    } finally {
      if (body !== this.#stream) body.cancel();
    }
  }

  async #passOver(body: Body, start: number, signal?: AbortSignal): Promise<void> {
    if (start - body.position > SHORT_WAY && !this.#options.through) {
      throw new PteronError("network", `${this.name}: the server cannot send parts of it, so only a download can tell`);
    }
    while (body.position < start) {
      const bytes = await this.#bite(body, Math.min(CHUNK, start - body.position));
      signal?.throwIfAborted();
      if (!bytes) return;
    }
  }

  /** Returns the next bytes of a response. A stream that failed or ended is not read again. */
  async #bite(body: Body, most: number): Promise<Uint8Array<ArrayBuffer> | null> {
    let bytes: Uint8Array<ArrayBuffer> | null = null;
    try {
      bytes = await body.next(most);
    } catch (cause) {
      body.cancel();
      throw new Truncation(`the stream broke: ${String(cause)}`, { cause });
    } finally {
      if (!bytes && body === this.#stream) this.#stream = undefined;
    }
    const size = this.facts?.size;
    if (bytes && size != null && body.position > size) throw this.#surplus(size);
    if (bytes) checkLimit(this.name, body.position, this.#options.limit ?? LIMIT);
    if (bytes && this.#spool.keeping) this.#spool.push(body.position - bytes.length, bytes);
    return bytes;
  }

  /** Requests bytes from `start` on. If the server sends the whole file instead, the response becomes {@link #stream}. */
  async #request(start: number, end: number, signal?: AbortSignal, fresh = false): Promise<Body> {
    const headers: Record<string, string> = {};
    if (!this.#options.whole || start > 0) headers["Range"] = `bytes=${start}-${end - 1}`;
    const version = ifRange(this.name, this.facts);
    if (version && headers["Range"]) headers["If-Range"] = version;
    const response = await this.#fetch({ headers, ...(fresh && { cache: "reload" }) }, signal);
    try {
      checkStatus(this.name, response);
      checkVersion(this.name, response, start, this.facts, !!this.#options.whole);
    } catch (error) {
      void response.body?.cancel().catch(() => {});
      throw error;
    }
    this.facts ??= factsOf(response, !!this.#options.whole);
    const stall = this.#options.stall ?? STALL;
    if (response.status === 206) return new Body(response, start, stall);
    this.close();
    return (this.#stream = new Body(response, 0, stall));
  }

  #fetch(init: RequestInit, signal?: AbortSignal): Promise<Response> {
    const headers = new Headers(this.#options.headers);
    for (const [name, value] of Object.entries(init.headers ?? {})) headers.set(name, value);
    const cache = init.cache ?? this.#options.httpCache ?? "default";
    const { redirect = "follow", stall = STALL } = this.#options;
    return fetchWithin(stall, this.name, { ...init, headers, cache, redirect }, signal);
  }

  /** Asks the server whether the file is unchanged; throws if it is not. */
  async revalidate(signal?: AbortSignal): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        const body = await this.#request(0, 1, signal);
        body.cancel();
        this.#stream = undefined;
        return;
      } catch (error) {
        await this.#again(error, tries, 0, signal);
      }
    }
  }

  /** Handles a failure: waits for the next retry, or throws the final error. */
  async #again(error: unknown, tries: number, got: number, signal?: AbortSignal, expected = this.facts?.size): Promise<void> {
    signal?.throwIfAborted();
    if (error instanceof PteronError) throw error;
    // The error of `fetch` has no details. For another origin, the cause is mostly a missing CORS permission.
    const unreachable = error instanceof TypeError && !!this.#options.optional && !sameOrigin(this.name);
    const pauses = unreachable ? this.#pauses.slice(0, 1) : this.#pauses;
    const wait = pauses[tries];
    if (wait !== undefined) return pause(wait, signal);
    const reason = error instanceof Error ? error.message : String(error);
    const bytes = expected == null ? "" : ` after ${got} of ${expected} bytes`;
    const sentence = `${this.name} could not be fetched${bytes}, in ${pauses.length + 1} tries: ${reason}`;
    if (unreachable) throw new Refused(sentence, { cause: error });
    throw new PteronError(error instanceof Truncation ? "truncated" : "network", sentence, { cause: error });
  }

  ascending(): void {
    this.#spool.keeping = false;
  }

  async forget(): Promise<Forgotten> {
    return "nothing";
  }

  close(): void {
    this.#stream?.cancel();
    this.#stream = undefined;
  }
}

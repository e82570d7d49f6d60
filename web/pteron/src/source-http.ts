import { FileChanged, PteronError } from "./errors.js";
import { formatBytes } from "./format.js";

/** A file as described by its server. */
export interface FileFacts {
  /** Null if the server does not send it. */
  size: number | null;
  etag: string | null;
  lastModified: string | null;
}

/** A temporary server error: a retry may succeed. */
class Busy extends Error {}

/** A file that may exist but is not accessible: the server denies it, or another origin cannot be reached. */
export class Refused extends PteronError {
  constructor(message: string, options?: ErrorOptions) {
    super("network", message, options);
  }
}

/** A response that ended early. */
export class Truncation extends Error {}

/** Whether a URL has the page's origin: only then may requests carry headers that another origin would have to allow. */
export function sameOrigin(url: string): boolean {
  return typeof location === "undefined" || new URL(url).origin === location.origin;
}

/** The `If-Range` header, which asks for a range of the known version only. Other origins would have to allow it first. */
export function ifRange(url: string, facts: FileFacts | null): string | null {
  if (!facts || !sameOrigin(url)) return null;
  return facts.etag && !facts.etag.startsWith("W/") ? facts.etag : facts.lastModified;
}

/** Waits for a time, or until the signal aborts. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const called = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", called);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", called, { once: true });
  });
}

/** Fetches, with a timeout in milliseconds until the response begins. The signal aborts the body, too. */
export async function fetchWithin(stall: number, url: string, init: RequestInit, signal?: AbortSignal): Promise<Response> {
  const controller = new AbortController();
  const calledOff = () => controller.abort(signal?.reason);
  if (signal?.aborted) calledOff();
  signal?.addEventListener("abort", calledOff, { once: true });
  const timer = setTimeout(() => controller.abort(new Error(`no answer came for ${stall / 1000} seconds`)), stall);
  try {
    return await fetch(url, { ...init, signal: controller.signal });
  } finally {
    clearTimeout(timer);
  }
}

/** Rejects a file that is longer than its kind allows. */
export function checkLimit(name: string, size: number, limit: number): void {
  if (size > limit) throw new PteronError("bad-file", `${name} has more than the ${formatBytes(limit)} that such a file may have`);
}

/** Rejects a response that is not a file. */
export function checkStatus(url: string, response: Response): void {
  const { status } = response;
  const said = `${status} ${response.statusText}`.trim();
  if (status === 404 || status === 410) throw new PteronError("no-such-file", `${url}: the server has no such file (${said})`);
  if (status === 408 || status === 429 || status >= 500) throw new Busy(`the server answered ${said}`);
  if (status === 416) return;
  if (status === 401 || status === 403) throw new Refused(`${url}: the server answered ${said}`);
  if (!response.ok) throw new PteronError("network", `${url}: the server answered ${said}`);
  if (response.headers.get("Content-Type")?.startsWith("text/html")) {
    throw new PteronError("no-such-file", `${url} is a web page, not a model's file: check the address`);
  }
}

/** Parses a number of bytes; null if it is malformed. */
function wholeNumber(text: string): number | null {
  const value = Number(text);
  return Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** The size of the whole file and the start of the response, from `Content-Range: bytes 0-9/100`. */
function contentRange(response: Response): { start: number | null; size: number | null } {
  const found = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(response.headers.get("Content-Range") ?? "");
  const number = (text: string | undefined) => (text && text !== "*" ? wholeNumber(text) : null);
  return { start: number(found?.[1]), size: number(found?.[2]) };
}

/**
 * Reads the file's description from a response. `Content-Length` is the length of the file only if the transfer is not compressed,
 * which another origin may hide. So it is used for large files, where extra bytes are noticed, and never for a `whole` request.
 */
export function factsOf(response: Response, whole: boolean): FileFacts {
  const { headers } = response;
  let { size } = contentRange(response);
  const plain = (headers.get("Content-Encoding") ?? "identity") === "identity";
  const length = headers.get("Content-Length");
  if (response.status === 200 && plain && !whole && length !== null) size = wholeNumber(length);
  return { size, etag: headers.get("ETag"), lastModified: headers.get("Last-Modified") };
}

const strong = (etag: string) => etag.replace(/^W\//, "");

/** Whether a response belongs to another version of the file than `known`. */
function differs(known: FileFacts, now: FileFacts): boolean {
  if (known.size !== null && now.size !== null && known.size !== now.size) return true;
  if (known.etag && now.etag) return strong(known.etag) !== strong(now.etag);
  return !!known.lastModified && !!now.lastModified && known.lastModified !== now.lastModified;
}

/** Rejects a response that belongs to another version of the file, or does not start at `start`. */
export function checkVersion(url: string, response: Response, start: number, known: FileFacts | null, whole: boolean): void {
  if (known && (response.status === 416 || differs(known, factsOf(response, whole)))) throw new FileChanged(url);
  if (response.status === 416) throw new PteronError("truncated", `${url} is empty: 0 bytes`);
  const range = response.status === 206 ? contentRange(response).start : null;
  if (range !== null && range !== start) {
    throw new PteronError("network", `${url}: asked for bytes from ${start} on, the server sent those from ${range} on`);
  }
}

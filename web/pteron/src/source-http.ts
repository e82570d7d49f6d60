import { FileChanged, PteronError } from "./errors.js";
import { formatBytes } from "./format.js";

/** What a server says about a file. */
export interface FileFacts {
  /** Null where the server does not say it. */
  size: number | null;
  etag: string | null;
  lastModified: string | null;
}

/** A server that may do better at the next try. */
class Busy extends Error {}

/** A file that may be there and is not handed out: the server says no, or another origin cannot be reached. */
export class Refused extends PteronError {
  constructor(message: string, options?: ErrorOptions) {
    super("network", message, options);
  }
}

/** An answer that stopped before its end. */
export class Truncation extends Error {}

/** Whether requests to it may carry headers that need no leave of another origin. */
export function sameOrigin(url: string): boolean {
  return typeof location === "undefined" || new URL(url).origin === location.origin;
}

/** The header that asks a server to send a range only of the file that is meant. Other origins would have to allow it first. */
export function ifRange(url: string, facts: FileFacts | null): string | null {
  if (!facts || !sameOrigin(url)) return null;
  return facts.etag && !facts.etag.startsWith("W/") ? facts.etag : facts.lastModified;
}

/** Waits, unless the signal calls it off. */
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

/** Fetches; a server that does not begin to answer for so many milliseconds is given up. The signal holds for the body, too. */
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

/** Refuses a file that is longer than one of its kind can be. */
export function checkLimit(name: string, size: number, limit: number): void {
  if (size > limit) throw new PteronError("bad-file", `${name} has more than the ${formatBytes(limit)} that such a file may have`);
}

/** Refuses an answer that is no file. */
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

/** A number of bytes; null where a server says nonsense. */
function wholeNumber(text: string): number | null {
  const value = Number(text);
  return Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** The size of the whole file by `Content-Range: bytes 0-9/100`, and where the answer starts. */
function contentRange(response: Response): { start: number | null; size: number | null } {
  const found = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(response.headers.get("Content-Range") ?? "");
  const number = (text: string | undefined) => (text && text !== "*" ? wholeNumber(text) : null);
  return { start: number(found?.[1]), size: number(found?.[2]) };
}

/**
 * What an answer says about the file. `Content-Length` is the file's only where the transfer is not compressed, which another
 * origin may hide: it is taken for one of many bytes, where a surplus is noticed, and never for a file that is asked for `whole`.
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

/** Whether an answer belongs to another version of the file than `known`. */
function differs(known: FileFacts, now: FileFacts): boolean {
  if (known.size !== null && now.size !== null && known.size !== now.size) return true;
  if (known.etag && now.etag) return strong(known.etag) !== strong(now.etag);
  return !!known.lastModified && !!now.lastModified && known.lastModified !== now.lastModified;
}

/** Refuses an answer that belongs to another version of the file, or to other bytes of it than those from `start` on. */
export function checkVersion(url: string, response: Response, start: number, known: FileFacts | null, whole: boolean): void {
  if (known && (response.status === 416 || differs(known, factsOf(response, whole)))) throw new FileChanged(url);
  if (response.status === 416) throw new PteronError("truncated", `${url} is empty: 0 bytes`);
  const range = response.status === 206 ? contentRange(response).start : null;
  if (range !== null && range !== start) {
    throw new PteronError("network", `${url}: asked for bytes from ${start} on, the server sent those from ${range} on`);
  }
}

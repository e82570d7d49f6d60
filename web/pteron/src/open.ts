import { FileChanged, PteronError } from "./errors.js";
import { Digests, IntegrityError, type Manifest, readChecked, type Verifier } from "./integrity.js";
import { type ByteSource, LocalSource, type Source } from "./source.js";
import { CachedSource } from "./source-cached.js";
import { checkLimit, Refused } from "./source-http.js";
import { type UrlOptions, UrlSource } from "./source-url.js";
import { absoluteUrl, FileStore } from "./store.js";

/** Options for reading files. */
export interface FetchOptions {
  /** Caches downloaded files in the browser for the next visit. Default: true. */
  cache?: boolean;
  /** Asks the server whether a cached file has changed. Default: false, so that a later visit needs no network. */
  revalidate?: boolean;
  /** Headers for requests, such as `Authorization`. They go to the origin of the model only. */
  headers?: HeadersInit;
  /**
   * The expected files: the manifest that `pteron-manifest` wrote, or `sha256-…`, the digest of the manifest beside the model
   * (`model.pte.manifest.json`). Every file must then be in the manifest.
   */
  integrity?: string | Manifest;
  /** With `"error"`, a redirect fails. Default: `"follow"`. */
  redirect?: "follow" | "error";
  /** Aborts the operation; the promise then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** How a file is opened. */
interface Purpose {
  /** Downloaded parts are cached. */
  write: boolean;
  /** The file is small and requested whole. */
  small?: boolean;
  /** The file may be missing. */
  optional?: boolean;
  /** The model that the file belongs to. */
  beside?: string | null;
  /** The largest allowed size in bytes. */
  limit?: number;
}

/** Size limit: the largest tokenizers have some tens of megabytes, and a larger file could exhaust the tab's memory. */
const SMALL_LIMIT = 128 << 20;


/** The URL of a source; null for files and bytes. */
export function urlOf(source: Source): string | null {
  return typeof source === "string" || source instanceof URL ? absoluteUrl(source) : null;
}

/** Options for a file that belongs to a model. Headers may hold secrets, so they are not sent to another origin. */
export function optionsFor(file: Source, model: Source, options: FetchOptions): FetchOptions {
  const [its, own] = [urlOf(file), urlOf(model)];
  if (its === null || own === null || new URL(its).origin === new URL(own).origin) return options;
  const { headers: _, ...others } = options;
  return others;
}

export async function openSource(source: Source, options: FetchOptions, purpose: Purpose): Promise<ByteSource> {
  if (typeof source !== "string" && !(source instanceof URL)) return new LocalSource(source);
  const url = absoluteUrl(source);
  const { headers, redirect } = options;
  const { small = false, write, optional = false, limit } = purpose;
  const http = { headers, redirect, whole: small, through: write, optional, limit };
  if (options.cache === false) return new UrlSource(url, http);
  const store = await FileStore.open(url, purpose.write, purpose.beside ?? null);
  if (typeof store === "string") return new UrlSource(url, { ...http, notCached: store });
  try {
    options.signal?.throwIfAborted();
    return await openCached(url, store, http, options);
  } catch (error) {
    store.close();
    throw error;
  }
}

async function openCached(url: string, store: FileStore, http: UrlOptions, options: FetchOptions): Promise<ByteSource> {
  const known = () => store.facts && !store.facts.absent;
  // The browser's HTTP cache would store the model a second time.
  const server = () => new UrlSource(url, { ...http, httpCache: "no-store", facts: known() ? store.facts : null });
  if (options.revalidate && known()) {
    try {
      await server().revalidate(options.signal);
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error;
      await store.forget();
    }
  }
  if (store.facts?.absent && !options.revalidate) {
    throw new PteronError("no-such-file", `${url}: the server had no such file`);
  }
  return new CachedSource(server(), store);
}

/**
 * Reads and checks a small file that belongs to a model. With `refused` the file is optional: the result is null if the server has
 * no such file or denies it, and `refused` is called with the reason. Only a missing file is remembered: a denied one may be
 * allowed later.
 */
export async function readFile(
  file: Source,
  model: Source,
  options: FetchOptions,
  verifier: Verifier,
  refused?: (reason: string) => void,
): Promise<Uint8Array<ArrayBuffer> | null> {
  let own = optionsFor(file, model, options);
  const purpose = { write: true, small: true, optional: !!refused, beside: urlOf(model), limit: SMALL_LIMIT };
  for (let tries = 0; ; tries++) {
    let opened: ByteSource | undefined;
    try {
      opened = await openSource(file, own, purpose);
      // A stream of unknown length is buffered while it is measured, so this comes first.
      const size = await opened.size(own.signal);
      checkLimit(opened.name, size, SMALL_LIMIT);
      opened.ascending();
      return await readChecked(opened, [0, size], verifier, own.signal);
    } catch (error) {
      const stale = error instanceof FileChanged || (error instanceof IntegrityError && error.cached);
      if (stale && tries < 2) {
        // Another tab may hold the cached file: then the cache is bypassed.
        if ((await opened?.forget()) === "held") own = { ...own, cache: false };
      } else if (!refused || !(await isAbsent(error, opened, refused))) {
        throw error;
      } else {
        if (verifier instanceof Digests) verifier.checkAbsence(urlOf(file)!, error);
        return null;
      }
    } finally {
      opened?.close();
    }
  }
}

/** Whether an error means that there is no such file, as far as this page can see. */
async function isAbsent(error: unknown, opened: ByteSource | undefined, refused: (reason: string) => void): Promise<boolean> {
  if (!(error instanceof PteronError)) return false;
  if (error.code === "no-such-file") {
    if (opened instanceof CachedSource) await opened.recordAbsence();
    return true;
  }
  if (error instanceof Refused) refused(error.message);
  return error instanceof Refused;
}

import { FileChanged, PteronError } from "./errors.js";
import { Digests, IntegrityError, type Manifest, readChecked, type Verifier } from "./integrity.js";
import { type ByteSource, LocalSource, type Source } from "./source.js";
import { CachedSource } from "./source-cached.js";
import { checkLimit, Refused } from "./source-http.js";
import { type UrlOptions, UrlSource } from "./source-url.js";
import { absoluteUrl, FileStore } from "./store.js";

/** How files are reached. */
export interface FetchOptions {
  /** Keeps files that come from an address in the browser, for the next visit. Default: true. */
  cache?: boolean;
  /** Asks the server whether a file that is kept has changed. Default: false, so that a later visit needs no network. */
  revalidate?: boolean;
  /** Headers for requests, such as `Authorization`. They go to the origin of the model only. */
  headers?: HeadersInit;
  /**
   * What the files must be: the manifest that `pteron-manifest` wrote, or `sha256-…`, the digest of the manifest beside the model
   * (`model.pte.manifest.json`). Every file must then be in it.
   */
  integrity?: string | Manifest;
  /** With `"error"`, a server may not send requests on to another address. Default: `"follow"`. */
  redirect?: "follow" | "error";
  /** Calls everything off; the promise then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** What a file is opened for. */
interface Purpose {
  /** Parts that come are kept. */
  write: boolean;
  /** It is small: asked for whole. */
  small?: boolean;
  /** It may be missing. */
  optional?: boolean;
  /** The model that it belongs to. */
  beside?: string | null;
  /** The most bytes that it may have. */
  limit?: number;
}

/** The largest tokenizers have some tens of megabytes; whoever sends more would fill the memory of the tab. */
const SMALL_LIMIT = 128 << 20;


/** The address of a source; null for files and bytes. */
export function urlOf(source: Source): string | null {
  return typeof source === "string" || source instanceof URL ? absoluteUrl(source) : null;
}

/** Options for a file that belongs to a model: headers may hold secrets, and those of one origin are not another's business. */
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
  // The browser's own cache would hold a model a second time.
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
 * A small file that belongs to a model, as bytes that were checked. With `refused` it is optional: null says that the server has no
 * such file, or does not hand it out, and `refused` hears why. Only the first is remembered: a server may hand it out another day.
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
      // A stream whose length nobody says is kept while it is measured, so this comes first.
      const size = await opened.size(own.signal);
      checkLimit(opened.name, size, SMALL_LIMIT);
      opened.ascending();
      return await readChecked(opened, [0, size], verifier, own.signal);
    } catch (error) {
      const stale = error instanceof FileChanged || (error instanceof IntegrityError && error.cached);
      if (stale && tries < 2) {
        // Another tab may hold what is kept: then it is read past.
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

/** Whether a failure says that there is no such file, as far as this page can see. */
async function isAbsent(error: unknown, opened: ByteSource | undefined, refused: (reason: string) => void): Promise<boolean> {
  if (!(error instanceof PteronError)) return false;
  if (error.code === "no-such-file") {
    if (opened instanceof CachedSource) await opened.recordAbsence();
    return true;
  }
  if (error instanceof Refused) refused(error.message);
  return error instanceof Refused;
}

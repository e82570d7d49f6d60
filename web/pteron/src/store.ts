import { PteronError } from "./errors.js";
import { formatBytes } from "./format.js";
import { FACTS, openBlobStore, type BlobStore } from "./blob-store.js";
import type { FileFacts } from "./source-http.js";

/** Files are cached in parts of this many bytes; only complete parts count. */
export const PART = 8 << 20;

const VERSION = 1;

/** The reason for not caching a file that another tab holds. */
export const HELD = "another tab, or another load, is keeping it";
/** The reason for not caching a file that was deleted during the download. */
export const DELETED = "it was deleted from the cache meanwhile";

/** Metadata stored beside the parts of a file. */
export interface StoredFacts extends FileFacts {
  version: number;
  url: string;
  partSize: number;
  /** The model that it belongs to; it is deleted with the model. */
  beside: string | null;
  /** The server has no such file. */
  absent: boolean;
}

async function folderOf(url: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function readFacts(blobs: BlobStore, folder: string): Promise<StoredFacts | null> {
  try {
    const facts = JSON.parse((await (await blobs.get(folder, FACTS))?.text()) ?? "null") as StoredFacts | null;
    return facts?.version === VERSION && facts.partSize === PART ? facts : null;
  } catch {
    return null;
  }
}

let askedToPersist = false;

/** Asks the browser, once, for persistent storage. Some browsers prompt the user; nothing waits for that. */
function askToPersist(): void {
  if (askedToPersist) return;
  askedToPersist = true;
  void navigator.storage.persist?.().catch(() => {});
}

/** Acquires a lock shared with other tabs and returns a function that releases it; null if another tab has it. */
async function lock(name: string): Promise<(() => void) | null> {
  if (!navigator.locks) return () => {};
  return new Promise((resolve, reject) => {
    const held = (lock: Lock | null) => {
      if (!lock) return resolve(null);
      return new Promise<void>((release) => resolve(release));
    };
    navigator.locks.request(`pteron:${name}`, { ifAvailable: true }, held).catch(reject);
  });
}

/** The cached parts of one file. Errors never reach the caller: they become the reason for not caching. */
export class FileStore {
  facts: StoredFacts | null = null;
  /** The reason why nothing (more) is cached; null if caching works. */
  notCached: string | null = null;
  readonly #url: string;
  readonly #beside: string | null;
  readonly #blobs: BlobStore;
  readonly #folder: string;
  #parts = new Set<number>();
  #release: (() => void) | null = null;

  private constructor(url: string, beside: string | null, blobs: BlobStore, folder: string) {
    this.#url = url;
    this.#beside = beside;
    this.#blobs = blobs;
    this.#folder = folder;
  }

  /** Opens the cache of a file, for writing if `write` is set; returns the reason if the browser stores nothing. */
  static async open(url: string, write: boolean, beside: string | null = null): Promise<FileStore | string> {
    try {
      const blobs = await openBlobStore();
      if (!blobs) return "this browser keeps no files for this page (a private window, or not https)";
      const store = new FileStore(url, beside, blobs, await folderOf(url));
      // The lock comes first: anything read without it may change before it is held.
      if (write) store.#release = await lock(store.#folder);
      if (write && !store.#release) store.notCached = HELD;
      await store.#look();
      return store;
    } catch (error) {
      return `the browser's storage failed: ${String(error)}`;
    }
  }

  async #look(): Promise<void> {
    this.facts = await readFacts(this.#blobs, this.#folder);
    if (this.facts?.size == null) return;
    for (const [name, size] of await this.#blobs.sizes(this.#folder)) {
      const part = /^\d+$/.test(name) ? Number(name) : -1;
      if (size > 0 && size === this.partLength(part)) this.#parts.add(part);
    }
  }

  get #writable(): boolean {
    return this.#release !== null && this.notCached === null;
  }

  /** Whether missing parts should be fetched whole, to be cached. */
  get keeps(): boolean {
    return this.#writable && this.facts?.size != null;
  }

  get bytes(): number {
    return [...this.#parts].reduce((sum, part) => sum + this.partLength(part), 0);
  }

  partLength(part: number): number {
    return Math.min(PART, (this.facts?.size ?? 0) - part * PART);
  }

  has(part: number): boolean {
    return this.#parts.has(part);
  }

  /** Starts to cache a file with this description from the server. */
  async begin(facts: FileFacts): Promise<void> {
    if (!this.#writable) return;
    await this.#keep(async () => {
      const { quota, usage } = await navigator.storage.estimate();
      const room = (quota ?? Infinity) - (usage ?? 0);
      // Browsers round the estimate and count their own files, too.
      const need = (facts.size ?? 0) * 1.02;
      if (need > room) {
        this.notCached = `it needs ${formatBytes(need)} of storage and the browser has ${formatBytes(Math.max(room, 0))} left`;
        return;
      }
      await this.#write(facts, false);
      askToPersist();
    });
  }

  /** Records that the server has no such file. */
  async beginAbsent(): Promise<void> {
    if (this.#writable) await this.#keep(() => this.#write({ size: null, etag: null, lastModified: null }, true));
  }

  async #write({ size, etag, lastModified }: FileFacts, absent: boolean): Promise<void> {
    await this.#blobs.delete(this.#folder);
    const shared = { version: VERSION, url: this.#url, partSize: PART, beside: this.#beside };
    const facts: StoredFacts = { ...shared, size, etag, lastModified, absent };
    await this.#blobs.put(this.#folder, FACTS, new Blob([JSON.stringify(facts)]));
    this.facts = facts;
    this.#parts.clear();
  }

  /** Returns a complete part, or null. */
  async read(part: number): Promise<Blob | null> {
    if (!this.#parts.has(part)) return null;
    const blob = await this.#blobs.get(this.#folder, String(part)).catch(() => null);
    if (blob?.size === this.partLength(part)) return blob;
    this.#parts.delete(part);
    return null;
  }

  async write(part: number, content: Blob): Promise<void> {
    this.#parts.delete(part);
    if (!this.#writable || content.size !== this.partLength(part)) return;
    await this.#keep(async () => {
      if (!(await this.#begun())) return;
      await this.#blobs.put(this.#folder, String(part), content);
      if (await this.#begun()) this.#parts.add(part);
      // The file was deleted while the part was written, which created its folder again.
      else await this.#blobs.delete(this.#folder);
    });
  }

  /** Whether the metadata still exists. Parts without metadata are orphaned. */
  async #begun(): Promise<boolean> {
    if (await this.#blobs.get(this.#folder, FACTS)) return true;
    this.notCached = DELETED;
    this.#parts.clear();
    return false;
  }

  async #keep(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const full = error instanceof DOMException && error.name === "QuotaExceededError";
      this.notCached = full ? "the browser's storage is full" : `the browser's storage failed: ${String(error)}`;
    }
  }

  /** Drops the cached file and returns whether it was deleted; a file that another tab holds is left alone. */
  async forget(): Promise<boolean> {
    this.facts = null;
    this.#parts.clear();
    const release = this.#release ?? (await lock(this.#folder).catch(() => null));
    if (!release) return false;
    await this.#blobs.delete(this.#folder).catch(() => {});
    if (release !== this.#release) release();
    return true;
  }

  close(): void {
    this.#release?.();
    this.#release = null;
  }
}

/** Digests are stored apart from the file, so that they outlive bytes that turn out to be damaged. */
const pinsFolder = (folder: string) => `${folder}.pins`;
const PINS = "pins.json";

/** The digests that earlier loads saw of a model's files; null if there were none, or nothing can be stored. */
export async function readPins(model: string): Promise<unknown> {
  try {
    const blob = await (await openBlobStore())?.get(pinsFolder(await folderOf(model)), PINS);
    return blob ? JSON.parse(await blob.text()) : null;
  } catch {
    return null;
  }
}

/** Stores digests. Without room, the next load has nothing to compare with. */
export async function writePins(model: string, pins: unknown): Promise<void> {
  try {
    await (await openBlobStore())?.put(pinsFolder(await folderOf(model)), PINS, new Blob([JSON.stringify(pins)]));
  } catch {
    // As in a browser without storage.
  }
}

/** A file cached in this browser. */
export interface CachedFile {
  url: string;
  /** The number of its bytes that are cached. */
  bytes: number;
  totalBytes: number;
  /** Whether the file loads without the network. */
  complete: boolean;
}

interface Stored {
  blobs: BlobStore;
  folder: string;
  /** Null if its metadata is missing. */
  facts: StoredFacts | null;
}

async function stored(): Promise<Stored[]> {
  const blobs = await openBlobStore();
  if (!blobs) return [];
  const folders = await blobs.folders();
  return Promise.all(folders.map(async (folder) => ({ blobs, folder, facts: await readFacts(blobs, folder) })));
}

async function deleteWhere(doomed: (entry: Stored) => boolean): Promise<void> {
  try {
    for (const entry of await stored()) if (doomed(entry)) await entry.blobs.delete(entry.folder);
  } catch (cause) {
    throw new PteronError("storage", `the browser's storage failed: ${String(cause)}`, { cause });
  }
}

/** Deletes the files that belong to a model, not the model. */
export function forgetBeside(model: string): Promise<void> {
  return deleteWhere(({ facts }) => facts?.beside === model);
}

/** The files that this package caches in the browser between visits. */
export const cache = {
  /** Lists the cached files, without those beside a model (its tokenizer). */
  async list(): Promise<CachedFile[]> {
    const files = [];
    for (const { facts } of await stored()) {
      if (!facts || facts.beside !== null || facts.size === null) continue;
      const store = await FileStore.open(facts.url, false);
      if (typeof store === "string") continue;
      files.push({ url: facts.url, bytes: store.bytes, totalBytes: facts.size, complete: store.bytes === facts.size });
    }
    return files;
  },

  /** Deletes a file and the files beside it. */
  async delete(url: string | URL): Promise<void> {
    const absolute = absoluteUrl(url);
    const own = await folderOf(absolute);
    await deleteWhere(({ folder, facts }) => folder === own || folder === pinsFolder(own) || facts?.beside === absolute);
  },

  /** Deletes everything. */
  async clear(): Promise<void> {
    await deleteWhere(() => true);
  },

  /** The bytes that the browser stores for this origin, and its quota; zeros if unknown. */
  async estimate(): Promise<{ usage: number; quota: number }> {
    const { usage = 0, quota = 0 } = (await globalThis.navigator?.storage?.estimate?.()) ?? {};
    return { usage, quota };
  },
};

/** Normalises a URL for requests and cache keys. */
export function absoluteUrl(url: string | URL): string {
  const absolute = parseUrl(url);
  absolute.hash = "";
  return absolute.href;
}

function parseUrl(url: string | URL): URL {
  try {
    return new URL(url, typeof location === "undefined" ? undefined : location.href);
  } catch (cause) {
    throw new PteronError("input", `${String(url)} is not an address`, { cause });
  }
}

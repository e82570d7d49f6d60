import { PteronError } from "./errors.js";
import { formatBytes } from "./format.js";
import { FACTS, openBlobStore, type BlobStore } from "./blob-store.js";
import type { FileFacts } from "./source-http.js";

/** Files are kept in parts of this many bytes; a part counts when it is whole. */
export const PART = 8 << 20;

const VERSION = 1;

/** Why a file is not kept that another tab holds. */
export const HELD = "another tab, or another load, is keeping it";
/** Why a file is not kept that somebody deleted while it came. */
export const DELETED = "it was deleted from the cache meanwhile";

/** What is written down beside the parts of a file. */
export interface StoredFacts extends FileFacts {
  version: number;
  url: string;
  partSize: number;
  /** The model that it lies beside; it goes when the model goes. */
  beside: string | null;
  /** There is no such file on the server. */
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

/** Asks the browser, once, not to drop what is kept when room gets short. Some ask the user: nothing waits for that. */
function askToPersist(): void {
  if (askedToPersist) return;
  askedToPersist = true;
  void navigator.storage.persist?.().catch(() => {});
}

/** Takes a lock that other tabs see; null where one of them has it. Answers how to give it back. */
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

/** What is kept of one file. Failures never reach the caller: they are a reason not to keep it. */
export class FileStore {
  facts: StoredFacts | null = null;
  /** Why nothing (more) is kept; null where it is. */
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

  /** Opens what is kept of a file, to add to it if `write` is set; answers why not where a browser keeps nothing. */
  static async open(url: string, write: boolean, beside: string | null = null): Promise<FileStore | string> {
    try {
      const blobs = await openBlobStore();
      if (!blobs) return "this browser keeps no files for this page (a private window, or not https)";
      const store = new FileStore(url, beside, blobs, await folderOf(url));
      // The lock comes first: what is looked at without it may change before it is held.
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

  /** Whether parts that are missing should be fetched whole, to be kept. */
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

  /** Begins to keep a file that the server describes so. */
  async begin(facts: FileFacts): Promise<void> {
    if (!this.#writable) return;
    await this.#keep(async () => {
      const { quota, usage } = await navigator.storage.estimate();
      const room = (quota ?? Infinity) - (usage ?? 0);
      // Browsers round, and count their own files, too.
      const need = (facts.size ?? 0) * 1.02;
      if (need > room) {
        this.notCached = `it needs ${formatBytes(need)} of storage and the browser has ${formatBytes(Math.max(room, 0))} left`;
        return;
      }
      await this.#write(facts, false);
      askToPersist();
    });
  }

  /** Writes down that the server has no such file. */
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

  /** A whole part, or null. */
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
      // It was deleted while the part was being written, which made its folder anew.
      else await this.#blobs.delete(this.#folder);
    });
  }

  /** Whether the facts are still there. Only they make a folder a file's: parts without them belong to nobody. */
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

  /** Forgets it. Answers whether it is deleted, too; another tab that keeps it is not disturbed. */
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

/** What loads are compared with is kept apart from the file: it outlives bytes that turn out to be damaged. */
const pinsFolder = (folder: string) => `${folder}.pins`;
const PINS = "pins.json";

/** What earlier loads of a model saw of its files; null where there were none, or nothing can be kept. */
export async function readPins(model: string): Promise<unknown> {
  try {
    const blob = await (await openBlobStore())?.get(pinsFolder(await folderOf(model)), PINS);
    return blob ? JSON.parse(await blob.text()) : null;
  } catch {
    return null;
  }
}

/** Where there is no room, the next load has nothing to be compared with. */
export async function writePins(model: string, pins: unknown): Promise<void> {
  try {
    await (await openBlobStore())?.put(pinsFolder(await folderOf(model)), PINS, new Blob([JSON.stringify(pins)]));
  } catch {
    // As in a browser that keeps nothing.
  }
}

/** A file that is kept in this browser. */
export interface CachedFile {
  url: string;
  /** How many of its bytes are here. */
  bytes: number;
  totalBytes: number;
  /** Whether it loads without the network. */
  complete: boolean;
}

interface Stored {
  blobs: BlobStore;
  folder: string;
  /** Null where nobody knows what it was. */
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

/** What this package keeps in the browser between visits. */
export const cache = {
  /** The files that are kept; those beside a model (its tokenizer) are not listed. */
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

  /** Deletes a file and those that were found beside it. */
  async delete(url: string | URL): Promise<void> {
    const absolute = absoluteUrl(url);
    const own = await folderOf(absolute);
    await deleteWhere(({ folder, facts }) => folder === own || folder === pinsFolder(own) || facts?.beside === absolute);
  },

  /** Deletes everything. */
  async clear(): Promise<void> {
    await deleteWhere(() => true);
  },

  /** How much the browser stores for this origin, and how much it would; zeros where it does not say. */
  async estimate(): Promise<{ usage: number; quota: number }> {
    const { usage = 0, quota = 0 } = (await globalThis.navigator?.storage?.estimate?.()) ?? {};
    return { usage, quota };
  },
};

/** An address as it is asked for and remembered. */
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

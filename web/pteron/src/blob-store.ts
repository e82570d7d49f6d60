/** Persistent storage between visits: folders of blobs. */
export interface BlobStore {
  folders(): Promise<string[]>;
  /** The blobs of a folder and their lengths. */
  sizes(folder: string): Promise<Map<string, number>>;
  get(folder: string, name: string): Promise<Blob | null>;
  /** Writes a blob atomically. */
  put(folder: string, name: string, content: Blob): Promise<void>;
  delete(folder: string): Promise<void>;
}

const PLACE = "pteron";

/** The name of the blob that describes a folder's file. */
export const FACTS = "facts.json";

/** The number of attempts to delete a folder that is being written to. */
const DELETIONS = 40;

/** Resolves to null if the requested item does not exist. */
async function orNull<T>(promise: Promise<T>): Promise<T | null> {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotFoundError") return null;
    throw error;
  }
}

/** The origin private file system. */
class OpfsBlobStore implements BlobStore {
  readonly #root: FileSystemDirectoryHandle;

  constructor(root: FileSystemDirectoryHandle) {
    this.#root = root;
  }

  async folders(): Promise<string[]> {
    const names = [];
    for await (const name of this.#root.keys()) names.push(name);
    return names;
  }

  async sizes(folder: string): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    const directory = await orNull(this.#root.getDirectoryHandle(folder));
    if (!directory) return sizes;
    for await (const [name, handle] of directory.entries()) {
      // The folder also lists the browser's unfinished swap files.
      if (handle.kind === "file") sizes.set(name, (await orNull((handle as FileSystemFileHandle).getFile()))?.size ?? 0);
    }
    return sizes;
  }

  async get(folder: string, name: string): Promise<Blob | null> {
    const directory = await orNull(this.#root.getDirectoryHandle(folder));
    const handle = directory && (await orNull(directory.getFileHandle(name)));
    return handle && (await orNull(handle.getFile()));
  }

  async put(folder: string, name: string, content: Blob): Promise<void> {
    const directory = await this.#root.getDirectoryHandle(folder, { create: true });
    const handle = await directory.getFileHandle(name, { create: true });
    const writable = await handle.createWritable();
    try {
      await writable.write(content);
      await writable.close();
    } catch (error) {
      await writable.abort().catch(() => {});
      throw error;
    }
  }

  async delete(folder: string): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return void (await orNull(this.#root.removeEntry(folder, { recursive: true })));
      } catch (error) {
        const busy = error instanceof DOMException && error.name === "NoModificationAllowedError";
        if (!busy || tries === DELETIONS) throw error;
        // A part is being written. Its writer soon notices that the file is gone.
        await this.#removeFacts(folder);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }

  async #removeFacts(folder: string): Promise<void> {
    const directory = await orNull(this.#root.getDirectoryHandle(folder));
    if (directory) await orNull(directory.removeEntry(FACTS));
  }
}

/** The Cache API, for browsers whose file system cannot be written without a worker. */
class CacheApiBlobStore implements BlobStore {
  readonly #cache: Cache;
  // Entries need an address; nothing is ever requested from this one.
  static readonly #BASE = "https://cache.pteron.invalid/";

  constructor(cache: Cache) {
    this.#cache = cache;
  }

  async #paths(): Promise<[string, string][]> {
    const keys = await this.#cache.keys();
    return keys.map(({ url }) => url.slice(CacheApiBlobStore.#BASE.length).split("/") as [string, string]);
  }

  async folders(): Promise<string[]> {
    return [...new Set((await this.#paths()).map(([folder]) => folder))];
  }

  async sizes(folder: string): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for (const [of, name] of await this.#paths()) {
      if (of === folder) sizes.set(name, await this.#size(folder, name));
    }
    return sizes;
  }

  async #size(folder: string, name: string): Promise<number> {
    const entry = await this.#cache.match(`${CacheApiBlobStore.#BASE}${folder}/${name}`);
    return Number(entry?.headers.get("Content-Length") ?? 0);
  }

  async get(folder: string, name: string): Promise<Blob | null> {
    return (await (await this.#cache.match(`${CacheApiBlobStore.#BASE}${folder}/${name}`))?.blob()) ?? null;
  }

  async put(folder: string, name: string, content: Blob): Promise<void> {
    // The length is stored, so that it is known without reading the content.
    const headers = { "Content-Length": String(content.size) };
    await this.#cache.put(`${CacheApiBlobStore.#BASE}${folder}/${name}`, new Response(content, { headers }));
  }

  async delete(folder: string): Promise<void> {
    for (const [of, name] of await this.#paths()) {
      if (of === folder) await this.#cache.delete(`${CacheApiBlobStore.#BASE}${folder}/${name}`);
    }
  }
}

/** The blobs of this browser; null in private windows and insecure contexts that have none. */
export async function openBlobStore(): Promise<BlobStore | null> {
  try {
    if ("createWritable" in FileSystemFileHandle.prototype) {
      const root = await navigator.storage.getDirectory();
      return new OpfsBlobStore(await root.getDirectoryHandle(PLACE, { create: true }));
    }
  } catch {
    // The other storage may still work.
  }
  try {
    return new CacheApiBlobStore(await caches.open(PLACE));
  } catch {
    return null;
  }
}

// Storage as browsers have it, in memory.

const notFound = () => new DOMException("there is no such entry", "NotFoundError");

class FakeFile {
  kind = "file";
  content = new Blob([]);
  constructor(disk) {
    this.disk = disk;
  }
  async getFile() {
    return this.content;
  }
  async createWritable() {
    const written = [];
    return {
      write: async (blob) => {
        if (this.disk.used + blob.size > this.disk.quota) throw new DOMException("full", "QuotaExceededError");
        written.push(blob);
      },
      close: async () => {
        this.disk.used += new Blob(written).size - this.content.size;
        this.disk.writes++;
        this.content = new Blob(written);
      },
      abort: async () => {},
    };
  }
}

class FakeDirectory {
  kind = "directory";
  children = new Map();
  constructor(disk) {
    this.disk = disk;
  }
  #child(name, Type, create) {
    if (!this.children.has(name)) {
      if (!create) throw notFound();
      this.children.set(name, new Type(this.disk));
    }
    return this.children.get(name);
  }
  async getDirectoryHandle(name, { create = false } = {}) {
    return this.#child(name, FakeDirectory, create);
  }
  async getFileHandle(name, { create = false } = {}) {
    return this.#child(name, FakeFile, create);
  }
  async removeEntry(name) {
    if (!this.children.delete(name)) throw notFound();
  }
  async *keys() {
    yield* this.children.keys();
  }
  async *entries() {
    yield* this.children.entries();
  }
}

class FakeCache {
  reads = 0;
  entries = new Map();
  async keys() {
    return [...this.entries.keys()].map((url) => ({ url }));
  }
  async match(url) {
    if (!this.entries.has(url)) return undefined;
    const { blob, headers } = this.entries.get(url);
    const response = new Response(blob, { headers });
    const read = response.blob.bind(response);
    response.blob = () => (this.reads++, read());
    return response;
  }
  async put(url, response) {
    this.entries.set(url, { headers: new Headers(response.headers), blob: await response.blob() });
  }
  async delete(url) {
    return this.entries.delete(url);
  }
}

function fakeLocks() {
  const held = new Set();
  return {
    held,
    async request(name, { ifAvailable }, work) {
      if (!ifAvailable) throw new Error("this would wait");
      if (held.has(name)) return work(null);
      held.add(name);
      try {
        return await work({ name });
      } finally {
        held.delete(name);
      }
    },
  };
}

function define(name, value) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

/** Gives this process a browser's storage: "files", "cache" or "none". Returns counters and faults for tests. */
export function browser(kind, { quota = Infinity, estimate = quota } = {}) {
  const disk = { used: 0, writes: 0, quota };
  const root = new FakeDirectory(disk);
  const locks = fakeLocks();
  const cache = new FakeCache();
  const persisted = { asked: 0 };
  const storage = {
    persist: async () => {
      persisted.asked++;
      throw new Error("not now");
    },
    estimate: async () => ({ quota: estimate, usage: disk.used }),
    getDirectory: async () => {
      if (kind !== "files") throw new DOMException("not here", "SecurityError");
      return root;
    },
  };
  define("navigator", { storage, locks });
  define("FileSystemFileHandle", kind === "files" ? FakeFile : undefined);
  define("caches", kind === "cache" ? { open: async () => cache } : undefined);
  /** The blobs that are kept, as [folder, name, the thing that holds it]. */
  const parts = () =>
    [...(root.children.get("pteron")?.children ?? [])].flatMap(([folder, directory]) =>
      [...directory.children].filter(([name]) => /^\d+$/.test(name)).map(([name, file]) => ({ folder, name: Number(name), file })),
    );
  return { disk, root, locks, cache, parts, persisted };
}

// The browser's storage, or a replacement in memory if the user has disabled it.

export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Stores values while the page is open. */
class Memory implements Store {
  #items = new Map<string, string>();

  getItem(key: string): string | null {
    return this.#items.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    this.#items.set(key, value);
  }

  removeItem(key: string): void {
    this.#items.delete(key);
  }
}

export function openStore(name: "localStorage" | "sessionStorage"): Store {
  try {
    return globalThis[name] ?? new Memory();
  } catch {
    return new Memory();
  }
}

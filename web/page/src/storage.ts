// The browser's storage, or something in its place where a person has forbidden it.

export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Keeps things as long as the page is open. */
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

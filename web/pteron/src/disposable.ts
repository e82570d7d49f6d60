/** Lets `await using` dispose of instances, in runtimes that have it. */
export function makeDisposable(type: { readonly prototype: { dispose(): Promise<void> } }): void {
  if (!Symbol.asyncDispose) return;
  const value = function (this: { dispose(): Promise<void> }) {
    return this.dispose();
  };
  Object.defineProperty(type.prototype, Symbol.asyncDispose, { value, configurable: true, writable: true });
}

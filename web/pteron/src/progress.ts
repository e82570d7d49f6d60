/** What a load is doing. */
export type Phase =
  /** Reading the tables of the program, and files beside it. */
  | "check"
  /** Making buffers and compiling kernels. */
  | "prepare"
  /** Weights come from the network. */
  | "download"
  /** Weights come from this machine: the browser's storage, a file or memory. */
  | "cache"
  /** Weights that did not match their checksums are fetched again. */
  | "repair"
  /** Everything is on the GPU. */
  | "ready";

/** How far a load is. */
export interface Progress {
  phase: Phase;
  /** Bytes of weights that are on their way to the GPU. */
  loadedBytes: number;
  /** Bytes of weights in all; 0 until the program's tables are read. */
  totalBytes: number;
  /** How many of `loadedBytes` were on this machine already. */
  fromCacheBytes: number;
  /** Over the last seconds. */
  bytesPerSecond: number;
  /** Null until it can be told. */
  secondsLeft: number | null;
  /** Why the file is not kept for the next visit; null where it is, or need not be. */
  notKept: string | null;
}

const INTERVAL = 100;
/** Speeds fade with this time constant, so that a hiccup does not turn the time left upside down. */
const MEMORY = 3000;

/** Counts bytes and tells a listener now and then. */
export class Meter {
  notKept: string | null = null;
  readonly #listener: ((progress: Progress) => void) | undefined;
  #phase: Phase = "check";
  #loaded = 0;
  #total = 0;
  #fromCache = 0;
  #rate = 0;
  #told = -Infinity;
  #measured = 0;
  #since = 0;

  constructor(listener?: (progress: Progress) => void) {
    this.#listener = listener;
  }

  /** So many bytes are to come. */
  begin(total: number): void {
    this.#total = total;
    this.#loaded = 0;
    this.#fromCache = 0;
  }

  /** A new phase is told at once. */
  enter(phase: Phase): void {
    this.#phase = phase;
    this.#measure();
    this.#tell();
  }

  /** Bytes that were handed on. Those that are fetched a second time do not count twice. */
  add(bytes: number, cached: boolean): void {
    const phase = this.#phase === "repair" ? "repair" : cached ? "cache" : "download";
    if (phase !== "repair") this.#loaded += bytes;
    if (phase === "cache") this.#fromCache += bytes;
    if (phase !== this.#phase) {
      // The speed of a disk says nothing about a network's.
      this.#rate = 0;
      this.#since = 0;
      this.#measured = performance.now();
      this.enter(phase);
    }
    this.#since += bytes;
    if (performance.now() - this.#told < INTERVAL) return;
    this.#measure();
    this.#tell();
  }

  #measure(): void {
    const now = performance.now();
    const passed = now - this.#measured;
    if (passed < 1) return;
    const rate = (this.#since / passed) * 1000;
    this.#rate = this.#rate ? this.#rate + (rate - this.#rate) * (1 - Math.exp(-passed / MEMORY)) : rate;
    this.#measured = now;
    this.#since = 0;
  }

  #tell(): void {
    this.#told = performance.now();
    const left = this.#total - this.#loaded;
    this.#call({
      phase: this.#phase,
      loadedBytes: this.#loaded,
      totalBytes: this.#total,
      fromCacheBytes: this.#fromCache,
      bytesPerSecond: this.#rate,
      secondsLeft: this.#rate > 0 && this.#total > 0 ? left / this.#rate : null,
      notKept: this.notKept,
    });
  }

  /** A listener that throws is reported where the page's other errors are; it does not break the load. */
  #call(progress: Progress): void {
    try {
      this.#listener?.(progress);
    } catch (error) {
      globalThis.reportError?.(error);
    }
  }
}

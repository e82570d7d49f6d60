/** The phase of a load. */
export type Phase =
  /** Reads the tables of the program and the files beside it. */
  | "check"
  /** Allocates buffers and compiles kernels. */
  | "prepare"
  /** Weights are downloaded. */
  | "download"
  /** Weights are read from this machine: the browser's storage, a file or memory. */
  | "cache"
  /** Weights that did not match their checksums are fetched again. */
  | "repair"
  /** Everything is on the GPU. */
  | "ready";

/** The progress of a load. */
export interface Progress {
  phase: Phase;
  /** Bytes of weights uploaded, or being uploaded, to the GPU. */
  loadedBytes: number;
  /** Bytes of weights in all; 0 until the program's tables are read. */
  totalBytes: number;
  /** The bytes of `loadedBytes` that came from the cache. */
  fromCacheBytes: number;
  /** The speed over the last seconds. */
  bytesPerSecond: number;
  /** Null until it can be estimated. */
  secondsLeft: number | null;
  /** Why the file is not cached for the next visit; null where it is, or need not be. */
  notCached: string | null;
  /** @deprecated Use `notCached`. */
  notKept: string | null;
}

const INTERVAL = 100;
/** Time constant of the moving average of the speed, in milliseconds. */
const SMOOTHING = 3000;

/** Counts bytes and reports progress to a listener. */
export class Meter {
  notCached: string | null = null;
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

  /** Starts counting towards a total. */
  begin(total: number): void {
    this.#total = total;
    this.#loaded = 0;
    this.#fromCache = 0;
  }

  /** Enters a phase and reports it at once. */
  enter(phase: Phase): void {
    this.#phase = phase;
    this.#measure();
    this.#tell();
  }

  /** Counts uploaded bytes. Bytes that are fetched again count once. */
  add(bytes: number, cached: boolean): void {
    const phase = this.#phase === "repair" ? "repair" : cached ? "cache" : "download";
    if (phase !== "repair") this.#loaded += bytes;
    if (phase === "cache") this.#fromCache += bytes;
    if (phase !== this.#phase) {
      // The speed of a disk does not predict that of a network.
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
    this.#rate = this.#rate ? this.#rate + (rate - this.#rate) * (1 - Math.exp(-passed / SMOOTHING)) : rate;
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
      notCached: this.notCached,
      notKept: this.notCached,
    });
  }

  /** Reports an exception of a listener like the page's other errors; it does not fail the load. */
  #call(progress: Progress): void {
    try {
      this.#listener?.(progress);
    } catch (error) {
      globalThis.reportError?.(error);
    }
  }
}

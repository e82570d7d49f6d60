// Runs in the audio thread: hands on what the microphone records, a tenth of a second at a time.

/** What TypeScript's libraries do not declare of an `AudioWorkletGlobalScope`. */
declare const AudioWorkletProcessor: { new (): { readonly port: MessagePort } };
declare function registerProcessor(name: string, processor: unknown): void;

const CHUNK = 1600;

class Capture extends AudioWorkletProcessor {
  #chunk = new Float32Array(CHUNK);
  #filled = 0;

  process([channels]: Float32Array[][]): boolean {
    const [samples] = channels ?? [];
    for (const sample of samples ?? []) {
      this.#chunk[this.#filled] = sample;
      this.#filled += 1;
      if (this.#filled === CHUNK) {
        this.port.postMessage(this.#chunk);
        this.#chunk = new Float32Array(CHUNK);
        this.#filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);

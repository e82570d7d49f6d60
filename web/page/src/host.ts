// Manages the engine's worker: starts it on the first call, and again after a loss.

import { ENGINE_STOPPED, GPU_LOST, lossOf, lossText, type Loss } from "./loss.js";
import type { CallName, Calls, Event, Request } from "./protocol.js";
import { CRASHED, CallError, Client, type CallOptions, type Port } from "./rpc.js";

interface Live {
  worker: Worker;
  client: Client;
}

/** The only script URL that the page may use where browsers enforce `trusted-types`: see index.html. */
const SCRIPT = new URL("worker.js", import.meta.url).href;
type TrustedTypes = { createPolicy(name: string, rules: { createScriptURL(): string }): { createScriptURL(url: string): unknown } };
const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy("pteron", { createScriptURL: () => SCRIPT });

export class Host {
  #live: Live | null = null;
  #onLost: (loss: Loss) => void;

  /** `onLost` is called when the GPU or the worker is lost. */
  constructor(onLost: (loss: Loss) => void) {
    this.#onLost = onLost;
  }

  /** After an error that the engine does not survive, terminates the worker before the caller gets the error, as after a crash. */
  async call<K extends CallName>(kind: K, args: Calls[K]["args"], options?: CallOptions<K>): Promise<Calls[K]["result"]> {
    const live = (this.#live ??= this.#spawn());
    try {
      return await live.client.call(kind, args, options);
    } catch (error) {
      const loss = lossOf(kind, error as CallError);
      if (!loss) throw error;
      this.#lose(live, loss);
      throw new CallError({ message: lossText(loss), code: CRASHED });
    }
  }

  /** Terminates a worker with everything it holds. Ignores a worker that was terminated before. */
  #lose(old: Live, loss: Loss): void {
    if (old !== this.#live) return;
    this.#live = null;
    old.worker.terminate();
    old.client.close(lossText(loss));
    this.#onLost(loss);
  }

  #spawn(): Live {
    const worker = new Worker((policy?.createScriptURL(SCRIPT) as string | undefined) ?? SCRIPT, { type: "module", name: "pteron" });
    const client = new Client(worker as Port<Request, Event>, (words) => this.#lose(live, { what: GPU_LOST, words }));
    const live: Live = { worker, client };
    const crashed = (event: globalThis.Event) => {
      event.preventDefault();
      const words = event instanceof ErrorEvent && event.message ? event.message.replace(/^Uncaught /, "") : "its worker could not run";
      this.#lose(live, { what: ENGINE_STOPPED, words });
    };
    worker.addEventListener("error", crashed);
    worker.addEventListener("messageerror", crashed);
    return live;
  }
}

// Keeps a worker for the engine: started when it is first asked for something, and anew after it was lost.

import type { CallName, Calls, Event, Request } from "./protocol.js";
import { Client, type CallOptions, type Port } from "./rpc.js";

interface Live {
  worker: Worker;
  client: Client;
}

export class Host {
  #live: Live | null = null;
  #onLost: (reason: string) => void;

  /** `onLost` hears, in a sentence, that the GPU or the worker is gone. */
  constructor(onLost: (reason: string) => void) {
    this.#onLost = onLost;
  }

  call<K extends CallName>(kind: K, args: Calls[K]["args"], options?: CallOptions<K>): Promise<Calls[K]["result"]> {
    this.#live ??= this.#spawn();
    return this.#live.client.call(kind, args, options);
  }

  /** The engine is of no more use: ends its worker, with everything it held. */
  lose(reason: string): void {
    const old = this.#live;
    this.#live = null;
    old?.worker.terminate();
    old?.client.close(reason);
    this.#onLost(reason);
  }

  #spawn(): Live {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module", name: "pteron" });
    const lost = (reason: string) => {
      // A worker that was given up has nothing more to say.
      if (worker === this.#live?.worker) this.lose(reason);
    };
    const crashed = (event: globalThis.Event) => {
      event.preventDefault();
      const detail = event instanceof ErrorEvent && event.message ? event.message.replace(/^Uncaught /, "") : "its worker could not run";
      lost(`The engine stopped: ${detail}`);
    };
    worker.addEventListener("error", crashed);
    worker.addEventListener("messageerror", crashed);
    const client = new Client(worker as Port<Request, Event>, (reason) => lost(`The GPU was lost: ${reason}`));
    return { worker, client };
  }
}

// Stands in for the package where the worker is tested: loads end when the test says so.

/** Every load that was begun, in order. */
const loads = (globalThis.fakeLoads = []);

export const Model = {
  load: () =>
    new Promise((resolve, reject) => {
      const load = { reject, finish: () => resolve(new FakeModel(load)) };
      loads.push(load);
    }),
};

class FakeModel {
  info = { bytes: 1, languageModel: { chat: true, contextLength: 8, vocabSize: 8 }, memory: { constants: 1, activations: 1, state: 1, other: 1, total: 4 } };
  lost = new Promise(() => {});

  constructor(load) {
    this.load = load;
  }
  session() {
    return { generate: (prompt) => new FakeGeneration((this.load.prompt = prompt)) };
  }
  async dispose() {
    this.load.disposed = true;
  }
}

class FakeGeneration {
  result = Promise.resolve({ finish: "stop-token" });

  async *[Symbol.asyncIterator]() {
    yield { token: 1, text: "a" };
  }
}

export const cache = { list: async () => [], delete: async () => {} };
export const support = async () => ({ supported: false, reason: "a test" });
export const wasmBytes = () => 1;

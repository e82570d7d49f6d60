// An engine without a GPU: it reads a synthetic file format and checks the constants' sha-256, as the real one does.
//
// A file is "FAKE", the length of its tables (4 bytes), the tables as JSON, and the constants after them.

import { createHash } from "node:crypto";

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** The calls that the engine saw, and the faults it should have; tests reset it. */
export const fake = {
  reset() {
    Object.assign(this, { live: new Map(), waits: 0, largestWrite: 0, gpus: [], methodCalls: [], misuse: [] });
    Object.assign(this, { openError: null, planError: null, loaderError: null, llmError: null, onFinish: null, script: null });
    Object.assign(this, { holds: new Map(), trap: null, gpuName: "Fake" });
  },
  /** Holds a call of the engine up (by its name) until the returned function is called. */
  hold(name) {
    let go;
    this.holds.set(name, new Promise((resolve) => (go = resolve)));
    return () => {
      this.holds.delete(name);
      go();
    };
  },
  /** How many objects of each kind nobody freed. */
  alive() {
    return Object.fromEntries([...this.live].filter(([kind, count]) => count > 0 && kind !== "Gpu"));
  },
};
fake.reset();

const pause = () => new Promise((resolve) => setImmediate(resolve));

const MEMORY = { constants: 700e6, activations: 100e6, other: 2e6, state: 10e6, total: 812e6, largest: 500e6 };

/** Works with things of the engine: meanwhile nobody may free them. */
async function borrowing(things, name, work) {
  for (const thing of things) thing.borrows++;
  try {
    await fake.holds.get(name);
    return await work();
  } finally {
    for (const thing of things) thing.borrows--;
  }
}

class Counted {
  borrows = 0;
  #freed = false;
  constructor() {
    this.#count(1);
  }
  #count(change) {
    const kind = this.constructor.name;
    fake.live.set(kind, (fake.live.get(kind) ?? 0) + change);
  }
  free() {
    if (this.#freed) throw new Error(`${this.constructor.name} is freed twice`);
    if (this.borrows) fake.misuse.push(`${this.constructor.name} is freed while it is borrowed`);
    this.#freed = true;
    this.#count(-1);
  }
}

export function engineError(code, message) {
  return Object.assign(new Error(message), { code });
}

/** A file with constants of these lengths. */
export function makeFile(lengths, { languageModel = false, gap = 0, keyless = false } = {}) {
  const constants = lengths.map((length, index) => {
    const bytes = new Uint8Array(length);
    for (let i = 0; i < length; i++) bytes[i] = (i * 31 + index * 7 + (i >> 8)) & 255;
    return bytes;
  });
  const tables = { languageModel, constants: constants.map((bytes) => ({ key: keyless ? "" : sha256(bytes), length: bytes.length })), gap };
  const json = new TextEncoder().encode(JSON.stringify(tables));
  const total = 8 + json.length + lengths.reduce((sum, length) => sum + length + gap, 0);
  const file = new Uint8Array(total);
  file.set(new TextEncoder().encode("FAKE"));
  new DataView(file.buffer).setUint32(4, json.length);
  file.set(json, 8);
  let at = 8 + json.length;
  for (const bytes of constants) {
    file.set(bytes, at + gap);
    at += gap + bytes.length;
  }
  return file;
}

class Gpu extends Counted {
  static async open() {
    if (fake.openError) throw fake.openError;
    const gpu = new Gpu();
    fake.gpus.push(gpu);
    return gpu;
  }
  #lose;
  #lost = new Promise((resolve) => (this.#lose = resolve));
  summary() {
    const limits = { maxBufferSize: 1e9, maxBindingSize: 1e9 };
    return { name: fake.gpuName, driver: "", backend: "", kind: "", software: true, features: [], ...limits };
  }
  lost() {
    return this.#lost;
  }
  destroy() {
    this.#lose("destroyed");
  }
}

class Head extends Counted {
  tables = null;
  constructor(length) {
    super();
    this.length = length;
    this.want = [0, 8];
  }
  needs() {
    return new Float64Array(this.want);
  }
  supply(start, bytes) {
    if (start === 0) {
      if (new TextDecoder().decode(bytes.subarray(0, 4)) !== "FAKE") throw engineError("bad-file", "this is not a program");
      this.want = [8, new DataView(bytes.buffer, bytes.byteOffset).getUint32(4)];
    } else {
      this.tables = JSON.parse(new TextDecoder().decode(bytes));
      this.base = start + bytes.length;
      this.want = [];
    }
  }
  attach(data) {
    this.data = data;
    data.free();
  }
  info() {
    const languageModel = this.tables.languageModel ? { method: "forward" } : null;
    return { methods: [{ name: "forward", inputs: [], outputs: [] }], languageModel, externalKeys: [], bytes: this.length };
  }
}

class DataHead extends Head {}

class Loader extends Counted {
  static async open(gpu, head, options) {
    return borrowing([gpu, head], "open", () => {
      if (fake.loaderError) throw fake.loaderError;
      fake.loaderOptions = options;
      return new Loader(head);
    });
  }
  static plan(gpu, head, options) {
    fake.planned = options;
    if (fake.planError) throw fake.planError;
    return MEMORY;
  }
  #constants = [];
  #corrupt = [];
  constructor(head) {
    super();
    for (const [file, { tables, base }] of [head, head.data].filter(Boolean).entries()) {
      let at = base;
      for (const { key, length } of tables.constants) {
        const bytes = new Uint8Array(length);
        this.#constants.push({ key, file, start: at + tables.gap, length, bytes, got: 0, done: false });
        at += tables.gap + length;
      }
    }
  }
  benchmark(seconds) {
    return borrowing([this], "benchmark", () => {
      fake.benchmarked = seconds;
      return { tokensPerSecond: 31.2, steps: 31 };
    });
  }
  needs() {
    const missing = this.#constants.filter(({ done }) => !done);
    return new Float64Array(missing.flatMap(({ file, start, length }) => [file, start, length]));
  }
  unchecked() {
    const missing = this.#constants.filter(({ done, key }) => !done && !key);
    return new Float64Array(missing.flatMap(({ file, start, length }) => [file, start, length]));
  }
  write(file, start, bytes) {
    fake.largestWrite = Math.max(fake.largestWrite, bytes.length);
    for (const constant of this.#constants) {
      if (constant.file !== file || constant.done) continue;
      const from = Math.max(start, constant.start + constant.got);
      const to = Math.min(start + bytes.length, constant.start + constant.length);
      if (from >= to) continue;
      if (from !== constant.start + constant.got) throw engineError("internal", `bytes of ${constant.key} are out of order`);
      constant.bytes.set(bytes.subarray(from - start, to - start), constant.got);
      constant.got = to - constant.start;
      if (constant.got === constant.length) this.#verify(constant);
    }
  }
  #verify(constant) {
    if (!constant.key || sha256(constant.bytes) === constant.key) {
      constant.done = true;
      return;
    }
    constant.got = 0;
    const { key, file, start, length } = constant;
    this.#corrupt.push({ key, file, start, length });
  }
  takeCorrupt() {
    return this.#corrupt.splice(0);
  }
  waitIdle() {
    return borrowing([this], "waitIdle", () => void fake.waits++);
  }
  async finish() {
    this.free();
    await fake.holds.get("finish");
    fake.onFinish?.();
    if (this.#constants.some(({ done }) => !done)) throw engineError("missing", "constants are missing");
    return new Method();
  }
}

class State extends Counted {}

class Method extends Counted {
  inputs() {
    return [];
  }
  outputs() {
    return [];
  }
  memory() {
    return { constants: 1, activations: 1, other: 1, state: 1, total: 4, largest: 1 };
  }
  newState() {
    return new State();
  }
  async call(state, inputs) {
    if (fake.trap) throw fake.trap;
    fake.methodCalls.push({ state, inputs });
    return borrowing([this, state], "call", async () => {
      await pause();
      return inputs;
    });
  }
}

class Llm extends Counted {
  constructor(method, head, tokenizer, files) {
    method.free();
    if (fake.llmError) throw fake.llmError;
    super();
    fake.llm = { tokenizer: new TextDecoder().decode(tokenizer), files };
  }
  info() {
    return { contextLength: 128, maxPrefill: 64, vocabSize: 10, bosId: null, eosIds: [], chat: false, memory: {} };
  }
  encode(text, special) {
    return Uint32Array.from(text, (character) => character.codePointAt(0) + (special ? 1000 : 0));
  }
  session() {
    return new LlmSession();
  }
}

/** Writes numbers; `fake.script` may say after how many to end, or to fail. */
class LlmSession extends Counted {
  #busy = false;
  #tokens = 0;
  tokens() {
    if (this.#busy) throw new Error("recursive use of an object detected");
    return new Uint32Array(this.#tokens);
  }
  async generate(prompt, options, onToken) {
    const script = { length: 5, written: 0, ...fake.script };
    fake.running = script;
    fake.generated = { prompt, options };
    this.#busy = true;
    try {
      const tokens = [];
      let finish = "max-tokens";
      while (tokens.length < script.length) {
        await pause();
        if (script.failAt === tokens.length) throw engineError("device-lost", "the GPU is gone");
        tokens.push(tokens.length);
        this.#tokens++;
        script.written = tokens.length;
        if (!(await onToken({ token: tokens.length, text: `${tokens.length} ` }))) {
          finish = "stopped";
          // An engine still has a step under way.
          await pause();
          await fake.holds.get("stop");
          break;
        }
      }
      return { finish, tokens, promptTokens: 1, reusedTokens: 0, droppedMessages: 0, prefillSeconds: 0, decodeSeconds: 0 };
    } finally {
      this.#busy = false;
      script.ended = true;
    }
  }
  async profile() {
    this.#busy = true;
    for (let i = 0; i < 5; i++) await pause();
    this.#busy = false;
    return { timing: "pass-each", dispatches: [] };
  }
  free() {
    if (this.#busy) throw new Error("attempted to take ownership of Rust value while it was borrowed");
    super.free();
  }
}

export default async function start() {
  return { memory: new WebAssembly.Memory({ initial: 1 }) };
}
export { DataHead, Gpu, Head, Llm, Loader };

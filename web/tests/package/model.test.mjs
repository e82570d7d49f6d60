import assert from "node:assert/strict";
import { before, beforeEach, test } from "node:test";

import { importPackage } from "./bundle.mjs";
import { browser } from "./fake-browser.mjs";
import { fake, makeFile } from "./fake-engine.mjs";

let pteron;

before(async () => {
  pteron = await importPackage();
  browser("none");
});
beforeEach(() => fake.reset());

const tokenizer = new TextEncoder().encode("tokens");
const writer = () => pteron.Model.load(makeFile([10], { languageModel: true }), { tokenizer });
const plain = () => pteron.Model.load(makeFile([10]));
/** Long enough for the engine to write many pieces, if nothing holds it. */
async function tick() {
  for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve));
}

async function texts(generation) {
  const all = [];
  for await (const { text } of generation) all.push(text);
  return all;
}

test("pieces come in order, and then the result", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const generation = model.session().generate("go");
  assert.deepEqual(await texts(generation), ["1 ", "2 ", "3 ", "4 ", "5 "]);
  assert.equal((await generation.result).finish, "max-tokens");
});

test("the model waits until a piece is asked for", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const pieces = model.session().generate("go")[Symbol.asyncIterator]();
  await tick();
  assert.equal(fake.running.written, 1);
  assert.equal((await pieces.next()).value.text, "1 ");
  await tick();
  assert.equal(fake.running.written, 1);
  assert.equal((await pieces.next()).value.text, "2 ");
  await tick();
  assert.equal(fake.running.written, 2);
  await pieces.return();
});

test("a result without a reader runs to the end, and the pieces are still there", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const generation = model.session().generate("go");
  assert.equal((await generation.result).tokens.length, 5);
  assert.equal(await generation.text(), "1 2 3 4 5 ");
});

test("breaking off stops the engine before the loop is left", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const session = model.session();
  fake.script = { length: 1000 };
  const generation = session.generate("go");
  for await (const { token } of generation) if (token === 3) break;
  assert.equal(fake.running.ended, true);
  assert.equal(fake.running.written, 3);
  assert.equal((await generation.result).finish, "stopped");
  assert.equal(session.tokens, 3);
  fake.script = null;
  assert.equal((await texts(session.generate("go"))).length, 5, "the session goes on");
});

test("an abort after any number of pieces rejects with its reason", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const session = model.session();
  for (let n = 0; n < 6; n++) {
    const controller = new AbortController();
    const reason = new Error(`after ${n}`);
    if (n === 0) controller.abort(reason);
    fake.script = { length: 1000 };
    const generation = session.generate("go", { signal: controller.signal });
    const reading = (async () => {
      for await (const { token } of generation) if (token === n) controller.abort(reason);
    })();
    await assert.rejects(reading, (error) => error === reason);
    await assert.rejects(generation.result, (error) => error === reason);
    await generation.stop();
    if (n > 0) assert.deepEqual([fake.running.ended, fake.running.written], [true, n]);
  }
});

test("an abort while the reader waits ends the wait", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  fake.script = { length: 1000 };
  const controller = new AbortController();
  const pieces = model.session().generate("go", { signal: controller.signal })[Symbol.asyncIterator]();
  const waiting = pieces.next().then(() => pieces.next());
  controller.abort();
  await assert.rejects(waiting, { name: "AbortError" });
});

test("concurrent requests are served in order", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const pieces = model.session().generate("go")[Symbol.asyncIterator]();
  const all = await Promise.all(Array.from({ length: 7 }, () => pieces.next()));
  assert.deepEqual(all.map(({ value, done }) => (done ? "end" : value.token)), [1, 2, 3, 4, 5, "end", "end"]);
});

test("one generation of a session at a time, two sessions at once", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const session = model.session();
  const first = session.generate("go");
  assert.throws(() => session.generate("again"), { name: "PteronError", message: /is generating/ });
  assert.throws(() => session.reset(), /is generating/);
  assert.equal(session.tokens, 0, "what it held before");
  const other = model.session().generate("go");
  assert.deepEqual((await Promise.all([texts(first), texts(other)])).map((all) => all.length), [5, 5]);
});

test("a failure of the engine reaches reader and result", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  fake.script = { failAt: 2 };
  const generation = model.session().generate("go");
  await assert.rejects(texts(generation), { name: "PteronError", code: "device-lost", message: "the GPU is gone" });
  await assert.rejects(generation.result, { code: "device-lost" });
});

test("disposing stops what runs, then frees", async () => {
  const model = await writer();
  fake.script = { length: 1000 };
  const session = model.session();
  const generation = session.generate("go");
  const reading = texts(generation);
  await tick();
  await model.dispose();
  assert.ok((await reading).length > 0);
  assert.equal((await generation.result).finish, "stopped");
  assert.deepEqual(fake.alive(), {});
  assert.throws(() => session.generate("go"), /disposed/);
  assert.throws(() => model.session(), /disposed/);
  await model.dispose();
});

test("disposing waits for a profile", async () => {
  const model = await writer();
  const profile = model.session().profile();
  await model.dispose();
  assert.equal((await profile).timing, "pass-each");
  assert.deepEqual(fake.alive(), {});
});

const tensors = () => [
  { dtype: "float32", shape: [1, 2], data: new Float32Array([1, 2]) },
  { dtype: "float64", shape: [2], data: new Float64Array([1, Math.PI]) },
  { dtype: "int64", shape: [1], data: new BigInt64Array([5n]) },
  { dtype: "int32", shape: [], data: new Int32Array([5]) },
  { dtype: "int8", shape: [3], data: new Int8Array([1, -1, 0]) },
  { dtype: "uint8", shape: [2, 0], data: new Uint8Array([]) },
  { dtype: "bool", shape: [1], data: new Uint8Array([1]) },
  { dtype: "float16", shape: [2], data: new Uint16Array([0x3c00, 0]) },
];

test("tensors go to the engine and come back", async (t) => {
  const model = await plain();
  t.after(() => model.dispose());
  assert.deepEqual(await model.call(tensors()), tensors());
});

test("a view into a larger array is taken alone, and results have memory of their own", async (t) => {
  const model = await plain();
  t.after(() => model.dispose());
  const all = new Float32Array([0, 1, 2, 3]);
  const [result] = await model.call([{ dtype: "float32", shape: [2], data: all.subarray(1, 3) }]);
  assert.deepEqual(result.data, new Float32Array([1, 2]));
  assert.notEqual(result.data.buffer, all.buffer);
});

test("tensors that do not fit are refused with a sentence", async (t) => {
  const model = await plain();
  t.after(() => model.dispose());
  const refused = [
    [{ dtype: "float32", shape: [2], data: new Float32Array(3) }, "input 0: a shape of 2 has 2 elements, and data has 3"],
    [{ dtype: "int64", shape: [1], data: new Int32Array(1) }, "input 0: int64 needs BigInt64Array, not Int32Array"],
    [{ dtype: "float32", shape: [1], data: [1] }, "input 0: float32 needs Float32Array, not Array"],
    [{ dtype: "int16", shape: [1], data: new Int16Array(1) }, /there is no dtype int16; there are float32/],
    [{ dtype: "float32", shape: [-1], data: new Float32Array(1) }, "input 0: the shape has a size of -1"],
  ];
  for (const [tensor, message] of refused) {
    await assert.rejects(model.call([tensor]), { name: "PteronError", code: "input", message });
  }
});

test("where the runtime knows it, models and sessions are async disposables", async () => {
  const model = await writer();
  const session = model.session();
  await session[Symbol.asyncDispose]();
  assert.throws(() => session.reset(), /disposed/);
  await model[Symbol.asyncDispose]();
  assert.deepEqual(fake.alive(), {});
});

test("calls without a state start afresh, calls with one go on, and none overlap", async () => {
  const model = await plain();
  const state = model.state();
  await Promise.all([model.call([]), model.call([], { state }), model.call([], { state }), model.call([])]);
  const used = fake.methodCalls.map((call) => call.state);
  assert.equal(used[1], used[2]);
  assert.equal(new Set(used).size, 3);
  assert.throws(() => model.session(), /not a language model/);
  await model.dispose();
  assert.deepEqual(fake.alive(), {});
});

test("a language model is not called plainly", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  await assert.rejects(model.call([]), /tokenizer: false/);
});

test("sizes are for people", () => {
  const small = { 0: "0 bytes", 999: "999 bytes", 1000: "1 kB", 812e6: "812 MB" };
  const sizes = { ...small, 999_600_000: "1 GB", 1.26e9: "1.3 GB", 12.34e9: "12.3 GB" };
  for (const [bytes, text] of Object.entries(sizes)) assert.equal(pteron.formatBytes(Number(bytes)), text);
});

test("the meter smooths speeds and tells ten times a second", () => {
  const real = performance.now;
  let now = 0;
  performance.now = () => now;
  try {
    const seen = [];
    const meter = new pteron.Meter((progress) => seen.push(progress));
    meter.enter("check");
    meter.enter("prepare");
    meter.begin(100e6);
    for (let i = 0; i < 1000; i++) {
      now += 10;
      meter.add(50_000, false);
    }
    assert.ok(seen.length >= 95 && seen.length <= 105, String(seen.length));
    const last = seen.at(-1);
    assert.ok(Math.abs(last.bytesPerSecond - 5e6) < 5e4, String(last.bytesPerSecond));
    assert.ok(Math.abs(last.secondsLeft - 10) < 0.2, String(last.secondsLeft));
    for (let i = 0; i < 10; i++) {
      now += 10;
      meter.add(500_000, false);
    }
    assert.ok(seen.at(-1).bytesPerSecond < 10e6, "a burst does not turn it upside down");
    now += 200;
    meter.add(10, true);
    assert.deepEqual([seen.at(-1).phase, seen.at(-1).fromCacheBytes], ["cache", 10]);
  } finally {
    performance.now = real;
  }
});

test("a state is freed after the calls that work with it, and rejected afterwards", async (t) => {
  const model = await plain();
  t.after(() => model.dispose());
  const state = model.state();
  const calls = [model.call([], { state }), model.call([], { state })];
  await Promise.all([state.dispose(), ...calls]);
  assert.equal(fake.methodCalls.length, 2);
  assert.deepEqual(fake.misuse, []);
  await assert.rejects(model.call([], { state }), { name: "PteronError", code: "input", message: /the state was disposed/ });
  const other = await plain();
  t.after(() => other.dispose());
  await assert.rejects(model.call([], { state: other.state() }), /belongs to another model/);
});

test("a state that cannot be freed keeps nothing else from it", async () => {
  const model = await plain();
  const [first, second] = [model.state(), model.state()];
  first.raw.free = () => {
    throw new Error("borrowed");
  };
  await model.dispose();
  assert.deepEqual(fake.alive(), { State: 1 });
  await Promise.all([first.dispose(), second.dispose()]);
});

test("inputs may be changed as soon as a call was made", async (t) => {
  const model = await plain();
  t.after(() => model.dispose());
  const data = new Float32Array([1, 2]);
  const before = model.call([]);
  const call = model.call([{ dtype: "float32", shape: [2], data }]);
  data.fill(7);
  await before;
  assert.deepEqual((await call)[0].data, new Float32Array([1, 2]));
});

test("options that are undefined do not reach the engine, and unknown ones are refused", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const session = model.session();
  await session.generate("go", { temperature: 0, topK: undefined, signal: undefined }).result;
  assert.deepEqual(fake.generated.options, { temperature: 0 });
  const refused = { name: "PteronError", code: "input", message: /there is no option maxtokens; there are signal, temperature/ };
  assert.throws(() => session.generate("go", { maxtokens: 5 }), refused);
});

test("an answer that was begun is gone on with", async (t) => {
  const model = await writer();
  t.after(() => model.dispose());
  const messages = [{ role: "user", content: "Name a bird." }];
  const generation = model.session().generate({ messages, partial: "A bl" });
  messages[0].content = "changed";
  await generation.result;
  assert.deepEqual(fake.generated.prompt, { messages: [{ role: "user", content: "Name a bird." }], partial: "A bl" });
  assert.deepEqual([...model.encode("ab")], [97, 98]);
  assert.deepEqual([...model.encode("ab", { special: true })], [1097, 1098]);
});

test("texts and tokens of a wrong type do not reach the engine", async () => {
  const model = await pteron.Model.load(makeFile([10], { languageModel: true }), { tokenizer: new TextEncoder().encode("tokens") });
  for (const odd of [NaN, 2 ** 32, null, undefined, {}, { length: 2 ** 40 }, [1], true, 10n, Symbol.iterator]) {
    assert.throws(() => model.encode(odd), { code: "input", message: /must be a string/ });
    assert.throws(() => model.decode(odd), { code: "input", message: /must be a Uint32Array/ });
  }
  await model.dispose();
});

test("deprecated option names still work", async () => {
  const model = await writer();
  await texts(model.session().generate("go", { ignoreEnd: true }));
  assert.deepEqual(fake.generated.options, { ignoreEos: true });
  await texts(model.session().generate("go", { ignoreEnd: true, ignoreEos: false }));
  assert.deepEqual(fake.generated.options, { ignoreEos: false }, "the new name wins");
  const file = () => makeFile([10], { languageModel: true });
  await pteron.Model.check(file(), { halfCache: true });
  assert.equal(fake.planned.kvDtype, "f16");
  await pteron.Model.check(file(), { kvDtype: "f32", halfCache: true });
  assert.equal(fake.planned.kvDtype, "f32", "the new name wins");
  assert.equal((await pteron.Model.check(file(), { rehearse: false })).tokensPerSecond, null);
  const seen = [];
  await pteron.Model.load(file(), { tokenizer, onProgress: (progress) => seen.push(progress) });
  assert.ok(seen.length > 0 && seen.every(({ notKept, notCached }) => notKept === notCached));
});

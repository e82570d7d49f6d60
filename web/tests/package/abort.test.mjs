import assert from "node:assert/strict";
import { test } from "node:test";

import { browser } from "./fake-browser.mjs";
import { fake, makeFile } from "./fake-engine.mjs";
import { file, files, load, nothingLeft, pteron, tick, url } from "./harness.mjs";

/** Waits until something rejects; fails where it does not do so by itself. */
const soon = (promise) => Promise.race([promise, new Promise((resolve) => setTimeout(resolve, 2000, "still waiting"))]);

for (const name of ["open", "waitIdle", "finish"]) {
  test(`an abort does not wait for the engine's ${name}, and its objects are freed after it`, async () => {
    browser("none");
    const go = fake.hold(name);
    const controller = new AbortController();
    const reason = new Error("enough");
    const loading = load({ signal: controller.signal }, file);
    loading.catch(() => {});
    await tick();
    controller.abort(reason);
    await assert.rejects(soon(loading), (error) => error === reason);
    await tick();
    if (name === "open") assert.equal(fake.alive().Head, 1, "the head is in use");
    go();
    await nothingLeft();
  });
}

for (const name of ["open", "benchmark"]) {
  test(`a check that is called off does not wait for the engine's ${name}`, async () => {
    browser("none");
    files.set("/model.pte", makeFile([100], { languageModel: true }));
    const go = fake.hold(name);
    const controller = new AbortController();
    const checking = pteron.Model.check(files.get("/model.pte"), { signal: controller.signal });
    checking.catch(() => {});
    await tick();
    controller.abort();
    await assert.rejects(soon(checking), { name: "AbortError" });
    go();
    await nothingLeft();
  });
}

test("a GPU that is given back while memory is made is freed after that", async () => {
  browser("none");
  const go = fake.hold("open");
  const loading = load({}, file);
  await tick();
  await pteron.release();
  assert.equal(fake.live.get("Gpu"), 1);
  go();
  await (await loading).dispose();
  await nothingLeft();
  assert.equal(fake.live.get("Gpu"), 0);
});

const writer = () => load({ tokenizer: new TextEncoder().encode("tokens") }, makeFile([10], { languageModel: true }));

test("an abort of a text does not wait for the engine; the session is busy until it has returned", async () => {
  browser("none");
  const model = await writer();
  const session = model.session();
  fake.script = { length: 1000 };
  const go = fake.hold("stop");
  const controller = new AbortController();
  const generation = session.generate("go", { signal: controller.signal });
  const pieces = generation[Symbol.asyncIterator]();
  await pieces.next();
  const waiting = pieces.next();
  controller.abort();
  await assert.rejects(soon(waiting), { name: "AbortError" });
  await assert.rejects(soon(generation.result), { name: "AbortError" });
  assert.throws(() => session.generate("again"), /is generating/);
  let disposed = false;
  const disposing = model.dispose().then(() => (disposed = true));
  await tick();
  assert.equal(disposed, false, "disposing waits for the engine");
  go();
  await disposing;
  await nothingLeft();
});

test("after an abort, stop waits until the session is free", async () => {
  browser("none");
  const model = await writer();
  const session = model.session();
  fake.script = { length: 1000 };
  const controller = new AbortController();
  const generation = session.generate("go", { signal: controller.signal });
  await generation[Symbol.asyncIterator]().next();
  controller.abort();
  await generation.stop();
  fake.script = null;
  assert.equal(await session.generate("again").text(), "1 2 3 4 5 ");
  await model.dispose();
});

test("an abort after the end drops nothing", async () => {
  browser("none");
  const model = await writer();
  const controller = new AbortController();
  const generation = model.session().generate("go", { signal: controller.signal });
  await generation.result;
  controller.abort();
  assert.equal(await generation.text(), "1 2 3 4 5 ");
  assert.equal((await generation.result).finish, "max-tokens");
  await model.dispose();
});

test("a listener that throws does not break a load", async (t) => {
  browser("none");
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.message);
  t.after(() => delete globalThis.reportError);
  const onProgress = () => {
    throw new Error("my own fault");
  };
  await (await load({ onProgress }, url())).dispose();
  assert.ok(reported.length > 2 && reported.every((message) => message === "my own fault"));
});

// An engine that trapped is not asked again: this process has one for its own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { browser } from "./fake-browser.mjs";
import { fake, makeFile } from "./fake-engine.mjs";

const listeners = new Map();
globalThis.addEventListener = (name, listener) => listeners.set(name, listener);
const { importPackage } = await import("./bundle.mjs");
browser("none");

/** A trap, as a page hears of it where nobody catches it. */
const trap = (stack) => Object.assign(new WebAssembly.RuntimeError("unreachable"), { stack });
const isStopped = { name: "PteronError", code: "internal", message: /^the engine stopped: unreachable/ };

test("a trap that nobody catches rejects calls in flight and all later ones", async () => {
  const pteron = await importPackage();
  const model = await pteron.Model.load(makeFile([10]));
  const other = await pteron.Model.load(makeFile([10]));
  fake.hold("call");
  const call = model.call([]);
  call.catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));
  listeners.get("error")({ error: trap("at https://example.com/physics.wasm:1") });
  listeners.get("error")({ error: new Error("pteron") });
  await new Promise((resolve) => setImmediate(resolve));
  listeners.get("error")({ error: trap("at https://example.com/assets/pteron.wasm:wasm-function[7]") });
  await assert.rejects(call, isStopped);
  await assert.rejects(other.call([]), isStopped);
  await assert.rejects(pteron.Model.load(makeFile([10])), isStopped);
  await model.dispose();
});

test("a trap in a call says that the engine stopped", async () => {
  const pteron = await importPackage();
  const model = await pteron.Model.load(makeFile([10]));
  fake.trap = trap("");
  await assert.rejects(model.call([]), isStopped);
  fake.trap = null;
  await assert.rejects(model.call([]), isStopped);
  await model.dispose();
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { load } from "./bundle.mjs";

/** The worker's end of the conversation. */
const said = [];
const listeners = [];
globalThis.postMessage = (message) => said.push(message);
globalThis.addEventListener = (_type, listener) => listeners.push(listener);
await load("worker", fileURLToPath(new URL("fake-pteron.mjs", import.meta.url)));

const tell = (data) => listeners.forEach((listener) => listener({ data }));
const moment = () => new Promise((resolve) => setTimeout(resolve, 5));
const end = (id) => said.find((message) => message.id === id && message.kind !== "note");
const source = (name) => ({ kind: "url", name, url: `https://example.org/${name}.pte` });
const loads = globalThis.fakeLoads;

test("loads wait for one another, and one that was given up replaces nothing", async () => {
  tell({ kind: "load", id: 1, args: { source: source("first") } });
  await moment();
  loads[0].finish();
  await moment();
  assert.equal(end(1).result.name, "first");

  tell({ kind: "load", id: 2, args: { source: source("second") } });
  tell({ kind: "load", id: 3, args: { source: source("third") } });
  await moment();
  assert.equal(loads.length, 2, "the third waits");
  tell({ kind: "abort", id: 2 });
  // Too late: the package does not look at the signal any more.
  loads[1].finish();
  await moment();
  assert.equal(end(2).failure.code, "aborted");
  assert.deepEqual([loads[0].disposed, loads[1].disposed], [undefined, true]);

  assert.equal(loads.length, 3);
  loads[2].reject(Object.assign(new Error("not a program"), { code: "bad-file" }));
  await moment();
  assert.equal(end(3).failure.code, "bad-file");
  assert.equal(loads[0].disposed, undefined, "the first is still there");
});

test("an answer that was begun is handed over with its conversation", async () => {
  const messages = [{ role: "user", content: "why?" }];
  tell({ kind: "generate", id: 4, args: { prompt: { style: "chat", messages, partial: "Because" }, options: {} } });
  await moment();
  assert.equal(end(4).result.result.finish, "stop-token");
  assert.deepEqual(loads[0].prompt, { messages, partial: "Because" });
  tell({ kind: "generate", id: 5, args: { prompt: { style: "chat", messages, partial: "" }, options: {} } });
  await moment();
  assert.deepEqual(loads[0].prompt, messages);
});

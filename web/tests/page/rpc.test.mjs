import assert from "node:assert/strict";
import { test as plainTest } from "node:test";
import { MessageChannel } from "node:worker_threads";

import { load } from "./bundle.mjs";

const { Client, serve, failureOf } = await load("rpc");

/** A client and a server with the given handlers, joined by a real channel. */
function join(t, handlers) {
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  const lost = [];
  serve(port2, handlers);
  const client = new Client(port1, (reason) => lost.push(reason));
  return { client, lost, server: port2 };
}

/** Fails instead of waiting for a result that never comes. */
const test = (name, body) => plainTest(name, { timeout: 5000 }, body);

const settled = (promise) => promise.then((value) => ({ value }), (error) => ({ error }));

test("a result resolves the call that asked", async (t) => {
  const { client } = join(t, { forget: async ({ url }) => (await new Promise((resolve) => setTimeout(resolve, url.length)), url) });
  const results = await Promise.all(["four", "a", "three"].map((url) => client.call("forget", { url })));
  assert.deepEqual(results, ["four", "a", "three"]);
});

test("notes arrive in order and before the result", async (t) => {
  const { client } = join(t, {
    generate: async (_args, { note }) => {
      for (let token = 0; token < 5; token += 1) note({ token, text: "" });
      return "end";
    },
  });
  const seen = [];
  const result = await client.call("generate", {}, { onNote: ({ token }) => seen.push(token) });
  assert.equal(result, "end");
  assert.deepEqual(seen, [0, 1, 2, 3, 4]);
});

test("errors carry their sentence and their code", async (t) => {
  const { client } = join(t, {
    load: async () => {
      throw Object.assign(new Error("not a program"), { code: "bad-file", modelGone: true });
    },
    cached: async () => {
      throw new TypeError("x is undefined");
    },
  });
  const { error } = await settled(client.call("load", {}));
  assert.deepEqual([error.message, error.code, error.modelGone], ["not a program", "bad-file", true]);
  const other = await settled(client.call("cached", null));
  assert.deepEqual([other.error.message, other.error.code, other.error.modelGone], ["x is undefined", "internal", false]);
});

test("an abort reaches its own call alone", async (t) => {
  const untilAborted = ({ url }, { signal }) =>
    new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      if (url === "short") setTimeout(() => resolve("done"), 30);
    });
  const { client } = join(t, { forget: untilAborted });
  const controller = new AbortController();
  const long = settled(client.call("forget", { url: "long" }, { signal: controller.signal }));
  const short = client.call("forget", { url: "short" });
  controller.abort();
  assert.equal((await long).error.code, "aborted");
  assert.equal(await short, "done");
});

test("a call whose signal is aborted already is not made", async (t) => {
  let calls = 0;
  const { client } = join(t, { cached: async () => (calls += 1) });
  const { error } = await settled(client.call("cached", null, { signal: AbortSignal.abort() }));
  assert.equal(error.code, "aborted");
  await client.call("cached", null);
  assert.equal(calls, 1);
});

test("calls in flight when the worker ends are rejected, and so are later ones", async (t) => {
  const { client } = join(t, { cached: () => new Promise(() => {}) });
  const waiting = settled(client.call("cached", null));
  client.close("the tab was short of memory");
  assert.deepEqual([(await waiting).error.code, (await waiting).error.message], ["crashed", "the tab was short of memory"]);
  assert.equal((await settled(client.call("cached", null))).error.code, "crashed");
});

test("a lost GPU is heard of, until the client is closed", async (t) => {
  const { client, lost, server } = join(t, { cached: async () => [] });
  server.postMessage({ kind: "lost", reason: "driver reset" });
  await client.call("cached", null);
  assert.deepEqual(lost, ["driver reset"]);
  client.close("over");
  server.postMessage({ kind: "lost", reason: "again" });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(lost, ["driver reset"]);
});

test("messages that nobody here has sent are passed over, on both sides", async (t) => {
  const { client, lost, server } = join(t, { cached: async () => [1] });
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  const said = [];
  port1.on("message", (message) => said.push(message));
  serve(port2, { cached: async () => [1] });
  for (const odd of [null, undefined, 5, "abort", [], {}, { kind: 7 }, { kind: "abort" }, { kind: "abort", id: {} }, { kind: "done", id: 99 }]) {
    server.postMessage(odd);
    port1.postMessage(odd);
  }
  for (const kind of ["constructor", "toString", "__proto__", "nothing"]) port1.postMessage({ kind, id: 1, args: null });
  port1.postMessage({ kind: "cached", id: 2, args: null });
  assert.deepEqual(await client.call("cached", null), [1]);
  assert.deepEqual(lost, []);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(said.at(-1).result ?? said.find(({ id, kind }) => id === 2 && kind === "done").result, [1]);
  assert.ok(said.filter(({ id }) => id === 1).every(({ kind }) => kind === "failed"));
});

test("things that are no errors are still failures", () => {
  assert.deepEqual(failureOf("oh"), { message: "oh", code: "internal" });
  assert.equal(failureOf(new DOMException("x", "AbortError")).code, "aborted");
  assert.equal(failureOf(new DOMException("the file has changed", "NotReadableError")).code, "browser");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { browser } from "./fake-browser.mjs";
import { engineError, fake, makeFile } from "./fake-engine.mjs";
import { file, files, isCode, load, loadAndFree, MiB, nothingLeft, pteron, server, url } from "./harness.mjs";
import { serve } from "./server.mjs";

test("external data is read from its own file", async () => {
  browser("files");
  files.set("/weights.ptd", makeFile([3 * MiB]));
  await loadAndFree({ data: [url("/weights.ptd")] });
  assert.ok(server.count("/weights.ptd") > 0);
});

test("files beside a model are found once, and their absence is remembered", async () => {
  const { root } = browser("files");
  files.set("/model.pte", makeFile([1000], { languageModel: true }));
  files.set("/tokenizer.model", new TextEncoder().encode("a tokenizer"));
  files.set("/chat_template.jinja", new TextEncoder().encode("{{ x }}"));
  const model = await load();
  assert.deepEqual(fake.llm, { tokenizer: "a tokenizer", files: { template: "{{ x }}" } });
  await model.dispose();
  assert.equal(server.count("/tokenizer.json"), 1);
  const count = server.requests.length;
  await loadAndFree();
  assert.equal(server.requests.length, count, "no request at all");
  assert.deepEqual((await pteron.cache.list()).map((entry) => entry.url), [url()]);
  files.set("/tokenizer.json", new TextEncoder().encode("a better one"));
  await loadAndFree({ revalidate: true });
  assert.equal(fake.llm.tokenizer, "a better one");
  await pteron.cache.delete(url());
  assert.equal(root.children.get("pteron").children.size, 0, "what lies beside it goes, too");
});

test("a tokenizer may be compressed in transit", async () => {
  for (const kind of ["files", "none"]) {
    browser(kind);
    server.requests.length = 0;
    server.behaviour.gzip = true;
    files.set("/model.pte", makeFile([1000], { languageModel: true }));
    files.set("/tokenizer.json", new TextEncoder().encode("tokens ".repeat(100_000)));
    await loadAndFree();
    assert.equal(fake.llm.tokenizer.length, 700_000);
    assert.equal(server.count("/tokenizer.json"), 1);
  }
});

test("a tokenizer that is none is not kept", async () => {
  browser("files");
  files.set("/model.pte", makeFile([1000], { languageModel: true }));
  files.set("/tokenizer.json", new TextEncoder().encode("broken"));
  fake.llmError = engineError("tokenizer", "the file is not a tokenizer");
  await assert.rejects(load(), isCode("tokenizer"));
  await nothingLeft();
  fake.llmError = null;
  files.set("/tokenizer.json", new TextEncoder().encode("mended"));
  await loadAndFree();
  assert.equal(fake.llm.tokenizer, "mended");
  assert.equal((await pteron.cache.list())[0].complete, true, "the model stays");
});

test("a page that a server sends for everything is no tokenizer", async () => {
  browser("none");
  files.set("/model.pte", makeFile([1000], { languageModel: true }));
  server.behaviour.status = (_, { url: path }) => (path === "/model.pte" ? undefined : 200);
  const model = await load();
  assert.throws(() => model.session(), isCode("input", /neither tokenizer\.json nor tokenizer\.model/));
  await model.dispose();
});

test("headers go to the model's origin only", async () => {
  browser("none");
  files.set("/model.pte", makeFile([1000], { languageModel: true }));
  const other = await serve(new Map([["/t.json", new TextEncoder().encode("t")], ["/w.ptd", makeFile([5])]]));
  await loadAndFree({ headers: { Authorization: "secret" }, tokenizer: `${other.base}/t.json`, data: [`${other.base}/w.ptd`] });
  assert.ok(other.requests.length >= 2);
  assert.ok(server.requests.every(({ headers }) => headers.authorization === "secret"));
  assert.ok(other.requests.every(({ headers }) => headers.authorization === undefined));
  await other.close();
});

test("a GPU is shared, and opened anew when it was lost", async () => {
  browser("none");
  const first = await load({}, file);
  const second = await load({}, file);
  assert.equal(fake.gpus.length, 1);
  fake.gpus[0].destroy();
  assert.deepEqual(await first.lost, { reason: "destroyed" });
  const third = await load({}, file);
  assert.equal(fake.gpus.length, 2);
  for (const model of [first, second, third]) await model.dispose();
  await pteron.release();
  assert.equal(fake.live.get("Gpu"), 0, "a GPU that is gone is freed");
});

test("a GPU without a name has that of the browser's adapter, in a model's info, too", async () => {
  browser("none");
  fake.gpuName = "";
  navigator.gpu = { requestAdapter: async () => ({ info: { vendor: "acme", architecture: "one" } }) };
  const model = await load({}, file);
  assert.equal(model.info.adapter.name, "acme one");
  await model.dispose();
});

test("files that a server does not hand out count as missing, but are asked for again", async () => {
  browser("files");
  files.set("/model.pte", makeFile([1000], { languageModel: true }));
  files.set("/tokenizer.json", new TextEncoder().encode("tokens"));
  const refused = (path) => server.behaviour.status = (_, { url }) => (path.test(url) ? 403 : undefined);
  refused(/config|template|pteron\.json/);
  await loadAndFree();
  assert.equal(fake.llm.tokenizer, "tokens");
  refused(/tokenizer/);
  await pteron.cache.clear();
  const model = await load();
  assert.throws(() => model.session(), isCode("input", /neither tokenizer\.json/, /tokenizer\.json: the server answered 403/));
  await model.dispose();
  server.behaviour.status = undefined;
  await loadAndFree();
  assert.equal(fake.llm.tokenizer, "tokens");
  server.behaviour.status = () => 403;
  await assert.rejects(load({ tokenizer: url("/t.json") }), isCode("network", /403/), "one that is named is not optional");
});

test("beside a model of another origin, what cannot be reached counts as missing", async (t) => {
  browser("files");
  globalThis.location = { origin: "https://page.example", href: "https://page.example/" };
  const real = globalThis.fetch;
  t.after(() => {
    globalThis.fetch = real;
    delete globalThis.location;
  });
  let failed = 0;
  globalThis.fetch = async (address, init) => {
    if (/model\.pte|tokenizer\.json/.test(address)) return real(address, init);
    failed++;
    throw new TypeError("Failed to fetch");
  };
  files.set("/model.pte", makeFile([1000], { languageModel: true }));
  files.set("/tokenizer.json", new TextEncoder().encode("tokens"));
  await loadAndFree();
  assert.equal(failed, 6, "each of three files is tried twice");
  globalThis.fetch = real;
  files.set("/chat_template.jinja", new TextEncoder().encode("{{ y }}"));
  await loadAndFree();
  assert.deepEqual(fake.llm.files, { template: "{{ y }}" }, "what could not be reached is not remembered as missing");
});

test("support says why not", async () => {
  browser("none");
  assert.equal((await pteron.support()).adapter.name, "Fake");
  await pteron.release();
  fake.openError = engineError("no-webgpu", "this browser has no WebGPU");
  assert.deepEqual(await pteron.support(), { supported: false, reason: "this browser has no WebGPU" });
  await assert.rejects(load(), isCode("no-webgpu"));
  fake.openError = null;
  assert.equal((await pteron.support()).supported, true);
});

test("a check reads the tables alone", async () => {
  browser("files");
  files.set("/model.pte", makeFile([30 * MiB], { languageModel: true }));
  const length = files.get("/model.pte").length;
  const fit = await pteron.Model.check(url());
  assert.equal(fit.sentence, "needs 812 MB, this GPU allows 1 GB buffers: fits, about 31 tokens/s");
  assert.deepEqual([fit.fits, fit.downloadBytes, fit.cachedBytes, fit.tokensPerSecond], [true, length, 0, 31.2]);
  assert.deepEqual(server.requests.map(({ range }) => range), ["bytes=0-262143"]);
  await nothingLeft();
  assert.equal((await pteron.Model.check(url(), { benchmark: false })).tokensPerSecond, null);
  await loadAndFree({ tokenizer: false });
  server.requests.length = 0;
  const later = await pteron.Model.check(url());
  assert.deepEqual([later.downloadBytes, later.cachedBytes, server.requests.length], [0, length, 0]);
});

test("a program that cannot run does not fit; one that cannot be read is an error", async () => {
  browser("none");
  fake.planError = engineError("unsupported", "there is no kernel for aten.foo");
  const fit = await pteron.Model.check(url());
  assert.equal(fit.fits, false);
  assert.equal(fit.sentence, "this GPU allows 1 GB buffers: does not fit: there is no kernel for aten.foo");
  fake.planError = null;
  fake.loaderError = engineError("out-of-memory", "the GPU is full");
  const tight = await pteron.Model.check(url());
  assert.equal(tight.sentence, "needs 812 MB, this GPU allows 1 GB buffers: does not fit: the GPU is full");
  assert.deepEqual([tight.fits, tight.memoryBytes, tight.largestBufferBytes], [false, 812e6, 500e6]);
  assert.equal((await pteron.Model.check(url(), { benchmark: false })).fits, true, "the plan alone is asked for");
  fake.loaderError = engineError("device", "the driver failed");
  await assert.rejects(pteron.Model.check(url()), isCode("device"));
  await assert.rejects(pteron.Model.check(new Uint8Array(20)), isCode("bad-file"));
  await assert.rejects(pteron.Model.check(url("/nothing")), isCode("no-such-file"));
  await nothingLeft();
});

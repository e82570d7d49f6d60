// Tables, tokenizers and templates are the ones that they were, or that somebody vouched for; others are refused before use.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

import { browser } from "./fake-browser.mjs";
import { fake, makeFile } from "./fake-engine.mjs";
import { file, files, isCode, load, loadAndFree, MiB, nothingLeft, pteron, server, url } from "./harness.mjs";

const bytes = (text) => new TextEncoder().encode(text);
const SCRIPT = fileURLToPath(new URL("../../pteron/bin/manifest.mjs", import.meta.url));

/** A language model with files beside it. */
function serveModel() {
  files.set("/model.pte", makeFile([3 * MiB, 2 * MiB], { languageModel: true }));
  files.set("/tokenizer.json", bytes("tokens ".repeat(100_000)));
  files.set("/chat_template.jinja", bytes("{{ messages }}"));
}

/** The manifest that `pteron-manifest` writes for the served files. */
function manifest(...names) {
  const folder = mkdtempSync(path.join(tmpdir(), "pteron-manifest-"));
  try {
    for (const name of names) writeFileSync(path.join(folder, name), files.get(`/${name}`));
    const integrity = execFileSync(process.execPath, [SCRIPT, path.join(folder, "model.pte")], { encoding: "utf8" }).trim();
    const text = readFileSync(path.join(folder, "model.pte.manifest.json"));
    return { integrity, text, value: JSON.parse(text) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Flips a bit of what is kept of a file, in the n-th part that begins with `beginning`. */
async function tamper(parts, beginning, at) {
  for (const { file: part } of parts()) {
    const content = new Uint8Array(await part.content.arrayBuffer());
    if (!new TextDecoder().decode(content.subarray(0, beginning.length)).startsWith(beginning)) continue;
    content[at] ^= 1;
    part.content = new Blob([content]);
    return;
  }
  assert.fail(`no part begins with ${beginning}`);
}

const sides = { "the tokenizer": ["tokens", 500_000], "the chat template": ["{{ m", 6], "the tables": ["FAKE", 60] };

for (const [what, [beginning, at]] of Object.entries(sides)) {
  test(`where ${what} changed in the cache, the right bytes are fetched again`, async () => {
    const { parts } = browser("files");
    serveModel();
    await loadAndFree();
    const { llm } = fake;
    await tamper(parts, beginning, at);
    fake.llm = null;
    await loadAndFree();
    assert.deepEqual(fake.llm, llm);
    server.requests.length = 0;
    await loadAndFree();
    assert.equal(server.requests.length, 0, "the good bytes were kept");
  });

  test(`where ${what} changed in the cache and on the server, it is refused`, async () => {
    const { parts } = browser("files");
    serveModel();
    await loadAndFree();
    await tamper(parts, beginning, at);
    const served = { FAKE: "/model.pte", tokens: "/tokenizer.json", "{{ m": "/chat_template.jinja" }[beginning];
    const changed = files.get(served).slice();
    changed[at] ^= 2;
    files.set(served, changed);
    fake.llm = null;
    await assert.rejects(load(), (error) => {
      assert.ok(error instanceof pteron.IntegrityError);
      assert.match(error.expected, /^sha256-[A-Za-z0-9+/]{43}=$/);
      assert.match(error.actual, /^sha256-/);
      assert.notEqual(error.expected, error.actual);
      return isCode("integrity", new RegExp(served), /revalidate: true/)(error);
    });
    assert.equal(fake.llm, null, "nobody saw it");
    await nothingLeft();
    // A tokenizer and a template of other bytes are fine where they are accepted; tables with another bit make no sense here.
    if (beginning === "FAKE") files.set(served, makeFile([3 * MiB], { languageModel: true }));
    await loadAndFree({ revalidate: true });
    assert.notEqual(fake.llm, null);
    await loadAndFree();
  });
}

test("a file whose bytes have no checksum in the tables is compared block by block", async () => {
  const { parts } = browser("files");
  const keyless = makeFile([9 * MiB, 300, 2 * MiB], { keyless: true });
  files.set("/model.pte", keyless);
  await loadAndFree();
  const last = parts().find(({ name }) => name === 1).file;
  const content = new Uint8Array(await last.content.arrayBuffer());
  content[MiB + 5] ^= 1;
  last.content = new Blob([content]);
  server.requests.length = 0;
  await loadAndFree();
  assert.ok(server.requests.length > 0, "the damage was noticed");
  const changed = keyless.slice();
  changed[10 * MiB] ^= 1;
  files.set("/model.pte", changed);
  last.content = new Blob([]);
  await pteron.cache.list();
  await assert.rejects(async () => {
    for (const { file: part } of parts()) part.content = new Blob([]);
    await load();
  }, isCode("integrity", /the block at \d+/));
  await nothingLeft();
});

test("a template that was not there, or is there no more, is refused until it is accepted", async () => {
  const { root } = browser("files");
  serveModel();
  files.delete("/chat_template.jinja");
  await loadAndFree();
  // The browser lost what was kept, but for the pins.
  const evict = () => {
    const place = root.children.get("pteron");
    for (const name of [...place.children.keys()]) if (!name.endsWith(".pins")) place.children.delete(name);
  };
  evict();
  files.set("/chat_template.jinja", bytes("{{ evil }}"));
  await assert.rejects(load(), isCode("integrity", /chat_template\.jinja/, /no bytes/));
  evict();
  await loadAndFree({ revalidate: true });
  assert.deepEqual(fake.llm.files, { template: "{{ evil }}" });
  evict();
  files.delete("/chat_template.jinja");
  await assert.rejects(load(), isCode("no-such-file", /chat_template\.jinja/));
  await pteron.cache.delete(url());
  await loadAndFree();
  assert.deepEqual(fake.llm.files, {}, "deleting it from the cache accepts what there is");
  assert.deepEqual((await pteron.cache.list()).map((entry) => entry.complete), [true]);
});

test("without a cache nothing is compared, and nothing is kept", async () => {
  const { disk } = browser("files");
  serveModel();
  await loadAndFree({ cache: false });
  files.set("/chat_template.jinja", bytes("{{ other }}"));
  await loadAndFree({ cache: false });
  assert.equal(disk.writes, 0);
});

test("pins that were damaged count as none", async () => {
  for (const content of ["", "{", "[1]", "null", '{"x":{"length":-1}}', `{"x":{"length":1,"blocks":[1]}}`]) {
    const { root } = browser("files");
    serveModel();
    await loadAndFree();
    const place = root.children.get("pteron");
    const [name] = [...place.children.keys()].filter((key) => key.endsWith(".pins"));
    place.children.get(name).children.get("pins.json").content = new Blob([content]);
    await loadAndFree();
  }
});

test("a full disk loses the pins, and nothing else", async () => {
  browser("files", { quota: 1000, estimate: 1e12 });
  serveModel();
  await loadAndFree();
  files.set("/chat_template.jinja", bytes("{{ other }}"));
  await loadAndFree();
});

test("a manifest that the caller vouches for is obeyed, from any source", async () => {
  browser("files");
  serveModel();
  const { integrity, text, value } = manifest("model.pte", "tokenizer.json", "chat_template.jinja");
  assert.deepEqual(Object.keys(value.files).sort(), ["chat_template.jinja", "model.pte", "tokenizer.json"]);
  files.set("/model.pte.manifest.json", text);
  for (const given of [integrity, value]) {
    await loadAndFree({ integrity: given });
    assert.equal(fake.llm.files.template, "{{ messages }}");
    await loadAndFree({ integrity: given, cache: false });
    await pteron.Model.check(url(), { integrity: given });
    await pteron.cache.clear();
  }
  const local = (name) => new File([files.get(`/${name}`)], name);
  await loadAndFree({ integrity: value, tokenizer: local("tokenizer.json") }, local("model.pte"));
  assert.equal(server.count("/pteron.json"), 0, "what is not in it is not asked for");
  const other = new File([bytes("other")], "tokenizer.json");
  await assert.rejects(load({ integrity: value, tokenizer: other }, local("model.pte")), isCode("integrity", /tokenizer\.json/, /5/));
  const unlisted = new File([files.get("/tokenizer.json")], "mine.json");
  await assert.rejects(load({ integrity: value, tokenizer: unlisted }, local("model.pte")), isCode("integrity", /mine\.json is not in the manifest/));
  await assert.rejects(load({ integrity: value }, files.get("/model.pte")), isCode("integrity", /the file is not in the manifest/));
  await nothingLeft();
});

test("with a manifest every change is refused, wherever it is", async () => {
  serveModel();
  const { integrity, text } = manifest("model.pte", "tokenizer.json", "chat_template.jinja");
  for (const [name, at] of [["model.pte", 40], ["tokenizer.json", 699_999], ["chat_template.jinja", 0], ["model.pte.manifest.json", 30]]) {
    browser("files");
    serveModel();
    files.set("/model.pte.manifest.json", text);
    const changed = files.get(`/${name}`).slice();
    changed[at] ^= 1;
    files.set(`/${name}`, changed);
    for (const revalidate of [false, true]) await assert.rejects(load({ integrity, revalidate }), isCode("integrity", new RegExp(name)), name);
    files.set(`/${name}`, files.get(`/${name}`).slice(0, -1));
    await assert.rejects(load({ integrity }), isCode("integrity", new RegExp(name)), name);
    files.delete(`/${name}`);
    await pteron.cache.clear();
    await assert.rejects(load({ integrity }), isCode("no-such-file", new RegExp(name)), name);
    await nothingLeft();
  }
});

test("a new manifest brings new files, past those that are kept", async () => {
  browser("files");
  serveModel();
  const old = manifest("model.pte", "tokenizer.json", "chat_template.jinja");
  files.set("/model.pte.manifest.json", old.text);
  await loadAndFree({ integrity: old.integrity });
  files.set("/model.pte", makeFile([MiB], { languageModel: true }));
  files.set("/chat_template.jinja", bytes("{{ newer }}"));
  server.behaviour.etag = '"two"';
  const next = manifest("model.pte", "tokenizer.json", "chat_template.jinja");
  files.set("/model.pte.manifest.json", next.text);
  await loadAndFree({ integrity: next.integrity });
  assert.equal(fake.llm.files.template, "{{ newer }}");
  assert.equal((await pteron.cache.list())[0].totalBytes, files.get("/model.pte").length);
});

test("an invalid manifest or digest is rejected with a sentence", async () => {
  browser("files");
  serveModel();
  const bad = [{}, null, { version: 2, files: {} }, { version: 1 }, { version: 1, files: { "model.pte": { length: 5, blocks: [] } } }, { version: 1, files: { "model.pte": { length: 1, blocks: [null] } } }];
  for (const integrity of bad) await assert.rejects(load({ integrity }), isCode("bad-file", /manifest/));
  for (const integrity of ["", "sha256-", "sha512-abc", "md5-x"]) await assert.rejects(load({ integrity }), isCode("input", /sha256-/));
  const digest = `sha256-${"A".repeat(43)}=`;
  await assert.rejects(load({ integrity: digest }, file), isCode("input", /address/));
  await assert.rejects(load({ integrity: digest }), isCode("no-such-file", /model\.pte\.manifest\.json/));
});

test("the script says what it needs, and refuses files of one name", () => {
  const run = (...args) => execFileSync(process.execPath, [SCRIPT, ...args], { encoding: "utf8", stdio: "pipe" });
  assert.throws(() => run(), /usage: pteron-manifest/);
  assert.throws(() => run("/nothing/model.pte"), /ENOENT/);
});

test("pteron-manifest runs by the link that npm installs", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "pteron-manifest-"));
  try {
    const link = path.join(folder, "pteron-manifest");
    symlinkSync(SCRIPT, link);
    writeFileSync(path.join(folder, "model.pte"), "model");
    assert.match(execFileSync(process.execPath, [link, path.join(folder, "model.pte")], { encoding: "utf8" }), /^sha256-/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

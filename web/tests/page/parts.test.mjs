import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./bundle.mjs";

const format = await load("format");
const { isOwn, shownAddress, sortFiles, sourceFromFiles, sourceFromText } = await load("source");
const { DEFAULTS, cleanNumber, keepSettings, optionsOf, readSettings } = await load("settings");
const { openStore } = await load("storage");
const { LossGuard } = await load("guard");
const { lossOf, lossText } = await load("loss");
const { group } = await load("profile");
const { progressLine, sentence } = await load("panel");

test("sizes are written as the package writes them", () => {
  const cases = [[999, "999 bytes"], [10_518_528, "10.5 MB"], [812_000_000, "812 MB"]];
  for (const [count, text] of cases) assert.equal(format.bytes(count), text);
});

test("times", () => {
  const cases = [[0.0004, "0 ms"], [0.138, "138 ms"], [0.9999, "1 s"], [1.5, "1.5 s"], [59.7, "1 min 0 s"], [125, "2 min 5 s"], [3600, "1 h 0 min"], [9000, "2 h 30 min"]];
  for (const [value, text] of cases) assert.equal(format.seconds(value), text);
  assert.equal(format.timeLeft(0.3), "less than a second left");
  assert.equal(format.timeLeft(4.2), "5 s left");
  assert.equal(format.microseconds(31.25), "31.3 µs");
  assert.equal(format.microseconds(3860), "3.86 ms");
});

test("shares, rates and counts", () => {
  assert.equal(format.percent(0.7654), "77 %");
  assert.equal(format.percent(0.004), "0.4 %");
  assert.equal(format.percent(0.0001), "< 0.1 %");
  assert.equal(format.rate(31.24), "31.2 tokens/s");
  assert.equal(format.count(1, "token"), "1 token");
  assert.equal(format.count(1024, "token"), "1,024 tokens");
});

const file = (name) => new File(["x"], name);

test("files are told apart by their names", () => {
  const names = ["Llama.PTE", "w.ptd", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "pteron.json", "notes.txt"];
  const set = sortFiles(names.map(file));
  assert.deepEqual(
    [set.program, set.data[0], set.tokenizer, set.tokenizerConfig, set.template, set.sidecar, set.unknown[0]].map((entry) => entry.name),
    names,
  );
  for (const name of ["tokenizer.model", "o200k.tiktoken", "my-tokenizer.json"]) assert.equal(sortFiles([file(name)]).tokenizer.name, name);
});

test("a forgotten tokenizer completes the program that came before", () => {
  const program = sourceFromFiles([file("llama.pte")], null);
  assert.equal(program.name, "llama");
  assert.equal(program.tokenizer, undefined);
  const whole = sourceFromFiles([file("tokenizer.json")], program);
  assert.equal(whole.program, program.program);
  assert.equal(whole.tokenizer.name, "tokenizer.json");
  const other = sourceFromFiles([file("smol.pte")], whole);
  assert.equal(other.tokenizer, undefined, "another program does not get this one's tokenizer");
});

test("files that make no model are named", () => {
  assert.match(sourceFromFiles([file("notes.txt")], null), /“notes\.txt” is not/);
  assert.match(sourceFromFiles([file("tokenizer.json")], null), /no \.pte program/);
});

test("addresses are made whole and named", () => {
  const base = "https://example.org/app/";
  assert.deepEqual(sourceFromText(" m/llama%201b.pte ", base), { kind: "url", name: "llama 1b", url: "https://example.org/app/m/llama%201b.pte" });
  assert.equal(sourceFromText("https://x.org/smollm/model.pte?v=2", base).name, "smollm");
  assert.equal(sourceFromText("https://x.org/%ff.pte", base).name, "%ff");
  for (const text of ["", "javascript:alert(1)", "file:///etc/passwd", "http://", "data:,x", "blob:https://example.org/1", "https://good.example@evil.example/a.pte"]) assert.equal(typeof sourceFromText(text, base), "string", text);
});

test("only what is in the page's own folder is the page's own", () => {
  const base = "https://example.org/app/index.html?model=x";
  const own = (text) => isOwn(sourceFromText(text, base), base);
  for (const text of ["m.pte", "/app/m/n.pte", "https://example.org/app/m.pte", "./a/../m.pte"]) assert.equal(own(text), true, text);
  const others = ["/m.pte", "../m.pte", "%2e%2e/m.pte", "m%2f..%2f..%2fx.pte", "..\\m.pte", "//evil.example/app/m.pte", "\\\\evil.example/app/m.pte", "http://example.org/app/m.pte", "https://example.org:444/app/m.pte", "https://example.org.evil.example/app/m.pte", "/application/m.pte"];
  for (const text of others) assert.equal(own(text), false, text);
});

test("an address shows whose it is, whatever else is in it", () => {
  const parts = (url) => shownAddress({ kind: "url", name: "", url: new URL(url).href });
  const long = parts(`https://evil.example/${"a".repeat(5000)}/https://good.example/m.pte?${"b".repeat(5000)}`);
  assert.equal(long.origin, "https://evil.example");
  assert.ok(long.path.length <= 96 && long.path.includes("…"));
  assert.equal(parts("https://аррӏе.com/m.pte").origin, "https://xn--80ak6aa92e.com", "letters that look like others are spelt out");
  assert.match(parts("https://evil.example/\u202efdp.pte").path, /^[!-~]*$/);
});

test("names from files and addresses are one line of text", () => {
  const name = (text) => sourceFromText(text, "https://example.org/").name;
  assert.equal(name("https://x.org/%E2%80%AEfoo%0A%00bar.pte"), "foobar");
  assert.ok(name(`https://x.org/${"n".repeat(1e5)}.pte`).length <= 80);
  assert.ok(sourceFromFiles([file(`${"n".repeat(1e5)}.pte`)], null).name.length <= 80);
  assert.ok(sourceFromFiles([file("n".repeat(1e5))], null).length < 200);
  assert.ok(sourceFromText("http://[".padEnd(1e5, "x"), "https://example.org/").length < 200);
});

test("settings come back, and what is out of bounds does not", () => {
  let kept = null;
  const store = { getItem: () => kept, setItem: (_key, value) => (kept = value) };
  const settings = readSettings(store);
  assert.deepEqual(settings.sampling.demo, DEFAULTS.demo);
  settings.theme = "dark";
  settings.sampling.chat.temperature = 1.25;
  settings.sampling.chat.seed = 7;
  keepSettings(store, settings);
  assert.deepEqual(readSettings(store), settings);
  kept = '{"theme":"pink","system":3,"sampling":{"chat":{"temperature":99,"topK":"x","maxTokens":2.6}}}';
  const mended = readSettings(store);
  assert.deepEqual([mended.theme, mended.system], ["system", ""]);
  assert.deepEqual(mended.sampling.chat, { ...DEFAULTS.chat, temperature: 2, maxTokens: 3 });
  kept = "{";
  assert.equal(readSettings(store).theme, "system");
});

test("the bundled model samples as the command does, others by their kind", () => {
  const { seed, maxTokens, ...demo } = optionsOf(DEFAULTS.demo);
  assert.deepEqual(demo, { temperature: 0.8, minP: 0.1, repetitionPenalty: 1.15 });
  assert.ok(Number.isInteger(seed) && maxTokens > 0);
  assert.equal(optionsOf({ ...DEFAULTS.demo, seed: 5 }).seed, 5);
  assert.equal(optionsOf(DEFAULTS.chat).topP, 0.9);
  assert.equal(optionsOf(DEFAULTS.text).temperature, 0);
  assert.equal(cleanNumber("seed", Number.NaN), null);
});

test("the second loss within a minute is one too many", () => {
  const guard = new LossGuard();
  assert.equal(guard.mayRecover(0), true);
  assert.equal(guard.mayRecover(59_000), false);
  assert.equal(guard.mayRecover(120_000), true);
  guard.forgive();
  assert.equal(guard.mayRecover(121_000), true);
});

test("some failures end the engine, some only a model that runs, and some nothing", () => {
  const what = (call, code) => lossOf(call, { code, message: "words" })?.what;
  for (const call of ["support", "inspect", "load", "generate", "profile"]) assert.equal(what(call, "internal"), "The engine stopped.");
  assert.equal(what("load", "device-lost"), "The GPU was lost.");
  assert.equal(what("generate", "out-of-memory"), "The GPU ran out of memory.");
  for (const [call, code] of [["load", "out-of-memory"], ["load", "bad-file"], ["generate", "input"], ["cached", "internal"], ["forget", "browser"]]) {
    assert.equal(what(call, code), undefined, `${call} ${code}`);
  }
});

test("the page's own sentence comes before the browser's words", () => {
  assert.equal(lossText({ what: "The GPU was lost.", words: "driver reset" }, "It is back."), "The GPU was lost. It is back. (driver reset)");
  assert.equal(lossText({ what: "The GPU was lost.", words: "" }), "The GPU was lost.");
});

test("a profile is the mean of its steps, by kernel, the longest first", () => {
  const step = (gemv) => ({
    timing: "pass-each",
    dispatches: [
      { operator: "norm", kernel: "rms_norm", microseconds: 5, bytes: 0 },
      { operator: "linear", kernel: "gemv", microseconds: gemv, bytes: 0 },
      { operator: "head", kernel: "gemv", microseconds: 10, bytes: 0 },
    ],
  });
  assert.deepEqual(group([step(10), step(30)]), {
    steps: 2,
    timing: "pass-each",
    totalMicroseconds: 35,
    kernels: [
      { kernel: "gemv", operators: ["linear", "head"], microseconds: 30, count: 2 },
      { kernel: "rms_norm", operators: ["norm"], microseconds: 5, count: 1 },
    ],
  });
});

test("progress says where bytes come from and how long it takes", () => {
  const progress = { phase: "download", loadedBytes: 3e6, totalBytes: 10e6, bytesPerSecond: 2e6, secondsLeft: 3.5, fromCacheBytes: 1e6, notCached: null };
  const line = (change) => progressLine({ ...progress, ...change }).replaceAll("\u00a0", " ");
  assert.equal(line({}), "3 MB of 10 MB · 2 MB/s · 1 MB was already here · 4 s left");
  assert.equal(line({ phase: "cache", fromCacheBytes: 3e6, secondsLeft: null }), "3 MB of 10 MB · from this device");
  assert.match(line({ notCached: "storage is full" }), /not cached for the next visit: storage is full$/);
  assert.match(line({ phase: "prepare" }), /kernels/);
});

test("sentences begin large and end with a stop, names stay as they are", () => {
  assert.equal(sentence("needs 18 MB: fits"), "Needs 18 MB: fits.");
  assert.equal(sentence("bad.pte: not a program."), "bad.pte: not a program.");
  assert.equal(sentence("https://x.org/a: 404"), "https://x.org/a: 404.");
  assert.equal(sentence("It stopped. (The driver was reset.)"), "It stopped. (The driver was reset.)");
  const long = sentence(`https://x.org/${"a".repeat(1e6)}: the server answered 404`);
  assert.ok(long.length < 800 && long.startsWith("https://x.org/") && long.endsWith("the server answered 404."));
});

test("where storage is forbidden, something else keeps things while the page is open", (t) => {
  Object.defineProperty(globalThis, "localStorage", {
    configurable: true,
    get() {
      throw new DOMException("denied", "SecurityError");
    },
  });
  t.after(() => delete globalThis.localStorage);
  const store = openStore("localStorage");
  store.setItem("a", "1");
  assert.equal(store.getItem("a"), "1");
  store.removeItem("a");
  assert.equal(store.getItem("a"), null);
});

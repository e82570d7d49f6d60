// The npm package in a project that has nothing else: loads the module and asks for a GPU, which Node does not have.
//
//   node check.mjs
//   node check.mjs goldens.json    with the package webgpu, which is Dawn: continues a prompt and compares with PyTorch's text

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import * as pteron from "pteron";

const goldens = process.argv[2];
// The module asks for a GPU as a page does.
globalThis.Window ??= class {};
const navigator = {};
if (goldens) {
  const { create, globals } = await import("webgpu");
  Object.assign(globalThis, globals);
  navigator.gpu = create([]);
}
Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });

const wasm = await readFile(fileURLToPath(import.meta.resolve("pteron/pteron.wasm")));
await pteron.init({ wasm });
assert.ok(pteron.wasmBytes() > 0, "the WebAssembly module has no memory");
const here = await pteron.support();
assert.equal(here.supported, Boolean(goldens), here.reason);

if (goldens) {
  const [{ prompt, text: expected }] = JSON.parse(await readFile(goldens, "utf8")).prompts;
  const model = await pteron.Model.load(await readFile("model.pte"), { tokenizer: await readFile("tokenizer.json") });
  let text = "";
  for await (const token of model.session().generate(prompt, { maxTokens: 20, temperature: 0 })) text += token.text;
  assert.ok(text.length > 20 && expected.startsWith(text), JSON.stringify({ text, expected }));
  console.log(`with Dawn on ${here.adapter.name}, 20 tokens have PyTorch's text`);
} else {
  for (const name of ["Model", "Session", "cache", "formatBytes"]) assert.ok(name in pteron, `there is no ${name}`);
  console.log(`Node ${process.versions.node} loads ${Object.keys(pteron).length} exports and the module; without a GPU it says so`);
}
// Dawn keeps threads.
process.exit(0);

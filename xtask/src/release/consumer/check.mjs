// The npm package in a project that has nothing else: loads the module, and asks for a GPU that Node does not have.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import * as pteron from "pteron";

const wasm = await readFile(fileURLToPath(import.meta.resolve("pteron/pteron.wasm")));
await pteron.init({ wasm });
assert.ok(pteron.wasmBytes() > 0, "the WebAssembly module has no memory");
const here = await pteron.support();
assert.equal(here.supported, false);
assert.ok(here.reason.length > 0);
for (const name of ["Model", "Session", "cache", "formatBytes"]) assert.ok(name in pteron, `there is no ${name}`);
console.log(`Node ${process.versions.node} loads ${Object.keys(pteron).length} exports and the module; without WebGPU it says: ${here.reason}`);

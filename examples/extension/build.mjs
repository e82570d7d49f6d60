// Puts the extension together: its files, the npm package, and the bundled model.
//
//     cargo xtask web
//     node examples/extension/build.mjs FOLDER
//
// Then load FOLDER as an unpacked extension, at chrome://extensions in developer mode.

import { cpSync, mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, "..", "..");

/** Writes the extension into a folder. */
export function assemble(folder) {
  const copy = (from, to) => cpSync(from, path.join(folder, to), { recursive: true });
  mkdirSync(folder, { recursive: true });
  for (const name of ["manifest.json", "popup.html", "popup.js"]) copy(path.join(here, name), name);
  for (const name of ["index.js", "pteron.wasm"]) copy(path.join(root, "web/pteron/dist", name), `pteron/${name}`);
  for (const name of ["model.pte", "tokenizer.json"]) copy(path.join(root, "models/demo", name), `model/${name}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2];
  if (folder === undefined) throw new Error("name the folder to write: node examples/extension/build.mjs FOLDER");
  assemble(folder);
  console.log(`wrote ${folder}; load it at chrome://extensions`);
}

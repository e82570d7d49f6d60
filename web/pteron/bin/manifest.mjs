#!/usr/bin/env node
// Writes the manifest of a model: the length of each of its files and the SHA-256 of each of their blocks.
//
//   pteron-manifest model.pte [more files]      writes model.pte.manifest.json and prints the value of the option `integrity`

import { createHash } from "node:crypto";
import { existsSync, openSync, readSync, closeSync, realpathSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** As `BLOCK` in the package. */
const BLOCK = 256 << 10;

/** Files that are looked for beside a model. */
const BESIDE = ["tokenizer.json", "tokenizer.model", "tokenizer_config.json", "chat_template.jinja", "pteron.json"];

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("base64");

/** Length and digests of a file. */
export function digestsOf(file) {
  const blocks = [];
  const block = Buffer.alloc(BLOCK);
  const descriptor = openSync(file, "r");
  let length = 0;
  try {
    for (;;) {
      let filled = 0;
      for (let read; filled < BLOCK && (read = readSync(descriptor, block, filled, BLOCK - filled, null)) > 0; ) filled += read;
      if (filled > 0) blocks.push(sha256(block.subarray(0, filled)));
      length += filled;
      if (filled < BLOCK) return { length, blocks };
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The manifest of files, as text. */
export function manifestOf(files) {
  const names = files.map((file) => path.basename(file));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`two files are called ${twice}: a manifest tells files apart by their names`);
  const entries = files.map((file) => [path.basename(file), digestsOf(file)]);
  return `${JSON.stringify({ version: 1, files: Object.fromEntries(entries) })}\n`;
}

/** The value of the option `integrity` for a manifest: its hash. */
export const integrityOf = (manifest) => `sha256-${sha256(manifest)}`;

function main([model, ...more]) {
  if (model === undefined || model.startsWith("-")) {
    console.error("usage: pteron-manifest MODEL.pte [FILE...]\nWrites MODEL.pte.manifest.json about the model, the files given, and those that belong beside it.");
    return 2;
  }
  const folder = path.dirname(model);
  const beside = BESIDE.map((name) => path.join(folder, name)).filter((file) => existsSync(file) && !more.some((given) => path.basename(given) === path.basename(file)));
  const manifest = manifestOf([model, ...more, ...beside]);
  writeFileSync(`${model}.manifest.json`, manifest);
  console.log(integrityOf(manifest));
  return 0;
}

/** Whether this file is the program that runs. npm installs it as a link. */
function isProgram([, started]) {
  return started !== undefined && existsSync(started) && realpathSync(started) === fileURLToPath(import.meta.url);
}

if (isProgram(process.argv)) process.exitCode = main(process.argv.slice(2));

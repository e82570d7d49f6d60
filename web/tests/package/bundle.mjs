// The package's sources as one module for node, with the engine of the tests in the place of the WebAssembly module.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const sources = path.join(here, "..", "..", "pteron", "src");

const INSIDE = [
  'export * from "./index.ts";',
  'export { sentenceOf } from "./check.ts";',
  'export { openSource, readFile } from "./open.ts";',
  'export { Meter } from "./progress.ts";',
  'export { BLOCK, readChecked } from "./integrity.ts";',
  'export { LocalSource } from "./source.ts";',
  'export { UrlSource } from "./source-url.ts";',
  'export { FileStore, PART } from "./store.ts";',
  'export { fromRaw, toRaw } from "./tensor.ts";',
];

/** Builds and imports it. */
export async function importPackage() {
  const folder = await mkdtemp(path.join(tmpdir(), "pteron-package-"));
  const engine = pathToFileURL(path.join(here, "fake-engine.mjs")).href;
  const outfile = path.join(folder, "package.mjs");
  await build({
    stdin: { contents: INSIDE.join("\n"), resolveDir: sources, loader: "ts" },
    outfile,
    bundle: true,
    format: "esm",
    target: "es2022",
    logLevel: "warning",
    plugins: [
      {
        name: "fake-engine",
        setup: ({ onResolve }) => onResolve({ filter: /^pteron-web$/ }, () => ({ path: engine, external: true })),
      },
    ],
  });
  const module = await import(pathToFileURL(outfile).href);
  await rm(folder, { recursive: true });
  return module;
}

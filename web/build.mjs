// Builds the npm package (web/pteron/dist), the chat page (web/dist) and the pitch page (web/dist/pitch) from TypeScript and the
// WebAssembly module.
//
// `node build.mjs`           all
// `node build.mjs package`   the package alone
// `node build.mjs page`      the pages alone

import { execFileSync } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { integrityOf, manifestOf } from "./pteron/bin/manifest.mjs";

const web = path.dirname(fileURLToPath(import.meta.url));
const at = (...parts) => path.join(web, ...parts);

const GLUE = at("pkg", "pteron_web.js");
const WASM = at("pkg", "pteron_web_bg.wasm");
const MODEL = at("..", "models", "demo");
const PITCH_MODEL = at("..", "models", "crepe_tiny");

const exists = (file) => stat(file).then(() => true, () => false);

/**
 * Puts the module that wasm-bindgen wrote in the place of "pteron-web". Its own guess at where the WebAssembly is goes:
 * bundlers would look for a file that no package has.
 */
const glue = {
  name: "glue",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^pteron-web$/ }, () => ({ path: GLUE }));
    onResolve({ filter: /^pteron$/ }, () => ({ path: at("pteron", "src", "index.ts") }));
    onLoad({ filter: /[\\/]pteron_web\.js$/ }, async ({ path: file }) => {
      const text = await readFile(file, "utf8");
      return { contents: text.replace(/new URL\(['"][^'"]+_bg\.wasm['"], import\.meta\.url\)/, "undefined") };
    });
  },
};

const SHARED = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  plugins: [glue],
  logLevel: "warning",
};

async function buildPackage() {
  const dist = at("pteron", "dist");
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist, { recursive: true });
  await build({ ...SHARED, entryPoints: [at("pteron", "src", "index.ts")], outfile: path.join(dist, "index.js") });
  await cp(WASM, path.join(dist, "pteron.wasm"));
  const tsc = at("node_modules", "typescript", "bin", "tsc");
  execFileSync(process.execPath, [tsc, "-p", at("pteron", "tsconfig.json")], { stdio: "inherit" });
  for (const license of ["LICENSE-MIT", "LICENSE-APACHE"]) await cp(at("..", license), path.join(dist, license));
  console.log("built web/pteron/dist");
}

async function buildPage() {
  const page = at("page");
  if (!(await exists(page))) return console.log("skipped the page: there is no web/page");
  const dist = at("dist");
  await rm(dist, { recursive: true, force: true });
  const files = ["model.pte", "tokenizer.json"];
  const manifest = manifestOf(files.map((name) => path.join(MODEL, name)));
  // The page knows what its own model must be.
  const define = { MODEL_INTEGRITY: JSON.stringify(integrityOf(manifest)) };
  const entryPoints = { main: "src/main.ts", worker: "src/worker.ts", style: "style.css" };
  for (const name of Object.keys(entryPoints)) entryPoints[name] = path.join(page, entryPoints[name]);
  await build({ ...SHARED, entryPoints, define, outdir: dist, sourcemap: true });
  for (const name of await readdir(page)) {
    if (/\.(html|svg)$/.test(name)) await cp(path.join(page, name), path.join(dist, name));
  }
  await cp(WASM, path.join(dist, "pteron.wasm"));
  for (const name of files) await cp(path.join(MODEL, name), path.join(dist, "model", name));
  await writeFile(path.join(dist, "model", "model.pte.manifest.json"), manifest);
  await buildPitch(dist);
  console.log("built web/dist");
}

/** The pitch page. Its scripts are beside those of the chat page, and so find the same WebAssembly module. */
async function buildPitch(dist) {
  const sources = at("pitch");
  const manifest = manifestOf([path.join(PITCH_MODEL, "program.pte")]);
  const define = { PITCH_INTEGRITY: JSON.stringify(integrityOf(manifest)) };
  const entryPoints = { pitch: path.join(sources, "src", "main.ts"), capture: path.join(sources, "src", "capture.ts") };
  await build({ ...SHARED, entryPoints, define, outdir: dist, sourcemap: true });
  await build({ ...SHARED, entryPoints: { pitch: path.join(sources, "style.css") }, outdir: dist });
  const folder = path.join(dist, "pitch");
  await mkdir(folder, { recursive: true });
  await cp(path.join(sources, "index.html"), path.join(folder, "index.html"));
  for (const name of ["program.pte", "melody.wav"]) await cp(path.join(PITCH_MODEL, name), path.join(folder, name));
  await writeFile(path.join(folder, "program.pte.manifest.json"), manifest);
}

const targets = { package: buildPackage, page: buildPage };
const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !(name in targets));

if (unknown !== undefined) {
  console.error(`there is nothing called ${unknown} to build; there are ${Object.keys(targets).join(" and ")}`);
  process.exitCode = 2;
} else if (!(await exists(GLUE)) || !(await exists(WASM))) {
  console.error("web/pkg has no pteron_web.js and pteron_web_bg.wasm: build the WebAssembly module first, with `cargo xtask web`");
  process.exitCode = 1;
} else {
  for (const name of wanted.length ? wanted : Object.keys(targets)) await targets[name]();
}

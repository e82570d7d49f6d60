// Loads a module of the page as the browser gets it: through esbuild.

import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const SOURCES = fileURLToPath(new URL("../../page/src/", import.meta.url));
const PACKAGE = fileURLToPath(new URL("../../pteron/src/index.ts", import.meta.url));

/** A module of the page; `pteron` stands in for the package. */
export async function load(name, pteron = PACKAGE) {
  const { outputFiles } = await build({ entryPoints: [`${SOURCES}${name}.ts`], bundle: true, format: "esm", target: "es2022", alias: { pteron }, external: ["pteron-web"], write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

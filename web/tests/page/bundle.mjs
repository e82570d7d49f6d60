// Loads a module of the page as the browser gets it: through esbuild.

import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const SOURCES = fileURLToPath(new URL("../../page/src/", import.meta.url));

export async function load(name) {
  const { outputFiles } = await build({ entryPoints: [`${SOURCES}${name}.ts`], bundle: true, format: "esm", target: "es2022", external: ["pteron"], write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

// A page with nothing on it but the npm package, for tests of the package itself.

import { demoFolder, fixturesFolder, packageFolder } from './setting.mjs';
import { openTab } from './browser.mjs';
import { startServer } from './server.mjs';
import { join } from 'node:path';

// The memory of a WebAssembly module is nobody's business but a test's: it is taken where the module is made.
const PAGE = `<!doctype html>
<html lang="en"><title>pteron</title>
<script type="module">
  for (const name of ['instantiate', 'instantiateStreaming']) {
    const make = WebAssembly[name].bind(WebAssembly);
    WebAssembly[name] = async (...args) => {
      const made = await make(...args);
      window.wasmMemory = (made.instance ?? made).exports.memory;
      return made;
    };
  }
  window.pteron = await import('/pteron/index.js');
  window.bytesOf = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
</script></html>`;

/** A server with the package, the bundled model, the fixtures and more, and a tab that has imported the package. */
export async function openBare(more = {}) {
  const server = await startServer({
    '/': { text: PAGE, type: 'text/html' },
    '/pteron/': join(packageFolder, 'dist'),
    '/demo/': demoFolder,
    '/fixtures/': fixturesFolder,
    ...more,
  });
  const page = await openTab(`${server.url}/`);
  await page.waitForFunction(() => window.bytesOf !== undefined);
  return { server, page, close: async () => {
    await page.close();
    await server.close();
  } };
}

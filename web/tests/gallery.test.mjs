// The gallery's pages: the chat in ten lines, and the browser extension.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { chromium } from 'playwright-core';

import { assemble } from '../../examples/extension/build.mjs';
import { FLAGS, assertQuiet, openTab, picture } from './browser.mjs';
import { startServer } from './server.mjs';
import { browserPath, demoFolder, root } from './setting.mjs';

/** A software adapter takes a while, more so on a busy machine. */
const PATIENCE = 540_000;

describe('the gallery', () => {
  test('the chat in ten lines replies, and goes on', async () => {
    const server = await startServer({ '/': root });
    const page = await openTab(`${server.url}/examples/chat/chat.html`, { viewport: { width: 640, height: 320 } });
    try {
      const output = page.locator('output');
      /** The reply that is not the last one, once it no longer grows. */
      const reply = async (before) => {
        const other = (before) => !['', before].includes(document.querySelector('output').textContent);
        await page.waitForFunction(other, before, { timeout: PATIENCE });
        for (let last = '', quiet = 0; ; quiet += 1) {
          await page.waitForTimeout(1000);
          const now = await output.textContent();
          if (quiet >= 5) return now;
          if (now !== last) quiet = 0;
          last = now;
        }
      };
      await page.locator('button').click();
      const first = await reply('');
      assert.ok(first.length > 20, first);
      await picture(page, 'gallery-chat');
      await page.locator('input').fill('A lifetime is');
      await page.locator('button').click();
      assert.ok((await reply(first)).length > 20);
      assertQuiet(page);
    } finally {
      await page.close();
      await server.close();
    }
  });

  test('the extension continues a text as PyTorch does', async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'pteron-extension-')));
    const extension = join(folder, 'extension');
    assemble(extension);
    const args = [...FLAGS, `--disable-extensions-except=${extension}`, `--load-extension=${extension}`];
    const context = await chromium.launchPersistentContext(join(folder, 'profile'), { executablePath: browserPath, args });
    try {
      const page = await context.newPage();
      await page.setViewportSize({ width: 420, height: 340 });
      await page.goto(`chrome-extension://${idOf(extension)}/popup.html`);
      const becomes = (...states) => page.waitForFunction(
        (states) => states.includes(document.documentElement.dataset.state), states, { timeout: PATIENCE });
      const status = () => page.locator('#status').innerText();
      await becomes('ready', 'failed');
      assert.match(await status(), /^Ready, on /);
      const [{ prompt, text }] = JSON.parse(readFileSync(join(demoFolder, 'goldens.json'), 'utf8')).prompts;
      await page.locator('#text').fill(prompt);
      await page.locator('#button').click();
      await becomes('writing');
      await becomes('ready', 'failed');
      assert.equal(await status(), 'Done.');
      const written = await page.locator('#text').inputValue();
      assert.equal(written.slice(0, prompt.length + 60), prompt + text.slice(0, 60));
      assert.ok(written.length > prompt.length + 100, written);
      await picture(page, 'gallery-extension');
    } finally {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** The id that Chromium derives from the path of an unpacked extension: a letter for half a byte of its hash. */
function idOf(folder) {
  const bytes = createHash('sha256').update(folder).digest().subarray(0, 16);
  return [...bytes].map((byte) => String.fromCharCode(97 + (byte >> 4), 97 + (byte & 15))).join('');
}

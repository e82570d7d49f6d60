// One headless Chromium for all tests of a process. Tests are kept apart by their origins: each starts a server of its own,
// and with it has storage of its own.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { artifacts, browserPath } from './setting.mjs';

/** The first gives an adapter in software; the others keep the browser from doing anything but what it is told. */
export const FLAGS = [
  '--enable-unsafe-webgpu',
  '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
];

let shared;

/** The browser, with a profile that nobody has used before. */
export const sharedBrowser = async () => (await (shared ??= launch())).context;

async function launch() {
  const folder = mkdtempSync(join(tmpdir(), 'pteron-browser-'));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: browserPath,
    args: FLAGS,
    viewport: { width: 1100, height: 800 },
    // Pictures and positions are those of a page at rest.
    reducedMotion: 'reduce',
  });
  return { context, folder };
}

/** Closes the browser and forgets what it kept. */
export async function closeBrowser() {
  if (!shared) return;
  const { context, folder } = await shared;
  await context.close();
  rmSync(folder, { recursive: true, force: true });
}

/** A tab that remembers what went wrong in it. */
export async function openTab(url, { viewport, before } = {}) {
  const page = await (await sharedBrowser()).newPage();
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(error.message));
  page.on('console', (message) => {
    // A browser reports each failed request by itself; whether one may fail is for its test to say.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.problems.push(message.text());
  });
  if (viewport) await page.setViewportSize(viewport);
  await before?.(page);
  await page.goto(url);
  return page;
}

/** Fails with what the page complained about. */
export const assertQuiet = (page) => assert.deepEqual(page.problems, []);

/** Keeps a picture for people. */
export const picture = (page, name) => page.screenshot({ path: join(artifacts, `${name}.png`) });

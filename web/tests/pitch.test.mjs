// The pitch page: a model that is no language model, on a file and on a microphone that plays the same melody.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { chromium } from 'playwright-core';

import { FLAGS, assertQuiet, openTab, picture } from './browser.mjs';
import { startServer } from './server.mjs';
import { browserPath, pageFolder, root } from './setting.mjs';

/** A software adapter takes a while for a second of sound, more so on a busy machine. */
const PATIENCE = 540_000;
const MELODY = join(root, 'models/crepe_tiny/melody.wav');
const NOTES = ['A3', 'C♯4', 'E4', 'A4'];

const becomes = (page, ...states) =>
  page.waitForFunction((states) => states.includes(document.documentElement.dataset.state), states, { timeout: PATIENCE });
const state = (page) => page.evaluate(() => document.documentElement.dataset.state);
const problem = (page) => page.locator('[data-testid="problem"]').innerText();
const notes = (page) => page.locator('[data-testid="notes"] li').evaluateAll((items) => items.map((item) => item.dataset.note));

/** Without what lies between two notes: vibrato and transitions cross borders for a moment. */
const melody = (found) => found.filter((name, i) => NOTES.includes(name) && found[i - 1] !== name);

/** Parts of the melody, from one second to another, as a file. */
function cut(...parts) {
  const file = readFileSync(MELODY);
  const at = (seconds) => 44 + Math.round(seconds * 16_000) * 2;
  const sound = Buffer.concat(parts.map(([from, to]) => file.subarray(at(from), at(to))));
  const head = Buffer.from(file.subarray(0, 44));
  head.writeUInt32LE(36 + sound.length, 4);
  head.writeUInt32LE(sound.length, 40);
  return Buffer.concat([head, sound]);
}

/** All of the first note, and a part of each of the others: a third of the frames. */
const SHORT = cut([0, 0.35], [0.5, 0.65], [0.9, 1.05], [1.3, 1.45]);

describe('the pitch page', () => {
  let server;
  let page;
  before(async () => {
    server = await startServer({ '/': pageFolder });
    const before = (page) => page.route('**/melody.wav', (route) => route.fulfill({ body: SHORT, contentType: 'audio/wav' }));
    page = await openTab(`${server.url}/pitch/`, { before });
  });
  after(async () => {
    await page?.close();
    await server?.close();
  });

  test('loads its model', async () => {
    await becomes(page, 'ready', 'failed', 'unsupported');
    assert.equal(await state(page), 'ready', await problem(page));
    assert.match(await page.locator('[data-testid="status"]').innerText(), /^Ready on /);
  });

  test('finds the notes of the sample', async () => {
    await page.locator('[data-testid="sample"]').click();
    await becomes(page, 'working', 'ready');
    await becomes(page, 'ready', 'failed');
    assert.equal(await problem(page), '');
    assert.deepEqual(melody(await notes(page)), NOTES);
    const hertz = (await page.locator('[data-testid="notes"] li').first().innerText()).match(/([\d.]+) Hz/)[1];
    assert.ok(Math.abs(Number(hertz) - 220) < 2, `${hertz} Hz`);
    await picture(page, 'pitch');
  });

  test('takes a file, and says what is wrong with another', async () => {
    await page.locator('[data-testid="file"]').setInputFiles({ name: 'no.wav', mimeType: 'audio/wav', buffer: Buffer.from('not a sound') });
    await page.waitForFunction(() => document.querySelector('[data-testid="problem"]').textContent !== '', undefined, { timeout: PATIENCE });
    assert.match(await problem(page), /decode/i);
    await becomes(page, 'ready');
    await page.locator('[data-testid="file"]').setInputFiles({ name: 'start.wav', mimeType: 'audio/wav', buffer: cut([0, 0.2]) });
    await page.waitForFunction(() => document.querySelector('[data-testid="problem"]').textContent === '', undefined, { timeout: PATIENCE });
    await becomes(page, 'ready');
    assert.equal((await notes(page))[0], NOTES[0]);
  });

  test('complains about nothing else', () => assertQuiet(page));
});

describe('the pitch page, listening', () => {
  test('hears the melody', async () => {
    const server = await startServer({ '/': pageFolder });
    const folder = mkdtempSync(join(tmpdir(), 'pteron-browser-'));
    const fake = ['--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream', `--use-file-for-fake-audio-capture=${MELODY}`];
    const context = await chromium.launchPersistentContext(folder, { executablePath: browserPath, args: [...FLAGS, ...fake], permissions: ['microphone'] });
    try {
      const page = await context.newPage();
      await page.goto(`${server.url}/pitch/`);
      await becomes(page, 'ready', 'failed', 'unsupported');
      assert.equal(await state(page), 'ready', await problem(page));
      await page.locator('[data-testid="microphone"]').click();
      await becomes(page, 'listening', 'failed');
      // A slow adapter hears parts of it, again and again.
      const heard = (names) => [...document.querySelectorAll('[data-testid="notes"] li')].some((item) => names.includes(item.dataset.note));
      await page.waitForFunction(heard, NOTES, { timeout: PATIENCE });
      await page.locator('[data-testid="microphone"]').click();
      await becomes(page, 'ready');
      assert.equal(await problem(page), '');
    } finally {
      await context.close();
      await server.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

// A browser without WebGPU gets an explanation, and nothing else goes wrong.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { assertQuiet, picture } from './browser.mjs';
import { Chat, MODEL, serveChat } from './chat.mjs';

describe('without WebGPU', () => {
  let server;
  before(async () => (server = await serveChat()));
  after(() => server.close());

  test('the page names browsers that have it and fetches no model', async () => {
    const hide = (page) => page.addInitScript(() => delete Navigator.prototype.gpu);
    const chat = await Chat.open(server, { before: hide, viewport: { width: 360, height: 740 } });
    assert.equal(await chat.page.evaluate(() => 'gpu' in navigator), false);
    await chat.reaches('unsupported');
    const text = await chat.part('panel').innerText();
    for (const name of ['WebGPU', 'Chrome', 'Safari', 'Firefox']) assert.ok(text.includes(name), `${name} is not in: ${text}`);
    assert.equal(server.counts(MODEL).requests, 0);
    assert.ok(await chat.page.evaluate(() => document.documentElement.scrollWidth <= 360));
    await picture(chat.page, 'page-no-webgpu');
    assertQuiet(chat.page);
    await chat.page.close();
  });

  test('a page whose browser offers no adapter says so, too', async () => {
    // Where the page asks: in its worker, before the worker's own code.
    const hide = (page) => page.route('**/worker.js', async (route) => {
      const response = await route.fetch();
      const body = `navigator.gpu.requestAdapter = async () => null;\n${await response.text()}`;
      await route.fulfill({ response, body });
    });
    const chat = await Chat.open(server, { before: hide });
    await chat.reaches('unsupported');
    assert.match(await chat.part('panel').innerText(), /no GPU/i);
    await picture(chat.page, 'page-no-adapter');
    assertQuiet(chat.page);
    await chat.page.close();
  });

  test('a browser that cannot read main.js shows what it needs', async () => {
    const future = (page) => page.route('**/main.js', (route) => route.fulfill({ contentType: 'text/javascript', body: 'later { word }' }));
    const chat = await Chat.open(server, { before: future, viewport: { width: 360, height: 740 } });
    assert.equal(await chat.part('late').isVisible(), false);
    await chat.part('late').waitFor({ timeout: 20_000 });
    const text = await chat.part('late').innerText();
    for (const name of ['WebGPU', 'Chrome', 'Safari', 'Firefox']) assert.ok(text.includes(name), `${name} is not in: ${text}`);
    assert.ok(await chat.page.evaluate(() => document.documentElement.scrollWidth <= 360));
    await picture(chat.page, 'page-too-old');
    assert.equal(chat.page.problems.length, 1, 'only that main.js is not read');
    await chat.page.close();
  });
});

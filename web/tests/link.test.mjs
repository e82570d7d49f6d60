// Links that name a model: whoever follows one has asked for nothing yet.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { assertReachable, pictures } from './access.mjs';
import { assertQuiet } from './browser.mjs';
import { Chat, MODEL, PATIENCE, serveChat } from './chat.mjs';
import { startServer } from './server.mjs';
import { demoFolder } from './setting.mjs';

describe('a link with a model of another site', () => {
  let server;
  let other;
  let chat;
  const link = (address) => `/?model=${encodeURIComponent(address)}`;
  before(async () => {
    server = await serveChat();
    other = await startServer({ '/': demoFolder });
    const path = `/${'folder/'.repeat(60)}%E2%80%AEmodel.pte?https://good.example/`;
    chat = await Chat.open(server, { path: link(other.url + path) });
  });
  after(async () => {
    await chat?.page.close();
    await server?.close();
    await other?.close();
  });

  test('asks first, and says whose it is', async () => {
    await chat.reaches('asking');
    assert.equal(await chat.part('origin').innerText(), other.url);
    const address = await chat.part('address').innerText();
    assert.ok(address.startsWith(`${other.url}/folder/`) && address.length < 200, address);
    await pictures(chat.page, 'page-ask');
    await assertReachable(chat.page);
  });

  test('asks again after a reload, and has sent nothing to either', async () => {
    await chat.page.reload();
    await chat.reaches('asking');
    // A request that is made without asking would be made by now.
    await sleep(1000);
    assert.deepEqual(other.asked(), []);
    assert.equal(server.counts(MODEL).requests, 0);
  });

  test('a no leads to the page\'s own model', async () => {
    await chat.part('use-demo').click();
    await chat.reaches('ready-to-download');
    assert.equal(await chat.page.locator('#model-name').innerText(), 'Demo model');
    assert.deepEqual(other.asked(), []);
  });

  test('a yes asks that site, and stays a yes in this tab', async () => {
    await chat.page.reload();
    await chat.reaches('asking');
    await chat.part('allow').click();
    // That server does not allow other sites to read its files; that it was asked is what matters here.
    await chat.page.waitForFunction(() => document.documentElement.dataset.state === 'failed', undefined, { timeout: PATIENCE });
    assert.ok(other.asked().length > 0);
    const problem = await chat.part('problem').innerText();
    assert.ok(problem.startsWith(other.url) && problem.length < 1000, problem);
    await chat.page.reload();
    await chat.page.waitForFunction(() => document.documentElement.dataset.state === 'failed', undefined, { timeout: PATIENCE });
  });

  test('spelt in other ways, it is still another site', async () => {
    other.forget();
    const { host } = new URL(other.url);
    for (const address of [`//${host}/model.pte`, `\\\\${host}\\model.pte`, ` ${other.url}/model.pte`, `http:${'/'.repeat(5)}${host}/model.pte`]) {
      const asked = await Chat.open(server, { path: link(address) });
      await asked.reaches('asking');
      assert.equal(await asked.part('origin').innerText(), other.url, address);
      await asked.page.close();
    }
    assert.deepEqual(other.asked(), []);
  });

  test('a link without the address of a file is ignored', async () => {
    for (const address of ['javascript:alert(1)', 'data:text/html,<script>alert(1)</script>', `http://user:word@${new URL(other.url).host}/model.pte`]) {
      const asked = await Chat.open(server, { path: link(address) });
      await asked.part('notice').waitFor();
      assert.notEqual(await asked.notice(), '');
      assert.notEqual(await asked.state(), 'asking');
      assertQuiet(asked.page);
      await asked.page.close();
    }
    assert.deepEqual(other.asked(), []);
  });

  test('an address of this site that sends requests on to another is not followed', async () => {
    server.fault('/files/away.pte', { status: 302, location: `${other.url}/model.pte` });
    const asked = await Chat.open(server, { path: link('files/away.pte') });
    await asked.page.waitForFunction(() => document.documentElement.dataset.state === 'failed', undefined, { timeout: PATIENCE });
    assert.ok(server.counts('/files/away.pte').requests > 0);
    assert.deepEqual(other.asked(), []);
    await asked.page.close();
  });

  test('nothing was complained about on the way', () => {
    // The browser says itself that another site does not allow this page in, which is what a yes was answered with.
    chat.page.problems = chat.page.problems.filter((text) => !text.includes('CORS policy'));
    assertQuiet(chat.page);
  });
});

describe('the page\'s own rules', () => {
  test('keep scripts, frames and addresses of others out', async () => {
    const server = await serveChat();
    const chat = await Chat.open(server);
    await chat.page.waitForFunction(() => document.documentElement.dataset.stage !== undefined);
    const outcome = await chat.page.evaluate(async () => {
      const tried = {};
      const script = document.createElement('script');
      tried.inline = (() => { try { script.textContent = 'window.hacked = 1'; document.body.append(script); return window.hacked ?? null; } catch { return null; } })();
      tried.html = (() => { try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hacked = 2">'); return 'put in'; } catch { return null; } })();
      tried.worker = (() => { try { new Worker('data:text/javascript,0'); return 'started'; } catch { return null; } })();
      await new Promise((resolve) => setTimeout(resolve, 200));
      tried.hacked = window.hacked ?? null;
      return tried;
    });
    assert.equal(outcome.hacked, null);
    assert.equal(outcome.inline, null);
    assert.equal(outcome.html, null);
    await chat.page.close();
    await server.close();
  });
});

// The chat page from the first visit on, in one tab: a download that is cancelled and taken up again, texts, a reload, a GPU that
// goes away, files that are dropped.

import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { assertQuiet, picture, sharedBrowser } from './browser.mjs';
import { assertNarrow, assertReachable, pictures } from './access.mjs';
import { Chat, MODEL, PATIENCE, serveChat } from './chat.mjs';
import { demoFolder, nativeGeneration } from './setting.mjs';

const goldens = JSON.parse(readFileSync(join(demoFolder, 'goldens.json'), 'utf8')).prompts;
const size = statSync(join(demoFolder, 'model.pte')).size;

/** Prompts by their number in the goldens, and how many tokens follow. */
const TEXTS = [[0, 32], [2, 32], [3, 32]];

/** The texts that the command generates, one after the other, while the browser is busy with other things. */
async function nativeTexts() {
  const texts = [];
  for (const [which, length] of TEXTS) texts.push((await nativeGeneration(goldens[which].prompt, length)).tokens);
  return texts;
}

describe('the chat page', () => {
  let server;
  let chat;
  let native;
  const becomes = (...states) => chat.page.waitForFunction((states) => states.includes(document.documentElement.dataset.state), states, { timeout: 30_000 });
  before(async () => {
    native = nativeTexts();
    // Whoever needs them hears of a failure.
    native.catch(() => {});
    server = await serveChat();
    chat = await Chat.open(server);
  });
  after(async () => {
    await chat?.page.close();
    await server?.close();
  });

  test('says what the model costs before it is downloaded', async () => {
    await chat.reaches('ready-to-download');
    assert.match(await chat.part('fit').innerText(), /fits, about [\d.]+ tokens\/s/);
    assert.match(await chat.part('size').innerText(), /MB to download/);
    assert.ok(server.counts(MODEL).bytes < size / 10, `${server.counts(MODEL).bytes} bytes were fetched to look at it`);
    await pictures(chat.page, 'page-offer');
    await assertReachable(chat.page);
  });

  test('shows progress, and a download that is cancelled can be taken up again', async () => {
    server.fault(MODEL, { bytesPerSecond: 40_000, slowFrom: 9_000_000 });
    await chat.part('download').click();
    await chat.reaches('loading');
    const far = () => Number(document.querySelector('[data-testid="progress"]')?.value) > 8_900_000;
    await chat.page.waitForFunction(far, undefined, { timeout: PATIENCE });
    const told = () => /^[\d.]+ MB of [\d.]+ MB.*\/s.*\d+ s left$/s.test(document.querySelector('[data-testid="progress-line"]')?.textContent ?? '');
    await chat.page.waitForFunction(told, undefined, { timeout: 30_000 });
    await pictures(chat.page, 'page-loading');
    await chat.part('cancel').click();
    await chat.reaches('ready-to-download');
    assert.match(await chat.part('size').innerText(), /already here/);
    await picture(chat.page, 'page-resume');

    // On top of that, a byte of the rest comes wrong once.
    server.fault(MODEL, { flipAt: size - 500_000, times: 1 });
    const fetched = server.counts(MODEL).bytes;
    await chat.part('download').click();
    await chat.reaches('ready');
    const rest = server.counts(MODEL).bytes - fetched;
    console.log(`resumed: ${rest} of ${size} bytes were fetched after ${fetched}`);
    assert.ok(rest > 0 && rest < 0.5 * size, `${rest} of ${size} bytes were fetched again`);
    await picture(chat.page, 'page-ready');
  });

  for (const [i, [which, length]] of TEXTS.entries()) {
    const { prompt, ids } = goldens[which];
    test(`goes on from ${JSON.stringify(prompt)} as the command and PyTorch do`, async () => {
      await chat.setGreedy(length);
      const tokens = await chat.ask(prompt);
      assert.deepEqual(tokens, (await native)[i]);
      assert.deepEqual(tokens, ids.slice(0, length));
      assert.match(await chat.part('status').innerText(), /tokens\/s.*GPU .*MB/);
    });
  }

  test('an answer can be stopped', async () => {
    await chat.setGreedy(200);
    await chat.begin(goldens[4].prompt);
    await picture(chat.page, 'page-generating');
    await chat.page.locator('#details-button').click();
    assert.match(await chat.page.locator('#model-facts').innerText(), /GPU memory/);
    assert.equal(await chat.part('measure').isDisabled(), true, 'what writes cannot be measured');
    await chat.page.keyboard.press('Escape');
    await chat.part('stop').click();
    await chat.reaches('ready');
    const tokens = await chat.tokens();
    assert.ok(tokens.length < 100);
    assert.deepEqual(tokens, goldens[4].ids.slice(0, tokens.length));
    assert.equal(await chat.part('turn').last().getAttribute('data-answer'), 'stopped');
  });

  test('shows the time of each kernel', async () => {
    await chat.page.locator('#details-button').click();
    await chat.part('measure').click();
    await chat.part('kernels').waitFor({ timeout: PATIENCE });
    assert.match(await chat.part('kernels').locator('tbody tr').first().innerText(), /linear.*ms.*%/s);
    await picture(chat.page, 'page-kernels');
    await chat.page.keyboard.press('Escape');
  });

  test('has names for its controls, and the keyboard reaches them', async () => assertReachable(chat.page));

  test('fits a screen of 360 pixels', async () => {
    await assertNarrow(chat.page, ['prompt', 'send'], 'page-narrow');
    await pictures(chat.page, 'page-texts');
  });

  test('is there again after a reload, without a request for the model', async () => {
    server.forget();
    const turns = await chat.part('turn').count();
    await chat.page.reload();
    await chat.reaches('ready');
    assert.deepEqual(server.asked().filter((path) => path.startsWith('/model/')), []);
    assert.equal(await chat.part('turn').count(), turns);
  });

  test('a new conversation forgets the one that is being written, with its figures', async () => {
    await chat.setGreedy(64);
    await chat.begin(goldens[4].prompt);
    await chat.page.locator('#new-button').click();
    assert.equal(await chat.part('turn').count(), 0);
    await chat.setGreedy(6);
    assert.deepEqual(await chat.ask(goldens[0].prompt), goldens[0].ids.slice(0, 6));
    assert.match(await chat.part('status').innerText(), /6 tokens/);
    assert.equal(await chat.part('turn').count(), 1);
  });

  test('goes on when the GPU process crashes in the middle of an answer', async () => {
    server.forget();
    await chat.setGreedy(24);
    await chat.begin(goldens[3].prompt);
    const turns = await chat.part('turn').count();
    await Promise.all([becomes('recovering', 'failed'), crashGpu()]);
    await picture(chat.page, 'page-recovering');
    await chat.reaches('ready');
    assert.match(await chat.notice(), /^The GPU was lost\. The model was loaded again/);
    assert.deepEqual(server.asked().filter((path) => path.startsWith('/model/')), []);
    assert.equal(await chat.part('turn').count(), turns);
    assert.equal(await chat.part('turn').last().getAttribute('data-answer'), 'interrupted');
    const written = (await chat.tokens()).length;
    assert.ok(written > 0 && written < 24, `${written} tokens`);
    await pictures(chat.page, 'page-recovered');
    await chat.part('continue').click();
    await becomes('generating');
    await chat.reaches('ready');
    const tokens = await chat.tokens();
    assert.equal(tokens.length, written + 24);
    assert.deepEqual(tokens, goldens[3].ids.slice(0, tokens.length));
  });

  test('a second loss within a minute, while another model loads, is for a person to decide', async () => {
    // This time it is the worker that ends, right after it was told to load: browsers hold back a GPU that crashes twice.
    await chat.page.workers()[0].evaluate(() => {
      const end = () => setTimeout(() => { throw new Error('ended on purpose'); });
      self.addEventListener('message', end, { once: true });
    });
    await chat.drop({ name: 'mine.pte', url: '/files/model.pte' }, { name: 'tokenizer.json', url: '/files/tokenizer.json' });
    await chat.reaches('failed');
    assert.match(await chat.part('problem').innerText(), /^The engine stopped\. It is the second time within a minute.*ended on purpose/);
    chat.page.problems = chat.page.problems.filter((text) => !text.includes('ended on purpose'));
    await picture(chat.page, 'page-second-loss');
    await chat.part('retry').click();
    await chat.reaches('ready');
    assert.equal(await chat.page.locator('#model-name').innerText(), 'Demo model', 'it is the model that was there that comes back');
    await chat.setGreedy(6);
    assert.deepEqual(await chat.ask(goldens[0].prompt), goldens[0].ids.slice(0, 6));
  });

  test('a bad file is one sentence, and the model that was there still answers', async () => {
    const bad = [
      [{ name: 'cut.pte', url: '/files/model.pte', length: 3_000_000 }, { name: 'tokenizer.json', url: '/files/tokenizer.json' }],
      [{ name: 'noise.pte', text: 'x'.repeat(5000) }, { name: 'tokenizer.json', url: '/files/tokenizer.json' }],
      [{ name: 'page.pte', text: '<!doctype html><title>404</title>' }, { name: 'tokenizer.json', url: '/files/tokenizer.json' }],
      [{ name: 'model.pte', url: '/files/model.pte' }, { name: 'tokenizer.json', text: '{"no": "tokenizer"}' }],
      [{ name: 'picture.png', text: 'PNG' }],
    ];
    for (const files of bad) {
      await chat.drop(...files);
      await chat.page.waitForFunction((name) => {
        const notice = document.querySelector('[data-testid="notice"]');
        return !notice.hidden && document.documentElement.dataset.state === 'ready' && notice.innerText.includes(name);
      }, files[files.length === 2 && files[1].text ? 1 : 0].name.split('.')[0], { timeout: PATIENCE });
      console.log(`${files[0].name}: ${(await chat.notice()).trim()}`);
      await picture(chat.page, 'page-bad-file');
      await chat.page.locator('#notice-close').click();
    }
    assert.deepEqual(await chat.ask(goldens[2].prompt), goldens[2].ids.slice(0, 6));
  });

  test('a program and its tokenizer are dropped and used', async () => {
    await chat.drop({ name: 'mine.pte', url: '/files/model.pte' }, { name: 'tokenizer.json', url: '/files/tokenizer.json' });
    await chat.page.waitForFunction(() => document.querySelector('#model-name').textContent === 'mine' && document.documentElement.dataset.state === 'ready', undefined, { timeout: PATIENCE });
    await chat.setGreedy(6);
    assert.deepEqual(await chat.ask(goldens[3].prompt), goldens[3].ids.slice(0, 6));
    await picture(chat.page, 'page-dropped');
  });

  test('nothing was complained about on the way', () => assertQuiet(chat.page));
});

/** Ends the browser's GPU process, as a driver that hangs does. */
async function crashGpu() {
  const session = await (await sharedBrowser()).browser().newBrowserCDPSession();
  await session.send('Browser.crashGpuProcess');
  await session.detach();
}

// The chat page, as a person uses it.

import assert from 'node:assert/strict';

import { openTab } from './browser.mjs';
import { startServer } from './server.mjs';
import { demoFolder, pageFolder } from './setting.mjs';

/** Compiling kernels in software takes its time, and machines that test are slow. */
export const PATIENCE = 180_000;

export const MODEL = '/model/model.pte';
export const TOKENIZER = '/model/tokenizer.json';

/** The page on a server of its own. */
export async function serveChat(more = {}) {
  return startServer({ '/': pageFolder, '/files/': demoFolder, ...more });
}

export class Chat {
  constructor(page) {
    this.page = page;
  }

  static async open(server, { path = '/', ...options } = {}) {
    return new Chat(await openTab(server.url + path, options));
  }

  part(id) {
    return this.page.locator(`[data-testid="${id}"]`);
  }

  /** Waits until the page is in one of these states; another end fails with what it says. */
  async reaches(...states) {
    const ends = [...states, 'failed', 'unsupported'];
    await this.page.waitForFunction((ends) => ends.includes(document.documentElement.dataset.state), ends, { timeout: PATIENCE });
    const state = await this.state();
    assert.ok(states.includes(state), `the page is ${state}, not ${states.join(' or ')}: ${await this.part('panel').innerText()}`);
    return state;
  }

  state() {
    return this.page.evaluate(() => document.documentElement.dataset.state);
  }

  /** In the settings: the most probable token each time, and so many of them. */
  async setGreedy(tokens) {
    await this.page.locator('#settings-button').click();
    await this.part('greedy').click();
    await this.part('setting-maxTokens').fill(String(tokens));
    await this.part('setting-maxTokens').press('Enter');
    await this.page.keyboard.press('Escape');
    await this.part('settings-dialog').waitFor({ state: 'hidden' });
  }

  /** Sends a prompt and waits until something of the answer is there. */
  async begin(prompt) {
    const before = await this.part('turn').count();
    await this.part('prompt').fill(prompt);
    await this.part('send').click();
    await this.part('turn').nth(before).waitFor();
    // Model text is drawn as it comes; what the person wrote stands in spans of its own.
    await this.page.waitForFunction((length) => {
      const answers = document.querySelectorAll('[data-testid="answer"]');
      return answers[answers.length - 1].textContent.length > length + 8;
    }, prompt.length, { timeout: PATIENCE });
  }

  /** Sends a prompt and waits for the answer; its tokens. */
  async ask(prompt) {
    const before = await this.part('turn').count();
    await this.part('prompt').fill(prompt);
    await this.part('send').click();
    await this.part('turn').nth(before).waitFor();
    await this.reaches('ready');
    return this.tokens();
  }

  async tokens() {
    const answer = this.part('turn').last().locator('[data-testid="answer"]');
    return (await answer.getAttribute('data-tokens')).split(' ').filter(Boolean).map(Number);
  }

  notice() {
    return this.part('notice').innerText();
  }

  /** Drops files onto the page: `{ name, text }`, or `{ name, url, length }` for the beginning of one the server has. */
  async drop(...files) {
    await this.page.evaluate(async (files) => {
      const transfer = new DataTransfer();
      for (const { name, text, url, length } of files) {
        const content = text ?? (await (await fetch(url)).arrayBuffer()).slice(0, length);
        transfer.items.add(new File([content], name));
      }
      const event = { dataTransfer: transfer, bubbles: true, cancelable: true };
      document.body.dispatchEvent(new DragEvent('dragover', event));
      document.body.dispatchEvent(new DragEvent('drop', event));
    }, files);
  }
}

// How fast the page writes, compared with the command on the same driver: `cargo xtask web --bench`.
//
// Both write the same text with SwiftShader, in turns, so that what else the machine does meets both.

import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';

import { closeBrowser, sharedBrowser } from './browser.mjs';
import { Chat, serveChat } from './chat.mjs';
import { artifacts, nativeGeneration } from './setting.mjs';

const ROUNDS = 3;
const TOKENS = 32;
const PROMPT = 'Ownership is';
const DEMAND = 0.9;

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function native() {
  const { speed, tokens, adapter } = await nativeGeneration(PROMPT, TOKENS);
  // As the page and the command's own line count: the first token comes with the prompt.
  return { adapter, tokens, rate: (speed.generated_tokens - 1) / speed.generation_seconds };
}

async function page(chat) {
  await chat.page.locator('#new-button').click();
  const tokens = await chat.ask(PROMPT);
  const [, rate] = /([\d.]+) tokens\/s/.exec(await chat.part('status').innerText()) ?? [];
  return { tokens, rate: Number(rate) };
}

async function measure(chat) {
  const runs = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const ours = await page(chat);
    const theirs = await native();
    if (ours.tokens.join() !== theirs.tokens.join()) throw new Error(`the page wrote ${ours.tokens}, the command ${theirs.tokens}`);
    console.log(`round ${round + 1}: page ${ours.rate.toFixed(2)}, command ${theirs.rate.toFixed(2)} tokens/s`);
    runs.push({ page: ours.rate, native: theirs.rate, adapter: theirs.adapter });
  }
  return runs;
}

const server = await serveChat();
try {
  const chat = await Chat.open(server);
  await chat.reaches('ready-to-download');
  await chat.part('download').click();
  await chat.reaches('ready');
  await chat.setGreedy(TOKENS);
  // The first text of a tab waits for shaders that the driver had put off.
  await chat.ask(PROMPT);
  const runs = await measure(chat);
  const [ours, theirs] = [median(runs.map((run) => run.page)), median(runs.map((run) => run.native))];
  const ratio = ours / theirs;
  const report = {
    date: new Date().toISOString().slice(0, 10),
    processor: `${cpus().length} × ${cpus()[0].model}`,
    browser: (await sharedBrowser()).browser()?.version() ?? (await chat.page.evaluate(() => navigator.userAgent)),
    adapter: runs[0].adapter,
    prompt: PROMPT,
    tokens: TOKENS,
    runs,
    medians: { page: ours, native: theirs },
    ratio,
  };
  const file = join(artifacts, 'speed.json');
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
  console.log(`page ${ours.toFixed(2)}, command ${theirs.toFixed(2)} tokens/s: ratio ${ratio.toFixed(2)}, ${DEMAND} is asked for (${file})`);
  process.exitCode = ratio >= DEMAND ? 0 : 1;
} finally {
  await closeBrowser();
  await server.close();
}

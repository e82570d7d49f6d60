// Downloads that break off or come changed: named, fetched again, and never run.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { openBare } from './bare.mjs';
import { picture } from './browser.mjs';
import { Chat, MODEL, PATIENCE, serveChat } from './chat.mjs';
import { fixturesFolder } from './setting.mjs';
import { assertClose } from './tensors.mjs';

const FOLDER = 'llama/tiny_4w';
const PROGRAM = `/fixtures/${FOLDER}/program.pte`;
/** A program that is loaded in no time. */
const SMALL = '/fixtures/ops/linear_dynamic/program.pte';
const file = readFileSync(join(fixturesFolder, FOLDER, 'program.pte'));
const { sequences, atol, rtol } = JSON.parse(readFileSync(join(fixturesFolder, FOLDER, 'manifest.json'), 'utf8'));
const [call] = sequences[0].calls;
/** Within a constant: they fill the file from its first segment to its end. */
const AMONG_WEIGHTS = file.length - 5000;

describe('a damaged download', () => {
  let bare;
  before(async () => (bare = await openBare()));
  after(() => bare?.close());

  /** Loads a program and runs one call; its phases, its logits, or why not. */
  async function load(program) {
    bare.server.forget();
    const inputs = call.inputs.map((input) => ({ ...input, path: `/fixtures/${FOLDER}/${input.path}` }));
    return bare.page.evaluate(async ({ program, inputs }) => {
      const phases = new Set();
      try {
        const options = { cache: false, tokenizer: false, onProgress: ({ phase }) => phases.add(phase) };
        const model = await window.pteron.Model.load(program, options);
        const tensors = await Promise.all(inputs.map(async ({ path, dtype, shape }) => (
          { dtype, shape, data: new BigInt64Array((await window.bytesOf(path)).buffer) })));
        const [{ data, dtype, shape }] = await model.call(tensors);
        await model.dispose();
        return { phases: [...phases], logits: { dtype, shape: [...shape], values: [...data] } };
      } catch (error) {
        return { phases: [...phases], code: error.code, message: error.message };
      }
    }, { program, inputs });
  }

  function assertRight({ logits, message }) {
    assert.equal(message, undefined);
    const [golden] = call.goldens;
    const bytes = readFileSync(join(fixturesFolder, FOLDER, golden.path));
    const actual = { ...logits, bytes: new Uint8Array(new Float32Array(logits.values).buffer) };
    assertClose(actual, { ...golden, bytes }, { atol, rtol }, 'logits');
  }

  test('one that breaks off is taken up again, and a byte that came wrong is fetched again', async () => {
    bare.server.fault(PROGRAM, { endAt: file.length - 20_000, times: 1 }, { flipAt: AMONG_WEIGHTS, times: 1 });
    const loaded = await load(PROGRAM);
    assertRight(loaded);
    assert.ok(loaded.phases.includes('repair'), loaded.phases.join());
    const { ranges, bytes } = bare.server.counts(PROGRAM);
    const [start, end] = ranges.at(-1);
    assert.ok(start > 0 && start <= AMONG_WEIGHTS && AMONG_WEIGHTS < end, `the last request was for ${start} to ${end}`);
    assert.ok(bytes < 2 * file.length, `${bytes} bytes for a file of ${file.length}`);
  });

  test('a file that is always wrong is refused, with the constant named', async () => {
    bare.server.fault(PROGRAM, { flipAt: AMONG_WEIGHTS });
    const { code, message } = await load(PROGRAM);
    bare.server.heal();
    assert.equal(code, 'damaged');
    assert.match(message, /program\.pte is damaged: .*constant [0-9a-f]{64}/);
  });

  test('a file that is shorter than it says is an error', async () => {
    bare.server.fault(SMALL, { endAt: 3000 });
    const { code, message } = await load(SMALL);
    bare.server.heal();
    assert.equal(code, 'truncated', message);
    assert.match(message, /program\.pte could not be fetched after 3000 of \d+ bytes, in 5 tries/);
  });

  test('a server without ranges will do', async () => {
    bare.server.fault(PROGRAM, { noRanges: true });
    const loaded = await load(PROGRAM);
    bare.server.heal();
    assertRight(loaded);
    assert.deepEqual(bare.server.counts(PROGRAM).ranges, [[0, file.length]], 'it was sent once, and whole');
  });
});

describe('an address without a file', () => {
  let server;
  before(async () => (server = await serveChat()));
  after(() => server.close());

  test('is a sentence on the page, and may be tried again', async () => {
    const chat = await Chat.open(server, { path: '/?model=files/nothing.pte' });
    await chat.page.waitForFunction(() => document.documentElement.dataset.state === 'failed', undefined, { timeout: PATIENCE });
    assert.match(await chat.part('problem').innerText(), /nothing\.pte/);
    assert.ok(await chat.part('retry').isVisible());
    assert.equal(server.counts(MODEL).requests, 0);
    await picture(chat.page, 'page-failed');
    await chat.page.close();
  });
});

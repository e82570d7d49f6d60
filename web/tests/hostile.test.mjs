// The npm package in a real browser against storage and servers that changed, and callers that pass anything.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { openBare } from './bare.mjs';
import { assertQuiet } from './browser.mjs';

const PROGRAM = '/fixtures/ops/linear_dynamic/program.pte';
const MODEL = '/demo/model.pte';
const TOKENIZER = '/demo/tokenizer.json';

/** Loads a model; null, or why not. */
const load = (page, url, options = {}) => page.evaluate(async ({ url, options }) => {
  try {
    await (await window.pteron.Model.load(url, options)).dispose();
    return null;
  } catch (error) {
    const isIntegrity = error instanceof window.pteron.IntegrityError;
    return { code: error.code, message: error.message, isIntegrity, expected: error.expected, actual: error.actual };
  }
}, { url, options });

/** Flips a bit of what the origin private file system keeps of an address. */
const tamper = (page, path, at) => page.evaluate(async ({ path, at }) => {
  const url = new TextEncoder().encode(new URL(path, location.href).href);
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', url));
  const name = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('pteron');
  const part = await (await root.getDirectoryHandle(name)).getFileHandle('0');
  const bytes = new Uint8Array(await (await part.getFile()).arrayBuffer());
  bytes[at] ^= 1;
  const writable = await part.createWritable();
  await writable.write(bytes);
  await writable.close();
}, { path, at });

describe('files that are not what they were', () => {
  let bare;
  before(async () => (bare = await openBare()));
  after(() => bare?.close());

  test('tables that changed in the cache are fetched again', async () => {
    assert.equal(await load(bare.page, PROGRAM), null);
    bare.server.forget();
    assert.equal(await load(bare.page, PROGRAM), null);
    assert.equal(bare.server.counts(PROGRAM).requests, 0, 'it was kept');
    await tamper(bare.page, PROGRAM, 100);
    assert.equal(await load(bare.page, PROGRAM), null);
    assert.ok(bare.server.counts(PROGRAM).requests > 0, 'the change was noticed');
  });

  test('tables that changed in the cache and on the server are refused, until the new version is accepted', async () => {
    await tamper(bare.page, PROGRAM, 100);
    // A byte between the tables and the weights of this program, which nothing else checks.
    bare.server.fault(PROGRAM, { flipAt: 9 });
    const refused = await load(bare.page, PROGRAM);
    assert.equal(refused?.code, 'integrity', JSON.stringify(refused));
    assert.ok(refused.isIntegrity && refused.expected.startsWith('sha256-') && refused.actual.startsWith('sha256-'));
    bare.server.heal();
    assert.equal(await load(bare.page, PROGRAM), null);
  });

  test('a tokenizer that changed in the cache is fetched again; one that changed on the server, too, is refused', async () => {
    assert.equal(await load(bare.page, MODEL), null);
    await tamper(bare.page, TOKENIZER, 1000);
    bare.server.forget();
    assert.equal(await load(bare.page, MODEL), null);
    assert.ok(bare.server.counts(TOKENIZER).requests > 0);
    await tamper(bare.page, TOKENIZER, 1000);
    bare.server.fault(TOKENIZER, { flipAt: 5000 });
    const refused = await load(bare.page, MODEL);
    bare.server.heal();
    assert.equal(refused?.code, 'integrity', JSON.stringify(refused));
    assert.match(refused.message, /tokenizer\.json/);
    assert.equal(await load(bare.page, MODEL), null);
  });

  test('nothing was complained about on the way', () => assertQuiet(bare.page));
});

describe('arguments that make no sense', () => {
  let bare;
  before(async () => (bare = await openBare()));
  after(() => bare?.close());

  test('are refused or harmless, and the engine goes on', async () => {
    const outcome = await bare.page.evaluate(async () => {
      const { Model } = window.pteron;
      const model = await Model.load('/demo/model.pte', { cache: false });
      const odd = [NaN, Infinity, -Infinity, -1, -0, 0.5, 2 ** 31, 2 ** 32, 2 ** 53, 1e300, '', 'x', null, true, [], {}, 10n, () => {}, Symbol.iterator, new Uint32Array(2), [[]], [[1, 2, 3]], [[-1, NaN]], ['']];
      const names = ['temperature', 'topK', 'topP', 'minP', 'repetitionPenalty', 'presencePenalty', 'frequencyPenalty', 'seed', 'logitBias', 'logprobs', 'maxTokens', 'stopStrings', 'stopTokens', 'ignoreEos'];
      const prompts = [NaN, null, undefined, {}, [], [{}], [{ role: 'user' }], [{ role: 1, content: 2 }], { messages: 1, partial: 2 }, { messages: [] }, new Uint32Array(0), new Uint32Array([2 ** 32 - 1]), new Uint8Array(4), '\ud800', 'a\0b', 7n, Symbol.iterator];
      const ended = [];
      const problems = [];
      let tried = 0;
      const attempt = async (what, work) => {
        tried += 1;
        try {
          await work();
        } catch (error) {
          if (/engine stopped|unreachable/.test(String(error?.message))) ended.push(`${what}: ${error.message}`);
          else if (!(error instanceof Error)) problems.push(`${what}: ${String(error)}`);
        }
      };
      const session = model.session();
      const generate = (prompt, options) => session.generate(prompt, options).result;
      // Odd lengths may mean as many tokens as there is room for: the first is enough.
      const begin = async (prompt, options) => {
        for await (const _ of session.generate(prompt, options)) break;
      };
      for (const name of names) for (const value of odd) await attempt(`${name} ${String(typeof value)} ${typeof value === 'symbol' ? '' : String(value)}`, () => begin('A', { maxTokens: 1, [name]: value }));
      for (const prompt of prompts) await attempt(`prompt ${typeof prompt}`, () => begin(prompt, { maxTokens: 1 }));
      for (const value of odd) {
        await attempt('encode', () => model.encode(value));
        await attempt('decode', () => model.decode(value));
        await attempt('render', () => model.render(value));
        await attempt('load', () => Model.load(value, { cache: false }));
      }
      await attempt('decode', () => model.decode(new Uint32Array([0, 2 ** 31, 2 ** 32 - 1])));
      const gone = new Uint8Array(64);
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      await attempt('detached', () => Model.load(gone));
      const bytes = await window.bytesOf('/fixtures/ops/add_dynamic/program.pte');
      for (const value of odd) {
        for (const name of ['method', 'maxPrefill', 'memoryBudget', 'kvDtype', 'exact']) {
          await attempt(`plan with ${name}`, () => Model.check(bytes, { benchmark: false, [name]: value }));
        }
      }
      const plain = await Model.load(bytes, { tokenizer: false });
      const data = new Float32Array(4);
      const tensors = odd.flatMap((value) => [{ dtype: value, shape: [4], data }, { dtype: 'float32', shape: value, data }, { dtype: 'float32', shape: [value], data }, { dtype: 'float32', shape: [4], data: value }]);
      tensors.push({ dtype: 'float32', shape: [65536, 65536, 65536, 65536], data }, { dtype: 'float32', shape: new Array(1000).fill(1).concat(4), data }, { dtype: 'float32', shape: [0], data: new Float32Array(0) });
      for (const tensor of tensors) {
        await attempt('call', () => plain.call([tensor, tensor]));
        await attempt('call', () => plain.call([tensor]));
      }
      for (const value of odd) await attempt('call', () => plain.call(value));
      const text = await generate('A thread is', { maxTokens: 3, temperature: 0 });
      const alive = text.tokens.length === 3 && model.decode(model.encode('still here')) === 'still here';
      await plain.dispose();
      await model.dispose();
      return { tried, ended, problems, alive };
    });
    console.log(`${outcome.tried} calls with odd arguments`);
    assert.deepEqual(outcome.ended, []);
    assert.deepEqual(outcome.problems, []);
    assert.equal(outcome.alive, true);
  });
});

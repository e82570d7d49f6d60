// The npm package in a real browser, through its public face alone.

import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { openBare } from './bare.mjs';
import { assertQuiet } from './browser.mjs';
import { demoFolder, fixturesFolder } from './setting.mjs';
import { assertClose } from './tensors.mjs';

const opCases = JSON.parse(readFileSync(join(fixturesFolder, 'ops/manifest.json'), 'utf8'));
const xnnpackCases = JSON.parse(readFileSync(join(fixturesFolder, 'xnnpack/manifest.json'), 'utf8'));
const goldens = JSON.parse(readFileSync(join(demoFolder, 'goldens.json'), 'utf8')).prompts;

/** One case of every fifth operator, of those whose shapes are alive. */
function someCases() {
  const live = opCases.filter(({ name, portable_ops }) => name.includes('dynamic') && portable_ops.length === 0);
  const first = live.filter(({ op }, i) => live.findIndex((other) => other.op === op) === i);
  return first.filter((_, i) => i % 5 === 0);
}

/** Runs calls of one program in the page, on one state; the output tensors of each call, their bytes in base64. */
async function callInPage(page, program, calls) {
  const results = await page.evaluate(async ({ program, calls }) => {
    const arrays = {
      float32: Float32Array, float64: Float64Array, float16: Uint16Array, int64: BigInt64Array, int32: Int32Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
    };
    const model = await window.pteron.Model.load(program, { cache: false, tokenizer: false });
    const state = model.state();
    const results = [];
    for (const inputs of calls) {
      const tensors = await Promise.all(inputs.map(async ({ path, dtype, shape }) => (
        { dtype, shape, data: new arrays[dtype]((await window.bytesOf(path)).buffer) })));
      const outputs = await model.call(tensors, { state });
      results.push(outputs.map(({ dtype, shape, data }) => {
        const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
        return { dtype, shape: [...shape], base64: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')) };
      }));
    }
    await model.dispose();
    return results;
  }, { program, calls });
  return results.map((outputs) => outputs.map(({ base64, ...output }) => ({ ...output, bytes: Buffer.from(base64, 'base64') })));
}

/** Compares a program's calls with PyTorch's outputs in `folder` of the fixtures. */
async function compare(page, folder, program, calls, tolerances, name) {
  const at = (path) => `/fixtures/${folder}/${path}`;
  const inputs = calls.map((call) => call.inputs.map((input) => ({ ...input, path: at(input.path) })));
  const outputs = await callInPage(page, at(program), inputs);
  for (const [i, call] of calls.entries()) {
    for (const golden of call.goldens) {
      const bytes = readFileSync(join(fixturesFolder, folder, golden.path));
      assertClose(outputs[i][golden.output_index], { ...golden, bytes }, tolerances, `${name}, call ${i}`);
    }
  }
}

describe('the npm package', () => {
  let bare;
  before(async () => (bare = await openBare()));
  after(() => bare?.close());

  test('finds an adapter', async () => {
    const support = await bare.page.evaluate(() => window.pteron.support());
    assert.equal(support.supported, true);
    assert.ok(support.adapter.maxBufferSize >= 1 << 28, JSON.stringify(support));
    console.log(`adapter: ${support.adapter.name}, ${support.adapter.features.join(' ')}`);
  });

  test('matches PyTorch, operator by operator, at live shapes', async () => {
    const cases = someCases();
    assert.ok(cases.length >= 20);
    for (const { name, pte, calls, atol, rtol } of cases) await compare(bare.page, 'ops', pte, calls, { atol, rtol }, name);
  });

  test('keeps a KV cache from call to call', async () => {
    const { name, pte, calls, atol, rtol } = opCases.find((entry) => entry.name === 'sdpa_gqa');
    assert.ok(calls.length > 2);
    await compare(bare.page, 'ops', pte, calls, { atol, rtol }, name);
  });

  test('runs programs lowered for XNNPACK, with float and quantised weights, as the command does', async () => {
    const cases = xnnpackCases.filter(({ name }) => /fp32|8da4w/.test(name));
    assert.equal(cases.length, 2);
    for (const { name, pte, calls, atol, rtol } of cases) await compare(bare.page, 'xnnpack', pte, calls, { atol, rtol }, name);
  });

  test('loads from a URL, a File and an ArrayBuffer alike', async () => {
    const outputs = await bare.page.evaluate(async () => {
      const path = '/fixtures/ops/add_dynamic/program.pte';
      const bytes = await window.bytesOf(path);
      const sources = [path, new URL(path, location.href), new File([bytes], 'program.pte'), bytes.buffer, bytes, new Blob([bytes])];
      const results = [];
      for (const source of sources) {
        const model = await window.pteron.Model.load(source, { cache: false, tokenizer: false });
        const inputs = model.info.methods[0].inputs.map(({ dtype, shape }) => (
          { dtype, shape, data: new Float32Array(shape.reduce((product, size) => product * size, 1)).fill(1.5) }));
        results.push(Array.from((await model.call(inputs))[0].data).join());
        await model.dispose();
      }
      return results;
    });
    assert.equal(outputs.length, 6);
    assert.match(outputs[0], /^3(,3)*$/);
    assert.equal(new Set(outputs).size, 1);
  });

  test('refuses with errors that have a sentence and a code', async () => {
    const failures = await bare.page.evaluate(async () => {
      const { Model, PteronError } = window.pteron;
      const outcome = async (work) => {
        const error = await work().then(() => null, (error) => error);
        return error && { isError: error instanceof Error && error instanceof PteronError, code: error.code, message: error.message };
      };
      const whole = await window.bytesOf('/fixtures/ops/add_dynamic/program.pte');
      const options = { cache: false, tokenizer: false };
      const model = await Model.load(whole, options);
      const failures = {
        'no-such-file': await outcome(() => Model.load('/fixtures/nothing.pte', options)),
        'bad-file': await outcome(() => Model.load(new TextEncoder().encode('<!doctype html><p>Not found</p>'), options)),
        cut: await outcome(() => Model.load(whole.slice(0, whole.length >> 1), options)),
        'no-such-method': await outcome(() => Model.load(whole, { ...options, method: 'backward' })),
        input: await outcome(() => model.call([{ dtype: 'float32', shape: [2], data: new Float32Array(2) }])),
        network: await outcome(() => Model.load('http://127.0.0.1:9/model.pte', options)),
      };
      await model.dispose();
      failures.disposed = await outcome(async () => model.call([]));
      return failures;
    });
    for (const [what, failure] of Object.entries(failures)) {
      assert.ok(failure?.isError && failure.message.length > 10, `${what}: ${JSON.stringify(failure)}`);
      if (what !== 'cut' && what !== 'disposed') assert.equal(failure.code, what, failure.message);
    }
    assert.ok(['bad-file', 'truncated'].includes(failures.cut.code), failures.cut.message);
  });

  test('a load that is aborted rejects with the reason and can be tried again', async () => {
    bare.server.fault('/demo/model.pte', { bytesPerSecond: 200_000 });
    const name = await bare.page.evaluate(async () => {
      const controller = new AbortController();
      const onProgress = ({ phase }) => phase === 'download' && controller.abort();
      const loading = window.pteron.Model.load('/demo/model.pte', { cache: false, signal: controller.signal, onProgress });
      return loading.then(() => 'loaded', (error) => error.name);
    });
    bare.server.heal();
    assert.equal(name, 'AbortError');
    const { prompt, ids } = goldens[1];
    const tokens = await bare.page.evaluate(async ({ prompt }) => {
      const model = await window.pteron.Model.load('/demo/model.pte', { cache: false });
      const { tokens } = await model.session().generate(prompt, { temperature: 0, maxTokens: 3 }).result;
      await model.dispose();
      return tokens;
    }, { prompt });
    assert.deepEqual(tokens, ids.slice(0, 3));
  });

  test('writes text in a worker; a loop that is left stops it', async () => {
    const { prompt, prompt_ids, ids } = goldens[1];
    bare.server.forget();
    const told = await bare.page.evaluate(async ({ prompt }) => {
      const code = `onmessage = async ({ data: { base, prompt } }) => {
        try {
          const { Model } = await import(base + '/pteron/index.js');
          const phases = new Set();
          const model = await Model.load(base + '/demo/model.pte', { onProgress: ({ phase }) => phases.add(phase) });
          const session = model.session();
          const tokens = [];
          for await (const { token } of session.generate(prompt, { temperature: 0, maxTokens: 50 })) {
            tokens.push(token);
            if (tokens.length === 4) break;
          }
          const generation = session.generate(prompt, { temperature: 0, maxTokens: 6 });
          let text = '';
          for await (const piece of generation) text += piece.text;
          const result = await generation.result;
          const profile = await session.profile();
          await model.dispose();
          postMessage({ phases: [...phases], tokens, text, result, kernels: profile.dispatches.length });
        } catch (error) { postMessage({ error: String(error) }); }
      };`;
      const worker = new Worker(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })), { type: 'module' });
      const result = new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
      worker.postMessage({ base: location.origin, prompt });
      return result;
    }, { prompt });
    assert.equal(told.error, undefined);
    assert.deepEqual(told.tokens, ids.slice(0, 4));
    assert.deepEqual(told.result.tokens, ids.slice(0, 6));
    assert.equal(told.result.finish, 'max-tokens');
    assert.equal(told.result.promptTokens, prompt_ids.length);
    assert.ok(told.text.length > 0 && told.kernels > 10);
    assert.ok(told.phases.includes('download'), told.phases.join());
    const { bytes } = bare.server.counts('/demo/model.pte');
    const size = statSync(join(demoFolder, 'model.pte')).size;
    assert.ok(bytes >= size && bytes < 1.2 * size, `${bytes} bytes were sent for a file of ${size}`);
  });

  test('nothing was complained about on the way', () => assertQuiet(bare.page));
});

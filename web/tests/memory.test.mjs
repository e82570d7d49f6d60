// Weights go through WebAssembly's memory, not into it.

import assert from 'node:assert/strict';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { openBare } from './bare.mjs';
import { artifacts, pteron } from './setting.mjs';

/** 200 MB; the largest tensor, the embedding, has a tenth of that. */
const SHAPE = 'smollm2-360m,layers=28';
const ROOM = 64e6;

describe('a program of 200 MB', () => {
  const file = join(artifacts, 'synthetic.pte');
  let bare;
  let largest;
  before(async () => {
    await pteron('convert', '--quiet', '--synthetic', SHAPE, '--context', '64', '--longest-call', '16', '-o', file);
    largest = JSON.parse(await pteron('inspect', '--json', file)).constants.largest[0].bytes;
    bare = await openBare({ '/synthetic/': artifacts });
  });
  after(async () => {
    await bare?.close();
    rmSync(file, { force: true });
  });

  test('is loaded with little more memory than its largest tensor', async () => {
    const size = statSync(file).size;
    assert.ok(size > 190e6 && size < 220e6, `the program has ${size} bytes`);
    const { peak, loaded, logits } = await bare.page.evaluate(async () => {
      let loaded = 0;
      const model = await window.pteron.Model.load('/synthetic/synthetic.pte', {
        cache: false, tokenizer: false, onProgress: ({ loadedBytes }) => (loaded = Math.max(loaded, loadedBytes)),
      });
      const tokens = { dtype: 'int64', shape: [1, 2], data: new BigInt64Array([1n, 2n]) };
      const position = { dtype: 'int64', shape: [1], data: new BigInt64Array([0n]) };
      const [{ data }] = await model.call([tokens, position]);
      const logits = { finite: data.every(Number.isFinite), differ: new Set(data).size };
      await model.dispose();
      // WebAssembly's memory never shrinks: what it has now is the most it ever had.
      return { peak: window.wasmMemory.buffer.byteLength, loaded, logits };
    });
    console.log(`wasm memory: ${peak} bytes at most for ${size} of program, the largest tensor has ${largest}`);
    assert.ok(loaded > 0.95 * size, `${loaded} of ${size} bytes were loaded`);
    assert.ok(logits.finite && logits.differ > 1000, JSON.stringify(logits));
    assert.ok(peak - largest <= ROOM, `${peak - largest} bytes more than the largest tensor, and ${ROOM} are allowed`);
  });
});

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

  /** Loads it and runs a call. */
  const load = (cache) => bare.page.evaluate(async (cache) => {
    let loaded = 0;
    let fromCache = 0;
    let notCached = null;
    const onProgress = (progress) => {
      loaded = Math.max(loaded, progress.loadedBytes);
      ({ notCached } = progress);
      fromCache = progress.fromCacheBytes;
    };
    const model = await window.pteron.Model.load('/synthetic/synthetic.pte', { cache, tokenizer: false, onProgress });
    const tokens = { dtype: 'int64', shape: [1, 2], data: new BigInt64Array([1n, 2n]) };
    const position = { dtype: 'int64', shape: [1], data: new BigInt64Array([0n]) };
    const [{ data }] = await model.call([tokens, position]);
    const logits = { finite: data.every(Number.isFinite), differ: new Set(data).size };
    await model.dispose();
    // WebAssembly's memory never shrinks: what it has now is the most it ever had.
    return { peak: window.wasmMemory.buffer.byteLength, loaded, fromCache, notCached, logits };
  }, cache);

  function assertSmall({ peak, loaded, logits }, how) {
    const size = statSync(file).size;
    assert.ok(size > 190e6 && size < 220e6, `the program has ${size} bytes`);
    console.log(`wasm memory, ${how}: ${peak} bytes at most for ${size} of program, the largest tensor has ${largest}`);
    assert.ok(loaded > 0.95 * size, `${loaded} of ${size} bytes were loaded`);
    assert.ok(logits.finite && logits.differ > 1000, JSON.stringify(logits));
    assert.ok(peak - largest <= ROOM, `${peak - largest} bytes more than the largest tensor, and ${ROOM} are allowed`);
  }

  test('is loaded with little more memory than its largest tensor', async () => assertSmall(await load(false), 'not kept'));

  test('and with no more when it is kept, and when it comes from the cache', async () => {
    const first = await load(true);
    assert.equal(first.notCached, null);
    assert.equal(first.fromCache, 0);
    assertSmall(first, 'kept');
    const second = await load(true);
    assert.equal(second.fromCache, second.loaded);
    assertSmall(second, 'from the cache');
    await bare.page.evaluate(() => window.pteron.cache.clear());
  });
});

// The server that the other tests believe.

import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { startServer } from './server.mjs';

describe('the test server', () => {
  const content = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251));
  let server;
  before(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'pteron-server-'));
    writeFileSync(join(folder, 'file.wasm'), content);
    server = await startServer({ '/': folder, '/page/': { text: '<!doctype html>', type: 'text/html' } });
  });
  after(() => server.close());
  const get = (path, headers = {}) => fetch(server.url + path, { headers });
  const body = async (response) => Buffer.from(await response.arrayBuffer());

  test('serves whole files and ranges, and counts both', async () => {
    const whole = await get('/file.wasm');
    assert.equal(whole.headers.get('content-type'), 'application/wasm');
    assert.deepEqual(await body(whole), content);
    const part = await get('/file.wasm', { range: 'bytes=10-19' });
    assert.equal(part.status, 206);
    assert.equal(part.headers.get('content-range'), 'bytes 10-19/100000');
    assert.deepEqual(await body(part), content.subarray(10, 20));
    assert.deepEqual(server.counts('/file.wasm'), { requests: 2, bytes: 100_010, ranges: [[0, 100_000], [10, 20]] });
    const changed = await get('/file.wasm', { range: 'bytes=10-19', 'if-range': '"another"' });
    assert.deepEqual([changed.status, (await body(changed)).length], [200, 100_000]);
    assert.equal((await get('/file.wasm', { range: 'bytes=100000-' })).status, 416);
    assert.equal((await get('/page/')).headers.get('content-type'), 'text/html');
    assert.equal((await get('/%2e%2e/secret')).status, 404);
  });

  test('flips a byte once, and then no more', async () => {
    server.fault('/file.wasm', { flipAt: 50_000, times: 1 });
    const first = await body(await get('/file.wasm', { range: 'bytes=49990-' }));
    assert.equal(first[10], content[50_000] ^ 0xff);
    assert.deepEqual(await body(await get('/file.wasm')), content);
  });

  test('breaks off, refuses, and takes its time', async () => {
    server.fault('/file.wasm', { endAt: 1000, times: 1 });
    await assert.rejects(async () => body(await get('/file.wasm')));
    server.fault('/file.wasm', { status: 404, times: 1 }, { noRanges: true });
    assert.equal((await get('/file.wasm')).status, 404);
    assert.equal((await get('/file.wasm', { range: 'bytes=10-19' })).status, 200);
    server.fault('/file.wasm', { bytesPerSecond: 200_000 });
    const start = performance.now();
    assert.deepEqual(await body(await get('/file.wasm')), content);
    assert.ok(performance.now() - start > 400);
    server.heal();
  });
});

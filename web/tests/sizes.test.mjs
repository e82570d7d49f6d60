// What a visitor downloads before the first byte of a model.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { packageFolder } from './setting.mjs';

const WASM_LIMIT = 1_600_000;
const SCRIPT_LIMIT = 25_000;

describe('the package stays small', () => {
  const dist = join(packageFolder, 'dist');
  const measure = (names) => {
    const files = names.map((name) => readFileSync(join(dist, name)));
    const sum = (lengths) => lengths.reduce((total, length) => total + length, 0);
    return { raw: sum(files.map((file) => file.length)), gzipped: sum(files.map((file) => gzipSync(file, { level: 9 }).length)) };
  };
  const check = (what, names, limit) => {
    const { raw, gzipped } = measure(names);
    console.log(`${what}: ${gzipped} bytes gzipped of ${limit} (${raw} as they are)`);
    assert.ok(raw > 0 && gzipped <= limit, `${what} has ${gzipped} bytes gzipped, more than ${limit}`);
  };

  test('wasm', () => check('wasm', ['pteron.wasm'], WASM_LIMIT));
  test('JavaScript', () => {
    const scripts = readdirSync(dist, { recursive: true }).filter((name) => name.endsWith('.js'));
    check('JavaScript', scripts, SCRIPT_LIMIT);
  });
});

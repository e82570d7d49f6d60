// What `npm pack` gives, in a project that was not there before.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { assertQuiet, openTab, picture } from './browser.mjs';
import { startServer } from './server.mjs';
import { demoFolder, packageFolder, root } from './setting.mjs';

const execute = promisify(execFile);
const goldens = JSON.parse(readFileSync(join(demoFolder, 'goldens.json'), 'utf8')).prompts;

/** Messages of npm when it cannot reach its registry; a failure that is not the network's is one of the test. */
function networkFailure(error) {
  const [code] = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED)\b/.exec(error.stderr) ?? [];
  if (!code) throw error;
  return code;
}

describe('a fresh Vite project', () => {
  let project;
  /** Why Vite cannot be had here; null where it was installed. */
  let unreachable = null;
  let packed;

  before(async () => {
    project = mkdtempSync(join(tmpdir(), 'pteron-vite-'));
    cpSync(join(root, 'web/tests/vite'), project, { recursive: true });
    const { stdout } = await execute('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project], { cwd: packageFolder });
    [packed] = JSON.parse(stdout);
    unreachable = await execute('npm', ['ping'], { cwd: project }).then(() => null, networkFailure);
    if (unreachable) return;
    const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', `./${packed.filename}`];
    await execute('npm', install, { cwd: project });
  });
  after(() => rmSync(project, { recursive: true, force: true }));

  test('the package holds what a user needs and nothing else', () => {
    const files = packed.files.map(({ path }) => path);
    for (const needed of ['package.json', 'README.md', 'bin/manifest.mjs', 'dist/index.js', 'dist/index.d.ts', 'dist/pteron.wasm']) {
      assert.ok(files.includes(needed), `${needed} is not among ${files.join(', ')}`);
    }
    const strange = files.filter((path) => !/^(bin\/manifest\.mjs|dist\/.*|README\.md|package\.json|LICENSE.*)$/.test(path));
    assert.deepEqual(strange, []);
  });

  test('checks its types, builds, loads a model and writes', async (t) => {
    if (unreachable) return t.skip(`npm cannot reach a registry, and Vite comes from there: ${unreachable}`);
    await execute('npm', ['run', 'build'], { cwd: project });
    assert.ok(readdirSync(join(project, 'dist/assets')).some((name) => name.endsWith('.wasm')), 'the wasm is not among the assets');
    const server = await startServer({ '/': join(project, 'dist'), '/demo/': demoFolder });
    try {
      const page = await openTab(`${server.url}/`);
      const text = page.locator('#text[data-tokens], #text[data-problem]');
      await text.waitFor({ state: 'attached', timeout: 120_000 });
      assert.equal(await text.getAttribute('data-problem'), null);
      assert.equal(await text.getAttribute('data-tokens'), goldens[0].ids.slice(0, 8).join(' '));
      assertQuiet(page);
      await picture(page, 'vite');
      await page.close();
    } finally {
      await server.close();
    }
  });
});

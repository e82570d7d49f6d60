// The JavaScript of the documentation site's pages, block by block, in the browser: each block is a module, and prints what the page
// shows. The marks in the pages are those that `cargo xtask site` reads.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { openTab } from './browser.mjs';
import { startServer } from './server.mjs';
import { artifacts, demoFolder, fixturesFolder, packageFolder, root } from './setting.mjs';

const PAGES = join(root, 'docs/site/src');
const PAGE = `<!doctype html>
<html lang="en"><title>blocks</title>
<script type="importmap">{ "imports": { "pteron": "/pteron/index.js" } }</script>
<script type="module">
  window.runBlock = async (text) => {
    const printed = [];
    console.log = (...values) => printed.push(values.join(' '));
    const address = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
    await import(address);
    return printed.join('\\n');
  };
</script></html>`;

/** The JavaScript blocks of a page, with the output that it shows. */
function blocksOf(path) {
  const blocks = [];
  const pattern = /(?:<!-- (?<mark>[^\n]*) -->\n+)?```(?<language>\w*)[^\n]*\n(?<text>[^]*?)\n```/g;
  for (const { groups: { mark = '', language, text }, index } of readFileSync(path, 'utf8').matchAll(pattern)) {
    const line = readFileSync(path, 'utf8').slice(0, index).split('\n').length;
    if (mark === 'output' && blocks.at(-1)?.open) blocks.at(-1).output = text;
    blocks.forEach((block) => (block.open = false));
    if (language === 'js' && !mark.startsWith('not run: ')) blocks.push({ name: `${relative(root, path)}:${line}`, text, open: true });
  }
  return blocks;
}

/** Whether a text is the shown one, in which `...` stands for anything. */
function matches(shown, text) {
  const escaped = shown.split('...').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${escaped.join('[^]*')}$`).test(text);
}

const pages = readdirSync(PAGES, { recursive: true }).filter((name) => name.endsWith('.md')).sort();
const blocks = pages.flatMap((name) => blocksOf(join(PAGES, name)));

describe('the pages of the documentation site', () => {
  let server;
  let tab;
  before(async () => {
    server = await startServer({
      '/': { text: PAGE, type: 'text/html' },
      '/pteron/': join(packageFolder, 'dist'),
      '/demo/': demoFolder,
      '/fixtures/': fixturesFolder,
    });
    tab = await openTab(`${server.url}/`);
    await tab.waitForFunction(() => window.runBlock !== undefined);
  });
  after(async () => {
    await tab?.close();
    await server?.close();
  });

  test('there are blocks', () => assert.ok(blocks.length >= 8, `${blocks.length} blocks`));

  test('an output is compared with the shown one', () => {
    assert.ok(matches('a ... c', 'a b c') && matches('1', '1') && !matches('a ... c', 'a b') && !matches('a.c', 'abc'));
  });

  test('the types of the package accept them', () => {
    const folder = join(artifacts, 'site');
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const { name, text } of blocks) writeFileSync(join(folder, `${name.replace(/[^\w]+/g, '-')}.js`), `${text}\nexport {};\n`);
    const compilerOptions = {
      allowJs: true, checkJs: true, noImplicitAny: false, noUncheckedIndexedAccess: false,
      paths: { pteron: [join(packageFolder, 'dist/index.d.ts')] },
    };
    const project = { extends: join(root, 'web/tsconfig.json'), compilerOptions, include: ['*.js'] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project));
    execFileSync(process.execPath, [join(root, 'web/node_modules/typescript/bin/tsc'), '-p', folder], { stdio: 'inherit' });
  });

  for (const { name, text, output } of blocks) {
    test(`${name} does what it says`, async () => {
      const printed = await tab.evaluate((text) => window.runBlock(text), text);
      if (output !== undefined) assert.ok(matches(output, printed), `the page shows\n${output}\nbut this was printed\n${printed}`);
    });
  }
});

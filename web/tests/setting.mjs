// Where things are, and what the tests were started with:
//
//   node --test-reporter=spec web/tests/all.mjs --pteron target/debug/pteron --browser /usr/bin/chromium

import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    pteron: { type: 'string', default: join(root, 'target/debug/pteron') },
    browser: { type: 'string', default: process.env.PTERON_CHROMIUM ?? '/usr/bin/chromium' },
    artifacts: { type: 'string', default: join(root, 'target/web-artifacts') },
  },
});

/** Tests that are to be run alone. */
export const named = positionals;
export const browserPath = values.browser;
export const artifacts = resolve(values.artifacts);
mkdirSync(artifacts, { recursive: true });

/** The files that `cargo xtask web` has built. */
export const packageFolder = join(root, 'web/pteron');
export const pageFolder = join(root, 'web/dist');
export const demoFolder = join(root, 'models/demo');
export const fixturesFolder = join(root, 'fixtures');

for (const built of [join(packageFolder, 'dist/index.js'), join(pageFolder, 'index.html'), values.pteron]) {
  if (!existsSync(built)) throw new Error(`${built} is not there; \`cargo xtask test --only web\` builds what these tests need`);
}

/** The driver that browsers compute with where there is no GPU; Debian's chromium brings it for others, too. */
const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json';

const execute = promisify(execFile);

/** Runs the `pteron` command on SwiftShader; what it printed. */
export async function pteron(...args) {
  const env = { ...process.env, VK_ICD_FILENAMES: SWIFTSHADER };
  const { stdout } = await execute(resolve(values.pteron), args, { cwd: root, env, maxBuffer: 1 << 26 });
  return stdout;
}

/** Generates with the command, with greedy decoding. */
export async function nativeGeneration(prompt, tokens) {
  const model = join(demoFolder, 'model.pte');
  const output = await pteron('run', '--quiet', '--adapter', 'swiftshader', '--model', model, '--json', '-t', '0', '-n', String(tokens), prompt);
  return JSON.parse(output);
}

// All tests that share one browser, or those that are named: `node --test-reporter=spec web/tests/all.mjs package damage`.

import { after } from 'node:test';

import { closeBrowser } from './browser.mjs';
import { named } from './setting.mjs';

/** The quick ones first. */
const SUITES = ['server', 'sizes', 'unsupported', 'package', 'damage', 'hostile', 'link', 'page', 'pitch', 'gallery', 'site', 'memory', 'vite'];

const unknown = named.filter((name) => !SUITES.includes(name));
if (unknown.length > 0) throw new Error(`there are no tests called ${unknown.join(', ')}; there are ${SUITES.join(', ')}`);
for (const name of named.length > 0 ? named : SUITES) await import(`./${name}.test.mjs`);
after(closeBrowser);

// A browser's tab with a server, for tests that load models.

import assert from "node:assert/strict";
import { after, beforeEach } from "node:test";

import { importPackage } from "./bundle.mjs";
import { fake, makeFile } from "./fake-engine.mjs";
import { serve } from "./server.mjs";

export const MiB = 1 << 20;

/** Constants of the model that is served: two parts and a bit. */
export const LENGTHS = [5 * MiB, 6 * MiB + 3, 100, 3 * MiB, 4 * MiB];

export const file = makeFile(LENGTHS);

/** The files of the server; every test starts with the model alone. */
export const files = new Map();

export const pteron = await importPackage();

export const server = await serve(files);

export const url = (name = "/model.pte") => server.base + name;

export const load = (options = {}, source = url()) => pteron.Model.load(source, options);

/** Long enough for promises that wait for one another. */
export async function tick() {
  for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Everything but GPUs was freed, or is in a moment, and nothing while it was in use. */
export async function nothingLeft() {
  for (let i = 0; i < 30 && Object.keys(fake.alive()).length; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(fake.alive(), {});
  assert.deepEqual(fake.misuse, []);
}

export async function loadAndFree(options, source) {
  const model = await load(options, source);
  await model.dispose();
  await nothingLeft();
}

/** A check of an error for `assert.rejects`. */
export const isCode = (code, ...patterns) => (error) => {
  assert.equal(error.name, "PteronError", String(error.stack));
  assert.equal(error.code, code, error.message);
  for (const pattern of patterns) assert.match(error.message, pattern);
  return true;
};

/** Lets a clock run so fast that no event is too soon after another to be told. */
export function fastClock(t) {
  const real = performance.now;
  let now = 0;
  performance.now = () => (now += 200);
  t.after(() => (performance.now = real));
}

after(() => server.close());
beforeEach(async () => {
  await pteron.release();
  fake.reset();
  files.clear();
  files.set("/model.pte", file);
  for (const name of Object.keys(server.behaviour)) delete server.behaviour[name];
  server.behaviour.etag = '"one"';
  server.requests.length = 0;
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { importPackage } from "./bundle.mjs";
import { browser } from "./fake-browser.mjs";
import { makeFile } from "./fake-engine.mjs";
import { fastClock, file, files, isCode, load, loadAndFree, MiB, nothingLeft, pteron, server, url } from "./harness.mjs";

for (const kind of ["files", "cache"]) {
  test(`deleting a file during its download leaves nothing in ${kind}`, async (t) => {
    fastClock(t);
    const { root, cache } = browser(kind);
    let deleting;
    const seen = [];
    const onProgress = (progress) => {
      seen.push(progress);
      if (progress.loadedBytes > 9 * MiB) deleting ??= pteron.cache.delete(url());
    };
    await loadAndFree({ onProgress });
    await deleting;
    assert.match(seen.at(-1).notCached, /deleted from the cache/);
    assert.equal(kind === "files" ? root.children.get("pteron").children.size : cache.entries.size, 0);
    await loadAndFree();
    assert.equal((await pteron.cache.list())[0].complete, true, "the next load keeps it");
  });
}

test("parts that belong to nothing are deleted by the address", async () => {
  const { root } = browser("files");
  await loadAndFree();
  const [folder] = root.children.get("pteron").children.values();
  folder.children.delete("facts.json");
  assert.deepEqual(await pteron.cache.list(), []);
  await pteron.cache.delete(url());
  assert.equal(root.children.get("pteron").children.size, 0);
});

test("a folder that is being written to is deleted as soon as that is done", async () => {
  const { root } = browser("files");
  await loadAndFree();
  const place = root.children.get("pteron");
  const remove = place.removeEntry.bind(place);
  let refusals = 2;
  place.removeEntry = async (name) => {
    if (refusals-- > 0) throw new DOMException("in use", "NoModificationAllowedError");
    return remove(name);
  };
  await pteron.cache.clear();
  assert.equal(place.children.size, 0);
  place.removeEntry = async () => {
    throw new DOMException("broken", "UnknownError");
  };
  await loadAndFree({ cache: false });
  place.children.set("folder", new place.constructor(place.disk));
  await assert.rejects(pteron.cache.clear(), isCode("storage", /broken/));
});

test("a file that another tab holds is not deleted, and is fetched past the cache", async () => {
  const { locks, parts } = browser("files");
  await loadAndFree();
  const [{ folder }] = parts();
  locks.held.add(`pteron:${folder}`);
  parts().find(({ name }) => name === 0).file.content = new Blob([new Uint8Array(8 * MiB)]);
  await loadAndFree();
  assert.equal(parts().length, 3, "the other tab's parts are still there");
  locks.held.clear();
  await loadAndFree();
  assert.equal((await pteron.cache.list())[0].complete, true);
});

test("damage that comes from cached tables is mended once, by forgetting them", async () => {
  const { parts } = browser("files");
  await loadAndFree();
  const part = parts().find(({ name }) => name === 0);
  const bytes = new Uint8Array(await part.file.content.arrayBuffer());
  // The first checksum in the tables, a hexadecimal digit of it.
  const at = Buffer.from(bytes.subarray(0, 400)).indexOf('"key":"') + 7;
  bytes[at] = bytes[at] === 0x30 ? 0x31 : 0x30;
  part.file.content = new Blob([bytes]);
  await loadAndFree();
  server.requests.length = 0;
  await loadAndFree();
  assert.equal(server.requests.length, 0, "the good file was kept");
});

test("a file that is damaged at its source is not loaded twice for a cache that has no part in it", async (t) => {
  fastClock(t);
  browser("files");
  const bad = file.slice();
  bad[7 * MiB] ^= 1;
  files.set("/model.pte", bad);
  let loads = 0;
  const onProgress = ({ phase }) => phase === "prepare" && loads++;
  await assert.rejects(load({ onProgress }), isCode("damaged"));
  assert.equal(loads, 1);
  await assert.rejects(load({ onProgress }), isCode("damaged"));
  assert.equal(loads, 3, "what an earlier visit kept is given up once");
  await nothingLeft();
});

test("only the file that changed is fetched anew", async () => {
  const { parts } = browser("files");
  files.set("/weights.ptd", makeFile([3 * MiB]));
  const options = { data: [url("/weights.ptd")] };
  await loadAndFree(options);
  files.set("/weights.ptd", makeFile([2 * MiB]));
  server.behaviour.etag = '"two"';
  for (const { file: part } of parts()) if (part.content.size < 4 * MiB && part.content.size > 3 * MiB) part.content = new Blob([]);
  server.requests.length = 0;
  await assert.rejects(load(options), isCode("integrity", /weights\.ptd/));
  assert.equal(server.count("/model.pte"), 0);
  assert.ok(server.count("/weights.ptd") > 0);
  await loadAndFree({ ...options, revalidate: true });
});

test("a check that finds a changed file counts none of its old bytes", async () => {
  browser("files");
  await loadAndFree();
  files.set("/model.pte", makeFile([9 * MiB]));
  server.behaviour.etag = '"two"';
  const { cachedBytes, downloadBytes } = await pteron.Model.check(url(), { revalidate: true });
  assert.deepEqual([cachedBytes, downloadBytes], [0, files.get("/model.pte").length]);
});

test("sizes of cached parts are known without reading them", async () => {
  const { cache } = browser("cache");
  await loadAndFree();
  cache.reads = 0;
  assert.equal((await pteron.cache.list())[0].complete, true);
  assert.ok(cache.reads <= 3, `${cache.reads} entries were read; the facts alone are needed`);
});

test("a browser is asked once to keep what is kept, and may refuse", async () => {
  const fresh = await importPackage();
  const { persisted } = browser("files");
  for (let i = 0; i < 2; i++) {
    await (await fresh.Model.load(url())).dispose();
    await fresh.cache.clear();
  }
  assert.equal(persisted.asked, 1);
});

test("an invalid address is rejected with a sentence", async () => {
  browser("files");
  for (const work of [pteron.cache.delete("no address"), load({}, "http://"), pteron.Model.check("::")]) {
    await assert.rejects(work, isCode("input", /is not an address/));
  }
});

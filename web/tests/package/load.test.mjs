import assert from "node:assert/strict";
import { test } from "node:test";

import { browser } from "./fake-browser.mjs";
import { fake, makeFile } from "./fake-engine.mjs";
import { fastClock, file, files, isCode, LENGTHS, load, loadAndFree, MiB, nothingLeft, pteron, server, url } from "./harness.mjs";

test("files, bytes and addresses load", async () => {
  browser("none");
  for (const source of [file, file.buffer, new File([file], "a.pte"), url(), new URL(url())]) await loadAndFree({}, source);
  assert.ok(fake.largestWrite <= MiB, "slices are small");
});

for (const kind of ["files", "cache"]) {
  test(`a second load comes from ${kind} without a request`, async () => {
    browser(kind);
    await loadAndFree();
    const before = server.requests.length;
    const seen = [];
    await loadAndFree({ onProgress: (progress) => seen.push(progress) });
    assert.equal(server.requests.length, before);
    assert.equal(seen.at(-1).fromCacheBytes, seen.at(-1).totalBytes);
    assert.deepEqual(await pteron.cache.list(), [{ url: url(), bytes: file.length, totalBytes: file.length, complete: true }]);
    await pteron.cache.delete(url());
    assert.deepEqual(await pteron.cache.list(), []);
    await loadAndFree();
    assert.ok(server.requests.length > before);
  });
}

test("no storage, too little of it, or storage that fills up: it loads, and says that nothing is kept", async () => {
  const cases = [
    ["none", {}, /keeps no files/],
    ["files", { quota: Infinity, estimate: MiB }, /needs 19\.\d MB of storage and the browser has 1 MB left/],
    ["files", { quota: 10 * MiB, estimate: Infinity }, /full/],
  ];
  for (const [kind, options, sentence] of cases) {
    browser(kind, options);
    const seen = [];
    await loadAndFree({ onProgress: (progress) => seen.push(progress) });
    assert.match(seen.at(-1).notCached, sentence);
  }
});

test("a server without ranges is asked for the model once, whether it is kept or not", async () => {
  server.behaviour.ranges = false;
  for (const kind of ["files", "none"]) {
    for (const odd of [{}, { gzip: true }]) {
      Object.assign(server.behaviour, { gzip: false }, odd);
      browser(kind);
      server.requests.length = 0;
      await loadAndFree();
      assert.equal(server.requests.length, 1, kind);
    }
  }
});

test("after a kill only the missing parts are fetched", async (t) => {
  fastClock(t);
  const { parts } = browser("files");
  const controller = new AbortController();
  const onProgress = ({ loadedBytes }) => loadedBytes > 17 * MiB && controller.abort();
  await assert.rejects(load({ signal: controller.signal, onProgress }), { name: "AbortError" });
  await nothingLeft();
  assert.deepEqual(parts().map(({ name }) => name), [0, 1]);
  const [{ complete, bytes }] = await pteron.cache.list();
  assert.deepEqual({ complete, bytes }, { complete: false, bytes: 16 * MiB });
  server.requests.length = 0;
  const seen = [];
  await loadAndFree({ onProgress: (progress) => seen.push(progress) });
  assert.deepEqual(server.requests.map(({ range }) => range), [`bytes=${16 * MiB}-${file.length - 1}`]);
  assert.equal(server.requests[0].ifRange, '"one"');
  assert.ok(seen.at(-1).fromCacheBytes > 15 * MiB && seen.at(-1).fromCacheBytes < seen.at(-1).totalBytes);
});

test("a part that is not whole does not count", async () => {
  const { parts } = browser("files");
  await loadAndFree();
  const torn = parts().find(({ name }) => name === 1).file;
  torn.content = torn.content.slice(0, 1000);
  server.requests.length = 0;
  await loadAndFree();
  assert.deepEqual(server.requests.map(({ range }) => range), [`bytes=${8 * MiB}-${16 * MiB - 1}`]);
});

test("a part that goes while it is being loaded is fetched", async (t) => {
  fastClock(t);
  const { parts } = browser("files");
  await loadAndFree();
  server.requests.length = 0;
  const onProgress = ({ phase }) => {
    if (phase === "cache") parts().find(({ name }) => name === 2).file.content = new Blob(["torn"]);
  };
  await loadAndFree({ onProgress });
  assert.deepEqual(server.requests.map(({ range }) => range), [`bytes=${16 * MiB}-${file.length - 1}`]);
});

test("the GPU is waited for now and then", async () => {
  browser("none");
  await loadAndFree({}, makeFile([70 * MiB]));
  assert.equal(fake.waits, 3);
});

test("an abort in the last moment frees what was made", async () => {
  browser("none");
  const controller = new AbortController();
  fake.onFinish = () => controller.abort();
  await assert.rejects(load({ signal: controller.signal }), { name: "AbortError" });
  await nothingLeft();
});

test("a file that changed between visits is fetched anew where that is accepted, and not mixed", async () => {
  const { parts } = browser("files");
  await loadAndFree();
  parts().find(({ name }) => name === 1).file.content = new Blob([]);
  files.set("/model.pte", makeFile([...LENGTHS, 77]));
  server.behaviour.etag = '"two"';
  await assert.rejects(load(), isCode("integrity", /model\.pte/, /revalidate: true/));
  await loadAndFree({ revalidate: true });
  const [kept] = await pteron.cache.list();
  assert.equal(kept.totalBytes, files.get("/model.pte").length);
  assert.equal(kept.complete, true);
  parts().find(({ name }) => name === 0).file.content = new Blob([]);
  server.requests.length = 0;
  await loadAndFree();
  assert.equal(server.requests.length, 2, "one request for the tables, one for the part");
});

test("revalidation asks once, and fetches what changed", async () => {
  browser("files");
  await loadAndFree();
  server.requests.length = 0;
  await loadAndFree({ revalidate: true });
  assert.deepEqual(server.requests.map(({ range }) => range), ["bytes=0-0"]);
  files.set("/model.pte", makeFile([300]));
  server.behaviour.etag = '"two"';
  await loadAndFree({ revalidate: true });
  assert.equal((await pteron.cache.list())[0].totalBytes, files.get("/model.pte").length);
});

test("a file that changes during the download is started over", async (t) => {
  fastClock(t);
  browser("files");
  server.behaviour.cut = (number) => (number === 2 ? 9 * MiB : Infinity);
  const changed = makeFile([...LENGTHS.slice(0, 4), 6 * MiB]);
  const onProgress = ({ loadedBytes }) => {
    if (loadedBytes > MiB) {
      files.set("/model.pte", changed);
      server.behaviour.etag = '"two"';
    }
  };
  await loadAndFree({ onProgress });
  const [kept] = await pteron.cache.list();
  assert.deepEqual(kept, { url: url(), bytes: changed.length, totalBytes: changed.length, complete: true });
});

test("two tabs: one keeps, the other streams", async () => {
  const { locks, disk } = browser("files");
  const folder = Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url()))).toString("hex");
  locks.held.add(`pteron:${folder}`);
  const seen = [];
  await loadAndFree({ onProgress: (progress) => seen.push(progress) });
  assert.match(seen.at(-1).notCached, /another tab/);
  assert.equal(disk.writes, 0);
  locks.held.clear();
  await loadAndFree();
  assert.ok(disk.writes > 3);
  assert.equal(locks.held.size, 0, "the lock is given back");
});

test("damage in the cache is fetched again and replaced", async () => {
  const { parts } = browser("files");
  await loadAndFree();
  const part = parts().find(({ name }) => name === 2);
  const bytes = new Uint8Array(await part.file.content.arrayBuffer());
  bytes[1000] ^= 1;
  part.file.content = new Blob([bytes]);
  server.requests.length = 0;
  const phases = new Set();
  await loadAndFree({ onProgress: ({ phase }) => phases.add(phase) });
  assert.ok(phases.has("repair"));
  assert.ok(server.requests.length > 0);
  server.requests.length = 0;
  await loadAndFree();
  assert.equal(server.requests.length, 0, "the good bytes were kept");
});

test("damage on the way is fetched again; damage at the source ends it", async () => {
  for (const kind of ["files", "none"]) {
    browser(kind);
    const bad = file.slice();
    bad[7 * MiB] ^= 1;
    files.set("/model.pte", bad);
    const mend = ({ phase }) => phase === "repair" && files.set("/model.pte", file);
    await loadAndFree({ onProgress: mend });
    browser(kind);
    files.set("/model.pte", bad);
    await assert.rejects(load(), isCode("damaged", /model\.pte/, /bytes \d+ to \d+/, /[0-9a-f]{64}/, /2 more times/));
    await nothingLeft();
  }
  const bad = file.slice();
  bad[7 * MiB] ^= 1;
  await assert.rejects(load({}, bad), isCode("damaged", /the file is damaged/));
  await nothingLeft();
});

test("damaged tables in the cache are fetched again; a file that is no program is refused", async () => {
  const { parts } = browser("files");
  await loadAndFree();
  parts().find(({ name }) => name === 0).file.content = new Blob([new Uint8Array(8 * MiB)]);
  await loadAndFree();
  files.set("/other.pte", new Uint8Array(100));
  await assert.rejects(load({}, url("/other.pte")), isCode("bad-file", /other\.pte: this is not a program/));
  await nothingLeft();
});

test("progress begins, ends and never goes back", async () => {
  browser("files");
  const seen = [];
  await loadAndFree({ onProgress: (progress) => seen.push(progress) });
  assert.equal(seen[0].phase, "check");
  assert.equal(seen.at(-1).phase, "ready");
  assert.equal(seen.at(-1).loadedBytes, seen.at(-1).totalBytes);
  assert.ok(seen.at(-1).totalBytes >= LENGTHS.reduce((sum, length) => sum + length));
  for (let i = 1; i < seen.length; i++) assert.ok(seen[i].loadedBytes >= seen[i - 1].loadedBytes);
  const download = seen.find(({ phase }) => phase === "download");
  assert.ok(download && seen.at(-1).bytesPerSecond > 0);
});

test("an abort after any event rejects with the reason and leaves nothing behind", async (t) => {
  fastClock(t);
  let aborted = 0;
  let loaded = false;
  for (let n = 0; !loaded; n += n < 6 ? 1 : 5) {
    const { locks } = browser(n % 2 ? "files" : "none");
    const controller = new AbortController();
    const reason = new Error(`after ${n}`);
    let events = 0;
    if (n === 0) controller.abort(reason);
    const onProgress = () => ++events === n && controller.abort(reason);
    try {
      await loadAndFree({ signal: controller.signal, onProgress });
      loaded = events < n;
    } catch (error) {
      assert.equal(error, reason);
      aborted++;
    }
    await nothingLeft();
    assert.equal(locks.held.size, 0);
  }
  assert.ok(aborted > 5);
});

test("an abort at any moment, by time, leaves nothing behind", async () => {
  files.set("/model.pte", makeFile([2 * MiB, 300]));
  for (let n = 0; n < 90; n += 3) {
    const { locks } = browser("files");
    const controller = new AbortController();
    let ticks = 0;
    const tick = () => (++ticks > n ? controller.abort() : setImmediate(tick));
    tick();
    await load({ signal: controller.signal }).then((model) => model.dispose(), (error) => assert.equal(error.name, "AbortError"));
    await nothingLeft();
    assert.equal(locks.held.size, 0);
  }
});

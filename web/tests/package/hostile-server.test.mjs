// Servers that lie about lengths, never end, or never begin.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, test } from "node:test";

import { browser } from "./fake-browser.mjs";
import { makeFile } from "./fake-engine.mjs";
import { files, isCode, load, loadAndFree, MiB, nothingLeft, pteron, url } from "./harness.mjs";

const FAST = { pauses: [1, 1], through: true };

/** How requests are answered. Tests count in variables of their own: a connection can outlive its test. */
let answer;
const server = createServer((request, response) => answer(request, response));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}`;

after(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

/** Sends bytes for as long as somebody takes them, and counts them in `count.sent`. */
function endless(count, response) {
  response.writeHead(200, { "Content-Type": "application/json" });
  const block = Buffer.alloc(64 << 10, 32);
  const more = () => {
    while (!response.destroyed) {
      count.sent += block.length;
      if (!response.write(block)) return void response.once("drain", more);
    }
  };
  more();
}

test("a small file that does not end is given up at its limit", async () => {
  const count = { sent: 0 };
  answer = (_, response) => endless(count, response);
  const source = new pteron.UrlSource(`${base}/tokenizer.json`, { ...FAST, whole: true, limit: 4 * MiB });
  await assert.rejects(source.size(), isCode("bad-file", /tokenizer\.json has more than the 4\.2 MB/));
  source.close();
  assert.ok(count.sent < 64 * MiB, `${count.sent} bytes were sent`);
});

test("a tokenizer that claims terabytes is refused before it is fetched, and nothing is kept of it", async () => {
  const { root } = browser("files");
  let requests = 0;
  answer = (request, response) => {
    requests += 1;
    response.writeHead(206, { "Content-Type": "application/json", "Content-Range": "bytes 0-3/4000000000000" });
    response.end("abcd");
  };
  const digests = { check: async () => assert.fail("nobody looks at it") };
  await assert.rejects(pteron.readFile(`${base}/tokenizer.json`, url(), {}, digests), isCode("bad-file", /more than the 134 MB/));
  assert.equal(requests, 1);
  const kept = [...root.children.get("pteron").children.values()].flatMap((folder) => [...folder.children.keys()]);
  assert.deepEqual(kept.filter((name) => /^\d+$/.test(name)), []);
});

test("a picked file that is too large to be a tokenizer is refused unread", async () => {
  class Huge extends File {
    get size() {
      return 2 ** 40;
    }
    slice() {
      assert.fail("it was read");
    }
  }
  const digests = { check: async () => {} };
  await assert.rejects(pteron.readFile(new Huge([], "tokenizer.json"), url(), {}, digests), isCode("bad-file", /tokenizer\.json/));
});

test("lengths that are no numbers of bytes are not believed", async () => {
  for (const size of ["99999999999999999999999999", "9007199254740993"]) {
    answer = (request, response) => {
      if (request.method === "HEAD") return response.writeHead(200, { "Content-Length": "4" }).end();
      response.writeHead(206, { "Content-Range": `bytes 0-3/${size}` }).end("abcd");
    };
    const source = new pteron.UrlSource(`${base}/model.pte`, FAST);
    assert.equal(await source.size(), 4, size);
    source.close();
  }
});

test("a server that never answers is given up, and an abort does not wait for that", async () => {
  let requests = 0;
  answer = () => requests++;
  const source = new pteron.UrlSource(`${base}/model.pte`, { ...FAST, stall: 300 });
  await assert.rejects(source.size(), isCode("network", /in 3 tries: no answer came for 0\.3 seconds/));
  assert.ok(requests <= 3);
  const controller = new AbortController();
  const reason = new Error("enough");
  const slow = new pteron.UrlSource(`${base}/model.pte`, { ...FAST, stall: 1e6 });
  const waiting = slow.size(controller.signal);
  setTimeout(() => controller.abort(reason), 20);
  await assert.rejects(waiting, (error) => error === reason);
});

test("an abort ends an answer that has begun", async () => {
  answer = (_, response) => response.writeHead(200, { "Content-Length": "1000" }).write("a");
  const controller = new AbortController();
  const reason = new Error("enough");
  const source = new pteron.UrlSource(`${base}/model.pte`, FAST);
  assert.equal(await source.size(controller.signal), 1000);
  const reading = (async () => {
    for await (const _ of source.read(0, 1000, controller.signal));
  })();
  setTimeout(() => controller.abort(reason), 20);
  await assert.rejects(reading, (error) => error === reason);
});

test("a server that sends other bytes than those that were asked for is refused", async () => {
  answer = (_, response) => response.writeHead(206, { "Content-Range": "bytes 7-9/10" }).end("abc");
  const source = new pteron.UrlSource(`${base}/model.pte`, FAST);
  await assert.rejects(source.size(), isCode("network", /asked for bytes from 0 on, the server sent those from 7 on/));
});

test("redirects are followed, or not where that is not wanted", async () => {
  answer = (_, response) => response.writeHead(302, { Location: url() }).end();
  const follow = new pteron.UrlSource(`${base}/model.pte`, FAST);
  assert.equal(await follow.size(), files.get("/model.pte").length);
  const stay = new pteron.UrlSource(`${base}/model.pte`, { ...FAST, redirect: "error" });
  await assert.rejects(stay.size(), isCode("network", /could not be fetched/));
});

test("a disk that is full at any write costs what is kept, not the load, and the next load keeps it", async () => {
  files.set("/model.pte", makeFile([9 * MiB, 300], { languageModel: true }));
  files.set("/tokenizer.json", new TextEncoder().encode("tokens"));
  const { disk } = browser("files");
  await loadAndFree();
  const all = disk.used;
  assert.ok(all > 9 * MiB);
  for (const quota of [0, 50, 200, 1000, 8 * MiB, 8 * MiB + 500, all - 1]) {
    const { disk, locks } = browser("files", { quota, estimate: 1e12 });
    await loadAndFree();
    assert.ok(disk.used <= quota);
    disk.quota = Infinity;
    await loadAndFree();
    await loadAndFree();
    assert.equal((await pteron.cache.list())[0].complete, true, `after ${quota} bytes`);
    assert.equal(locks.held.size, 0);
  }
  await nothingLeft();
});

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { files, isCode, MiB, pteron, server, url } from "./harness.mjs";

const FAST = { pauses: [1, 1], through: true };

/** The first bytes of a long row without a short period. */
function content(length, seed = 0) {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = i * 13 + (i >> 8) + seed;
  return bytes;
}

beforeEach(() => {
  files.set("/model.pte", content(3 * MiB));
  delete server.behaviour.etag;
});

async function collect(source, start, end, ...more) {
  const bytes = new Uint8Array(end - start);
  let at = start;
  for await (const chunk of source.read(start, end, ...more)) {
    assert.equal(chunk.start, at, "chunks follow one another");
    assert.ok(chunk.bytes.length <= MiB);
    bytes.set(chunk.bytes, at - start);
    at += chunk.bytes.length;
  }
  assert.equal(at, end);
  return bytes;
}

test("bytes, blobs and files are read alike", async () => {
  const bytes = content(2 * MiB + 5);
  for (const local of [bytes, bytes.buffer, new Blob([bytes]), new File([bytes], "mine.pte")]) {
    const source = new pteron.LocalSource(local);
    assert.equal(await source.size(), bytes.length);
    assert.deepEqual(await collect(source, 7, bytes.length), bytes.slice(7));
  }
  assert.equal(new pteron.LocalSource(new File([], "mine.pte")).name, "mine.pte");
});

test("an invalid source is rejected with a sentence", async () => {
  for (const odd of [2 ** 31, NaN, null, undefined, {}, [], true, 10n, new Uint32Array(1), () => {}]) {
    assert.throws(() => new pteron.LocalSource(odd), isCode("input", /a source is an address/));
    await assert.rejects(pteron.Model.load(odd), isCode("input", /a source is an address/));
  }
});

test("a server with ranges is asked for ranges, and for the first bytes once", async () => {
  const source = new pteron.UrlSource(url(), FAST);
  assert.equal(await source.size(), 3 * MiB);
  assert.deepEqual(await collect(source, 100, 2000), content(3 * MiB).slice(100, 2000));
  assert.equal(server.requests.length, 1, "the tables came with the first answer");
  source.ascending();
  assert.deepEqual(await collect(source, 0, 3 * MiB), content(3 * MiB));
  assert.deepEqual(server.requests.map(({ range }) => range), ["bytes=0-262143", `bytes=262144-${3 * MiB - 1}`]);
});

test("once a file is read for good, bytes that were read go", async () => {
  const source = new pteron.UrlSource(url(), FAST);
  await source.size();
  source.ascending();
  await collect(source, 0, MiB);
  await collect(source, 0, 10);
  assert.equal(server.requests.length, 3);
});

test("where another origin hides the range's header, the length is asked for", async () => {
  server.behaviour.hidden = true;
  const source = new pteron.UrlSource(url(), FAST);
  assert.equal(await source.size(), 3 * MiB);
  source.ascending();
  assert.deepEqual(await collect(source, 0, 3 * MiB), content(3 * MiB));
  assert.deepEqual(server.requests.map(({ method }) => method), ["GET", "HEAD", "GET"]);
});

test("a server without ranges is asked once, and the head comes from the same stream", async () => {
  server.behaviour.ranges = false;
  const source = new pteron.UrlSource(url(), FAST);
  assert.equal(await source.size(), 3 * MiB);
  assert.deepEqual(await collect(source, 0, 8), content(8));
  assert.deepEqual(await collect(source, 2 * MiB, 2 * MiB + 9), content(3 * MiB).slice(2 * MiB, 2 * MiB + 9));
  assert.deepEqual(await collect(source, 8, 500), content(500).slice(8), "what was passed over is still there");
  source.ascending();
  assert.deepEqual(await collect(source, 500, 2 * MiB), content(3 * MiB).slice(500, 2 * MiB));
  assert.deepEqual(await collect(source, 2 * MiB + 9, 3 * MiB), content(3 * MiB).slice(2 * MiB + 9));
  assert.equal(server.requests.length, 1);
});

test("without leave to download, a server without ranges is not read through", async () => {
  files.set("/model.pte", content(8 * MiB));
  server.behaviour.ranges = false;
  const source = new pteron.UrlSource(url(), { pauses: [] });
  await source.size();
  await assert.rejects(collect(source, 7 * MiB, 7 * MiB + 1), isCode("network", /cannot send parts/));
  source.close();
});

test("an answer that breaks off is gone on with from there", async () => {
  server.behaviour.etag = '"one"';
  server.behaviour.cut = (number) => (number <= 3 ? 400_000 : Infinity);
  const source = new pteron.UrlSource(url(), FAST);
  await source.size();
  assert.deepEqual(await collect(source, 0, 3 * MiB), content(3 * MiB));
  assert.equal(server.requests.length, 4, "the first was shorter than the cut");
  assert.equal(server.requests[3].range, `bytes=${262144 + 800_000}-${3 * MiB - 1}`);
  assert.equal(server.requests[3].ifRange, '"one"');
});

test("a stream of a server without ranges that breaks off is read again, past what is here", async () => {
  server.behaviour.ranges = false;
  server.behaviour.cut = (number) => (number === 1 ? 400_000 : Infinity);
  const source = new pteron.UrlSource(url(), FAST);
  await source.size();
  assert.deepEqual(await collect(source, 0, 3 * MiB), content(3 * MiB));
  assert.equal(server.requests.length, 2);
});

test("a file that changed is never mixed with what was read before", async () => {
  for (const ranges of [true, false]) {
    server.requests.length = 0;
    Object.assign(server.behaviour, { ranges, etag: '"one"', cut: (number) => (number <= 2 ? 300_000 : Infinity) });
    const source = new pteron.UrlSource(url(), FAST);
    await source.size();
    const reading = source.read(0, 3 * MiB)[Symbol.asyncIterator]();
    await reading.next();
    server.behaviour.etag = '"two"';
    const rest = async () => {
      while (!(await reading.next()).done);
    };
    await assert.rejects(rest(), isCode("network", /changed on the server/));
  }
});

test("a file that got shorter has changed", async () => {
  server.behaviour.cut = (number) => (number === 2 ? 100_000 : Infinity);
  const source = new pteron.UrlSource(url(), FAST);
  await source.size();
  const reading = collect(source, 2 * MiB, 3 * MiB);
  files.set("/model.pte", content(MiB));
  await assert.rejects(reading, isCode("network", /changed/));
});

test("after some tries it gives up and says how far it came", async () => {
  server.behaviour.cut = (number) => (number <= 2 ? 300_000 : 0);
  const source = new pteron.UrlSource(url(), FAST);
  await source.size();
  await assert.rejects(collect(source, 0, 3 * MiB), isCode("truncated", /model\.pte/, /562144 of 3145728 bytes/, /3 tries/));
});

test("a server that is busy is asked again, one that is gone is named", async () => {
  server.behaviour.status = (number) => (number === 1 ? 503 : undefined);
  assert.equal(await new pteron.UrlSource(url(), FAST).size(), 3 * MiB);
  server.behaviour.status = () => 500;
  await assert.rejects(new pteron.UrlSource(url(), FAST).size(), isCode("network", /500/, /3 tries/));
  server.behaviour.status = () => 403;
  server.requests.length = 0;
  await assert.rejects(new pteron.UrlSource(url(), FAST).size(), isCode("network", /403/));
  assert.equal(server.requests.length, 1, "a refusal is final");
  await assert.rejects(new pteron.UrlSource("http://127.0.0.1:1/x", FAST).size(), isCode("network", /127\.0\.0\.1:1/));
});

test("a missing file and a web page are rejected as models", async () => {
  await assert.rejects(new pteron.UrlSource(url("/nothing.pte"), FAST).size(), isCode("no-such-file", /nothing\.pte/, /404/));
  server.behaviour.type = "text/html; charset=utf-8";
  await assert.rejects(new pteron.UrlSource(url(), FAST).size(), isCode("no-such-file", /web page/));
  server.behaviour.type = undefined;
  files.set("/model.pte", new Uint8Array(0));
  await assert.rejects(new pteron.UrlSource(url(), FAST).size(), isCode("truncated", /empty/));
});

test("a compressed transfer, or one without a length, is measured by reading it", async () => {
  for (const odd of [{ gzip: true }, { silent: true }]) {
    server.requests.length = 0;
    Object.assign(server.behaviour, { ranges: false, gzip: false, silent: false }, odd);
    const source = new pteron.UrlSource(url(), FAST);
    assert.equal(await source.size(), 3 * MiB);
    source.ascending();
    assert.deepEqual(await collect(source, 0, 3 * MiB), content(3 * MiB));
    assert.equal(server.requests.length, 1);
    await assert.rejects(new pteron.UrlSource(url(), { pauses: [] }).size(), isCode("network", /only a download can tell/));
  }
});

test("a second look goes past what came by before", async () => {
  const source = new pteron.UrlSource(url(), FAST);
  await source.size();
  files.set("/model.pte", content(3 * MiB, 1));
  assert.deepEqual(await collect(source, 0, 100, undefined, true), content(100, 1));
  assert.match(server.requests[1].headers["cache-control"] ?? server.requests[1].headers.pragma, /no-cache/);
});

test("an abort at any time ends with the signal's reason", async () => {
  server.behaviour.cut = (number) => (number === 2 ? 300_000 : Infinity);
  for (let after = 0; after < 4; after++) {
    server.requests.length = 0;
    const controller = new AbortController();
    const reason = new Error(`enough ${after}`);
    const source = new pteron.UrlSource(url(), { pauses: [50] });
    const reading = (async () => {
      if (after === 0) controller.abort(reason);
      await source.size(controller.signal);
      let chunks = 1;
      for await (const _ of source.read(0, 3 * MiB, controller.signal)) if (chunks++ === after) controller.abort(reason);
    })();
    await assert.rejects(reading, (error) => error === reason, `after ${after}`);
  }
});

test("an abort ends a pause", async () => {
  server.behaviour.status = () => 503;
  const reason = new Error("enough");
  const controller = new AbortController();
  setTimeout(() => controller.abort(reason), 30);
  const started = performance.now();
  await assert.rejects(new pteron.UrlSource(url(), { pauses: [60_000] }).size(controller.signal), (error) => error === reason);
  assert.ok(performance.now() - started < 5000);
});

test("headers go along", async () => {
  await new pteron.UrlSource(url(), { ...FAST, headers: { Authorization: "Bearer x" } }).size();
  assert.equal(server.requests.at(-1).headers.authorization, "Bearer x");
});

test("an answer that falls silent is gone on with from there", async () => {
  server.behaviour.stall = (number) => (number === 2 ? 500_000 : Infinity);
  const source = new pteron.UrlSource(url(), { ...FAST, stall: 3000 });
  await source.size();
  assert.deepEqual(await collect(source, 0, 3 * MiB), content(3 * MiB));
  assert.equal(server.requests.length, 3);
  assert.equal(server.requests[2].range, `bytes=${262144 + 500_000}-${3 * MiB - 1}`);
});

/** Lets another origin answer: its transfer is compressed, and only the length of that is to be seen. */
function hiddenCompression(t, bytes, announced) {
  const real = globalThis.fetch;
  t.after(() => (globalThis.fetch = real));
  globalThis.fetch = async () => {
    const response = new Response(bytes, { headers: { "Content-Length": String(announced) } });
    return Object.defineProperty(response, "type", { value: "cors" });
  };
}

test("the length of a file that is asked for whole is never believed", async (t) => {
  hiddenCompression(t, content(5000), 1200);
  const source = new pteron.UrlSource(url("/tokenizer.json"), { ...FAST, whole: true });
  assert.equal(await source.size(), 5000);
  source.ascending();
  assert.deepEqual(await collect(source, 0, 5000), content(5000));
});

test("a stream that is longer than was announced is an error, before its last bytes are handed on", async (t) => {
  hiddenCompression(t, content(2 * MiB + 1), 2 * MiB);
  const source = new pteron.UrlSource(url(), FAST);
  const size = await source.size();
  assert.equal(size, 2 * MiB);
  source.ascending();
  let got = 0;
  const reading = async () => {
    for await (const { bytes } of source.read(0, size)) got += bytes.length;
  };
  await assert.rejects(reading(), isCode("network", /announced 2097152 bytes and sends more/));
  assert.ok(got < size, `${got} bytes were handed on`);
});

test("a length that another origin gives by itself is checked", async (t) => {
  const real = globalThis.fetch;
  t.after(() => (globalThis.fetch = real));
  server.behaviour.hidden = true;
  let announced = 3 * MiB;
  globalThis.fetch = async (address, init) => {
    const response = await real(address, init);
    if (init.method !== "HEAD") return response;
    const head = new Response(null, { headers: { "Content-Length": String(announced) } });
    return Object.defineProperty(head, "type", { value: "cors" });
  };
  assert.equal(await new pteron.UrlSource(url(), FAST).size(), 3 * MiB);
  announced = MiB;
  await assert.rejects(new pteron.UrlSource(url(), FAST).size(), isCode("network", /announced 1048576 bytes and sends more/));
});

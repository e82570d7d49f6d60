// A static server on loopback for tests: it counts what is asked for, and misbehaves where a test tells it to.
//
//   const server = await startServer({ '/': 'web/dist', '/model/': 'models/demo' });
//   server.fault('/model/model.pte', { bytesPerSecond: 100_000 });
//   server.counts('/model/model.pte')   // { requests, bytes, ranges }

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

const NOTHING = Object.freeze({ requests: 0, bytes: 0, ranges: [] });

/**
 * A fault of the server, for one path:
 * @typedef {object} ServerFault
 * @property {number} [status]          answers with this status and no file
 * @property {string} [location]        with a status of 302: where it sends the request on to
 * @property {number} [delay]           waits this many milliseconds before it answers
 * @property {number} [bytesPerSecond]  sends no faster
 * @property {number} [slowFrom]        but only from this offset of the file on
 * @property {number} [endAt]           breaks the connection at this offset of the file
 * @property {number} [flipAt]          inverts the byte at this offset of the file
 * @property {boolean} [noRanges]       sends the whole file whatever range is asked for
 * @property {boolean} [noLength]       does not say how long the file is
 * @property {number} [times]           is healed after it has happened this often
 */

/** Serves folders or texts by prefix; the longest prefix that fits wins. */
export async function startServer(mounts) {
  const faults = new Map();
  const seen = new Map();
  const server = createServer((request, response) => {
    respond({ mounts, faults, seen }, request, response).catch((error) => {
      // A client that went away is what some tests are about.
      if (!response.headersSent) response.writeHead(500).end(String(error));
      else response.destroy();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** One fault after the other: the next begins when the one before is healed. */
    fault: (path, ...following) => faults.set(path, following.map((fault) => ({ ...fault }))),
    heal: (path) => (path === undefined ? faults.clear() : faults.delete(path)),
    counts: (path) => seen.get(path) ?? NOTHING,
    /** Every path that was asked for. */
    asked: () => [...seen.keys()],
    forget: () => seen.clear(),
    close: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}

async function respond({ mounts, faults, seen }, request, response) {
  const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
  const count = seen.get(path) ?? { requests: 0, bytes: 0, ranges: [] };
  seen.set(path, count);
  count.requests += 1;
  const fault = faults.get(path)?.[0] ?? {};
  if (fault.delay) await sleep(fault.delay);
  const found = await find(mounts, path);
  if (fault.status || !found) {
    takeOne(faults, path, fault.status !== undefined);
    return void response.writeHead(fault.status ?? 404, { 'content-type': 'text/plain', ...(fault.location && { location: fault.location }) }).end('not here');
  }
  const range = fault.noRanges ? null : parseRange(request.headers.range, found.size);
  if (range === 'outside') {
    return void response.writeHead(416, { 'content-range': `bytes */${found.size}` }).end();
  }
  const unchanged = !request.headers['if-range'] || request.headers['if-range'] === found.etag;
  const [start, end] = range && unchanged ? range : [0, found.size];
  count.ranges.push([start, end]);
  response.writeHead(range && unchanged ? 206 : 200, headersOf(found, fault, start, end, range && unchanged));
  if (request.method === 'HEAD') return void response.end();
  await send(found, fault, { start, end, count, response, faults, path });
}

/** The file or text of a path. */
async function find(mounts, path) {
  const prefix = Object.keys(mounts).filter((prefix) => path.startsWith(prefix)).sort((a, b) => b.length - a.length)[0];
  if (prefix === undefined) return null;
  const mount = mounts[prefix];
  if (typeof mount === 'object') {
    const size = Buffer.byteLength(mount.text);
    const etag = `"${createHash('sha256').update(mount.text).digest('hex').slice(0, 16)}"`;
    return { size, etag, type: mount.type, open: (start, end) => Readable.from([Buffer.from(mount.text).subarray(start, end)]) };
  }
  const rest = normalize(path.slice(prefix.length) || 'index.html');
  if (rest.split(sep).includes('..')) return null;
  const file = join(mount, rest.endsWith(sep) ? `${rest}index.html` : rest);
  const facts = await stat(file).catch(() => null);
  if (!facts?.isFile()) return null;
  return {
    size: facts.size,
    etag: `"${facts.size.toString(16)}-${Math.floor(facts.mtimeMs).toString(16)}"`,
    type: TYPES[extname(file)] ?? 'application/octet-stream',
    open: (start, end) => (end > start ? createReadStream(file, { start, end: end - 1 }) : Readable.from([])),
  };
}

/** One range of bytes, `[start, end)`; null where none is asked for or it is a form that may be ignored. */
function parseRange(header, size) {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return null;
  const start = match[1] === '' ? Math.max(0, size - Number(match[2])) : Number(match[1]);
  const end = match[1] === '' || match[2] === '' ? size : Math.min(size, Number(match[2]) + 1);
  return start < end ? [start, end] : 'outside';
}

function headersOf(found, fault, start, end, partial) {
  const headers = { 'content-type': found.type, etag: found.etag, 'cache-control': 'no-store' };
  if (!fault.noRanges) headers['accept-ranges'] = 'bytes';
  if (!fault.noLength) headers['content-length'] = end - start;
  if (partial) headers['content-range'] = `bytes ${start}-${end - 1}/${found.size}`;
  return headers;
}

async function send(found, fault, { start, end, count, response, faults, path }) {
  let at = start;
  const disturb = new Transform({
    async transform(chunk, _encoding, done) {
      if (fault.flipAt >= at && fault.flipAt < at + chunk.length) {
        chunk = Buffer.from(chunk);
        chunk[fault.flipAt - at] ^= 0xff;
        takeOne(faults, path, true);
      }
      for (const piece of pieces(chunk, fault)) {
        const room = Math.min(piece.length, Math.max(0, (fault.endAt ?? Infinity) - at));
        at += room;
        count.bytes += room;
        this.push(piece.subarray(0, room));
        if (room < piece.length) {
          takeOne(faults, path, true);
          // What was sent reaches the other side before the connection breaks.
          await sleep(50);
          return void response.destroy();
        }
        if (fault.bytesPerSecond && at > (fault.slowFrom ?? 0)) await sleep((room / fault.bytesPerSecond) * 1000);
        if (response.destroyed) return void done(new Error('the client went away'));
      }
      done();
    },
  });
  await pipeline(found.open(start, end), disturb, response);
}

/** Slow bodies come in many small pieces, others as they were read. */
function pieces(chunk, { bytesPerSecond }) {
  if (!bytesPerSecond) return [chunk];
  const length = Math.max(1, Math.floor(bytesPerSecond / 20));
  return Array.from({ length: Math.ceil(chunk.length / length) }, (_, i) => chunk.subarray(i * length, (i + 1) * length));
}

/** Counts a fault that has happened, and heals it when that was the last time. */
function takeOne(faults, path, happened) {
  const [fault, ...following] = faults.get(path) ?? [];
  if (!happened || fault?.times === undefined) return;
  fault.times -= 1;
  if (fault.times <= 0) faults.set(path, following);
}

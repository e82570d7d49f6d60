// A server of files that can be told to misbehave.

import { createServer } from "node:http";
import { gzipSync } from "node:zlib";

/**
 * Serves `files` (a map from path to bytes). `behaviour` may be changed at any time:
 * ranges (false: always sends the whole), etag, cut (bytes after which an answer breaks off; a function of the number of the
 * request), stall (bytes after which nothing more comes, in the same way), gzip, status (a function of the request), type,
 * silent (no Content-Length), hidden (no Content-Range).
 */
export async function serve(files) {
  const behaviour = {};
  const requests = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const { method, headers } = request;
    requests.push({ path: pathname, method, headers, range: headers.range, ifRange: headers["if-range"] });
    respond(files.get(pathname), behaviour, request, response, requests.length);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { base, behaviour, requests, close, count: (path) => requests.filter((request) => request.path === path).length };
}

function respond(file, behaviour, request, response, number) {
  const status = behaviour.status?.(number, request);
  if (status || !file) {
    response.writeHead(status ?? 404, { "Content-Type": "text/html" });
    return response.end("<html>not here</html>");
  }
  const headers = { "Content-Type": behaviour.type ?? "application/octet-stream" };
  if (behaviour.etag) headers["ETag"] = behaviour.etag;
  const range = behaviour.ranges !== false && /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  const stale = request.headers["if-range"] && request.headers["if-range"] !== behaviour.etag;
  if (range && !stale) {
    const [start, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, file.length)];
    if (start >= file.length) return response.writeHead(416, { "Content-Range": `bytes */${file.length}` }).end();
    if (!behaviour.hidden) headers["Content-Range"] = `bytes ${start}-${end - 1}/${file.length}`;
    return send(file.subarray(start, end), 206, headers, behaviour, response, number);
  }
  if (behaviour.gzip) {
    headers["Content-Encoding"] = "gzip";
    return send(gzipSync(file), 200, headers, behaviour, response, number);
  }
  return send(file, 200, headers, behaviour, response, number);
}

function send(body, status, headers, behaviour, response, number) {
  if (!behaviour.silent) headers["Content-Length"] = body.length;
  response.writeHead(status, headers);
  const stall = behaviour.stall?.(number) ?? Infinity;
  if (stall < body.length) return response.write(body.subarray(0, stall));
  const cut = behaviour.cut?.(number) ?? Infinity;
  if (cut >= body.length) return response.end(body);
  response.write(body.subarray(0, cut), () => response.socket.end());
}

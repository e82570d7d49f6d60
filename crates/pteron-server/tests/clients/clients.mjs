// Calls `pteron serve` with OpenAI's client for JavaScript: node clients.mjs path/to/node_modules URL
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [modules, baseURL] = process.argv.slice(2);
const { OpenAI } = createRequire(`${resolve(modules)}/`)("openai");
const client = new OpenAI({ baseURL, apiKey: "secret", maxRetries: 0 });
const request = { model: "bundled", messages: [{ role: "user", content: "Ownership is" }], max_tokens: 8, temperature: 0 };

const reply = await client.chat.completions.create(request);
let streamed = "";
for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
  streamed += chunk.choices[0]?.delta.content ?? "";
}
assert.equal(streamed, reply.choices[0].message.content);
assert.notEqual(streamed, "");

// A stream that is left ends its request.
for await (const chunk of await client.chat.completions.create({ ...request, max_tokens: 100, stream: true })) {
  if (chunk.choices[0]?.delta.content) break;
}
await assert.rejects(client.chat.completions.create({ ...request, n: 0 }), (error) => error.status === 400 && error.param === "n");
console.log("openai for JavaScript: chat");

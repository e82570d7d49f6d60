import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./bundle.mjs";

const { parse, inline } = await load("markdown");

const SAMPLE = `# A *title*

Some text with **bold**, *italics*, _more_ and \`code\`.
A second line, snake_case_name and 2 * 3 * 4.

- one
- two **bold**
  goes on
  1. nested
  2. again

- three

~~~python
def f(x):
    return \`x\`
~~~
***both*** and \`\` a \` b \`\`
1) first
2) second
\`\`\`rust
fn main() {`;

/** The text of inline nodes without their marks. */
const plain = (nodes) => nodes.map((node) => node.text ?? plain(node.children)).join("");
const shape = (nodes) => nodes.map((node) => (node.children ? [node.kind, shape(node.children)] : [node.kind, node.text]));
const contents = (text) => parse(text).map((block) => block.content);

function leaves(nodes) {
  return nodes.flatMap((node) => (node.children ? leaves(node.children) : [node]));
}

function leavesOf(content) {
  if (content.kind === "fence") return [content];
  if (content.kind !== "list") return leaves(content.children);
  return content.items.flatMap((item) => [...leaves(item.children), ...(item.nested ? leavesOf(item.nested) : [])]);
}

test("headings have levels, and hashes need a space", () => {
  const [first, second] = contents("### Third ##\n#no heading");
  assert.equal(first.kind, "heading");
  assert.equal(first.level, 3);
  assert.equal(plain(first.children), "Third");
  assert.equal(second.kind, "paragraph");
});

test("paragraphs keep their line breaks and end at blank lines", () => {
  const blocks = contents("a\nb\n\nc");
  assert.deepEqual(blocks.map((block) => plain(block.children)), ["a\nb", "c"]);
});

test("a fence keeps its text as it is, with its language", () => {
  const [fence, after] = contents("```rust\nlet x = **y**;\n\n# not a heading\n```\nafter");
  assert.equal(fence.kind, "fence");
  assert.equal(fence.language, "rust");
  assert.equal(fence.text, "let x = **y**;\n\n# not a heading");
  assert.equal(plain(after.children), "after");
});

test("a fence that is not closed yet is a fence", () => {
  assert.deepEqual(contents("```\na\n  b"), [{ kind: "fence", language: "", text: "a\n  b", at: 4 }]);
  assert.equal(contents("```js")[0].text, "");
});

test("a longer fence holds a shorter one", () => {
  const [fence] = contents("````\n```\n````");
  assert.equal(fence.text, "```");
});

test("lists are nested by indentation and know their first number", () => {
  const [list] = contents("3. a\n4. b\n   - c\n   - d\n5. e");
  assert.equal(list.ordered, true);
  assert.equal(list.start, 3);
  assert.deepEqual(list.items.map((item) => plain(item.children)), ["a", "b", "e"]);
  assert.deepEqual(list.items[1].nested.items.map((item) => plain(item.children)), ["c", "d"]);
  assert.equal(list.items[1].nested.ordered, false);
});

test("blank lines stand between items, other text ends a list", () => {
  const blocks = contents("- a\n\n- b\n\nc");
  assert.deepEqual(blocks.map((block) => block.kind), ["list", "paragraph"]);
  assert.equal(blocks[0].items.length, 2);
});

test("numbered and plain lists do not mix", () => {
  assert.deepEqual(contents("- a\n1. b").map((list) => list.ordered), [false, true]);
});

test("emphasis and code", () => {
  assert.deepEqual(shape(inline("a **b `c` d** _e_", 0)), [
    ["text", "a "],
    ["strong", [["text", "b "], ["code", "c"], ["text", " d"]]],
    ["text", " "],
    ["em", [["text", "e"]]],
  ]);
  assert.deepEqual(shape(inline("***x***", 0)), [["strong", [["em", [["text", "x"]]]]]]);
  assert.deepEqual(shape(inline("**a *b***", 0)), [["strong", [["text", "a "], ["em", [["text", "b"]]]]]]);
});

test("marks without a partner, between spaces or inside names are text", () => {
  for (const text of ["**bold", "2 * 3 * 4", "snake_case_name", "a `b", "* ", "**", "****", "_", "a_b_"]) {
    assert.equal(plain(inline(text, 0)), text);
    assert.ok(inline(text, 0).every((node) => node.kind === "text"), text);
  }
});

test("code spans win over emphasis, and may hold backticks", () => {
  assert.deepEqual(shape(inline("`*a*`", 0)), [["code", "*a*"]]);
  assert.deepEqual(shape(inline("*a `*` b*", 0)), [["em", [["text", "a "], ["code", "*"], ["text", " b"]]]]);
  assert.deepEqual(shape(inline("`` ` ``", 0)), [["code", "`"]]);
});

test("at every moment of writing, every leaf is where it says it is", () => {
  for (let length = 0; length <= SAMPLE.length; length += 1) {
    const written = SAMPLE.slice(0, length);
    for (const block of parse(written)) {
      assert.ok(block.from >= 0 && block.from < block.to && block.to <= length);
      for (const { text, at } of leavesOf(block.content)) assert.equal(written.slice(at, at + text.length), text);
    }
  }
});

test("no letter is lost", () => {
  const letters = (text) => text.replace(/[^a-zA-Z0-9]/g, "");
  const kept = parse(SAMPLE).flatMap(({ content }) => leavesOf(content).map(({ text }) => text)).join("");
  const dropped = [/~~~python/, /```rust/, /(?<=^|\n)\s*\d[.)]/g];
  assert.equal(letters(kept), letters(dropped.reduce((text, pattern) => text.replace(pattern, ""), SAMPLE)));
});

test("a heading keeps a hash that belongs to its last word", () => {
  assert.deepEqual(contents("# C#\n## Title ##  \n#  ").map((block) => plain(block.children)), ["C#", "Title", ""]);
});

/** The best of some tries: what else the machine does is not the reader's fault. */
function milliseconds(text) {
  const tries = Array.from({ length: 5 }, () => {
    const begin = performance.now();
    parse(text);
    return performance.now() - begin;
  });
  return Math.min(...tries);
}

test("five thousand spaces or marks take some milliseconds", () => {
  const many = (text) => text.repeat(5000);
  const texts = [
    `# ${many(" ")}x`, `# a${many(" ")}x`, `# a${many("#")}x`, `# a${many(" #")}x`, `\`\`\`${many(" ")}\``, `~~~${many(" ")}a${many(" ")}\``, `~~~\n~~~${many(" ")}x`,
    many("*a "), many("**a "), many(" _a"), many("*a _b "), many("*"), many("_"), many("`"), many("*a *b* "), `- a\n${many("\n")}b`, `- a\n${many("\n")}- b`, `-${many(" ")}`, many(" "),
    Array.from({ length: 100 }, (_, i) => `${"`".repeat(i + 1)} *a`).join(" "),
  ];
  for (const text of texts) {
    const time = milliseconds(text);
    // A reader that goes over such a text again and again takes minutes; a busy machine does not make this one take seconds.
    assert.ok(time < 2000, `${time.toFixed(1)} ms for ${JSON.stringify(text.slice(0, 12))}`);
  }
});

test("text that is nothing but marks is read in reasonable time", () => {
  for (const text of ["*a ".repeat(4000), "_".repeat(12_000), "`a ".repeat(4000), "**a *b ".repeat(2000), "- ".repeat(6000), "> #".repeat(4000)]) {
    const begin = performance.now();
    parse(text);
    assert.ok(performance.now() - begin < 2000, text.slice(0, 12));
  }
});

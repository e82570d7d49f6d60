// Text that no person writes and a model may: a megabyte of each construct is read and shown in linear time, with bounded nesting.

import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./bundle.mjs";

/** As much of a document as the renderer uses, with calls that take no more arguments than a browser's. */
class FakeNode {
  children = [];
  attributes = {};

  constructor(tag, text = "") {
    this.tag = tag;
    this.text = text;
    Object.preventExtensions(this);
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  append(...nodes) {
    assert.ok(nodes.length < 1000, "one call gets all nodes as arguments");
    for (const node of nodes) this.children.push(typeof node === "string" ? new FakeNode("#text", node) : node);
  }
  removeChild(node) {
    this.children.splice(this.children.lastIndexOf(node), 1);
  }
}

globalThis.Node = FakeNode;
globalThis.document = { createElement: (tag) => new FakeNode(tag), createTextNode: (text) => new FakeNode("#text", text) };

const { parse, MAX_DEPTH } = await load("markdown");
const { MAX_EMPHASIS } = await load("inline");
const { IncrementalMarkdown } = await load("incremental");
const { Prose } = await load("prose");

const MB = 1 << 20;
const fill = (unit) => unit.repeat(Math.ceil(MB / unit.length));
const rows = (count, line) => Array.from({ length: count }, (_, i) => line(i)).join("\n");

/** A megabyte of each. */
const TEXTS = {
  "a list": fill("- a\n"),
  "a numbered list": fill("1. a\n"),
  "lists of both kinds in turn": fill("- a\n1. b\n"),
  "nested lists of both kinds in turn": `- a\n${fill("  - b\n  1. c\n")}`,
  "items with a second line": fill("- a\n  b\n"),
  "an item with many lines": `- a\n${fill("  b\n")}`,
  "an item with many marks": `- a\n  ${fill("*b* ")}`,
  "lists in lists": rows(1000, (i) => `${" ".repeat(2 * i)}- a`),
  "lists in lists, again and again": fill(`${rows(100, (i) => `${" ".repeat(2 * i)}- a`)}\n`),
  "a list and blank lines": `${rows(300, (i) => `${" ".repeat(2 * i)}- a`)}${fill("\n")}b`,
  "a list and a long indentation": `${rows(300, (i) => `${" ".repeat(2 * i)}- a`)}\n${fill(" ")}b`,
  "bullets in a line": fill("- "),
  "blank lines": fill("\n"),
  spaces: fill(" "),
  "unicode spaces": fill("\u2003"),
  quotes: fill("> "),
  "quotes in lines": fill("> a\n"),
  hashes: fill("#"),
  headings: fill("# a #\n"),
  "a heading of hashes": `# ${fill(" #")}x`,
  tables: fill("| a | b |\n|---|---|\n"),
  backticks: fill("`"),
  "backticks of all lengths": rows(1400, (i) => "`".repeat(i + 1)).replaceAll("\n", " "),
  "backticks of all lengths in emphasis": rows(1400, (i) => `*a ${"`".repeat(i + 1)}`).replaceAll("\n", " "),
  "single backticks": fill("` "),
  "single and double backticks": fill("` `` "),
  "a fence that is not closed": `\`\`\`\n${fill("a\n")}`,
  fences: fill("```\n"),
  "tilde fences": fill("~~~ ~\n"),
  "a fence with a long language": `~~~${fill("x")}`,
  asterisks: fill("*"),
  underscores: fill("_"),
  "marks that open": fill("*a "),
  "strong marks that open": fill("**a "),
  "underscores that open": fill(" _a"),
  "marks of both kinds that open": fill("*a _b "),
  "marks that close": fill("a* "),
  "marks that open and close": fill("a*"),
  "marks of all widths": fill("*a **b ***c ****d "),
  "marks in marks": `${"*a ".repeat(MB / 6)}${"a* ".repeat(MB / 6)}`,
  "strong in emphasis in strong": `${"**a *b ".repeat(MB / 14)}${"b* a** ".repeat(MB / 14)}`,
  "pairs of marks": fill("*a* "),
  "crossing marks": fill("*a _b* c_ "),
  "marks and backticks": fill("*a `b* "),
  brackets: fill("["),
  "images in links": fill("[![a]("),
  "one word": fill("a"),
  surrogates: fill("😀"),
  "half surrogates": fill("\ud83d"),
  "carriage returns": fill("\r"),
};

/** The leaves of a result in order, and how deep it is. */
function leavesOf(blocks) {
  const leaves = [];
  let deepest = 0;
  let lists = 0;
  const visitInline = (nodes, depth) => {
    deepest = Math.max(deepest, depth);
    for (const node of nodes) node.children ? visitInline(node.children, depth + 1) : leaves.push(node);
  };
  const visitList = (list, depth) => {
    lists = Math.max(lists, depth);
    for (const item of list.items) {
      visitInline(item.children, 0);
      if (item.nested) visitList(item.nested, depth + 1);
    }
  };
  for (const { content } of blocks) {
    if (content.kind === "fence") leaves.push(content);
    else if (content.kind === "list") visitList(content, 1);
    else visitInline(content.children, 0);
  }
  return { leaves, deepest, lists };
}

/** Characters that may mean something, and so may be missing from what is shown. */
const MARKS = /^[\s`~*_#\-+.)\d]*$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** Everything is shown, in order, once: between two leaves there is nothing but marks. */
function assertWhole(source, blocks) {
  const { leaves, deepest, lists } = leavesOf(blocks);
  assert.ok(deepest <= MAX_EMPHASIS, `emphasis is ${deepest} deep`);
  assert.ok(lists <= MAX_DEPTH, `lists are ${lists} deep`);
  let at = 0;
  const gap = (to) => {
    for (const line of source.slice(at, to).split("\n")) assert.ok(MARKS.test(line) || FENCE.test(line), JSON.stringify(line.slice(0, 80)));
  };
  for (const leaf of leaves) {
    assert.ok(leaf.at >= at, "leaves are in the order of the text");
    assert.ok(source.startsWith(leaf.text, leaf.at), "a leaf is where it says it is");
    gap(leaf.at);
    at = leaf.at + leaf.text.length;
  }
  gap(source.length);
}

for (const [name, text] of Object.entries(TEXTS)) {
  // What goes over such a text again and again takes minutes or hours; a busy machine does not make this take a minute.
  test(`a megabyte of ${name} is read whole, and shown`, { timeout: 120_000 }, () => {
    const begin = performance.now();
    assertWhole(text, parse(text));
    const prose = new Prose();
    prose.show(text);
    const milliseconds = performance.now() - begin;
    assert.ok(milliseconds < 60_000, `${milliseconds} ms`);
  });
}

/** Numbers that look random and are the same each time. */
function random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const PIECES = ["*", "**", "***", "_", "__", "`", "``", "```", "~~~", "\n", "\n\n", "\n- ", "\n  - ", "\n    1. ", "\n1) ", "\n# ", "## ", " ", "  ", "a", "bc", "d e", ">", "[x](javascript:alert(1))", "<b>", "|", "\t", "é", "😀", "\r\n"];

function randomText(next) {
  return Array.from({ length: 1 + next(60) }, () => PIECES[next(PIECES.length)]).join("");
}

test("random texts are read whole, also those that are half-written", () => {
  const next = random(1);
  for (let i = 0; i < 5000; i += 1) {
    const text = randomText(next);
    assertWhole(text, parse(text));
  }
});

test("a text that grows is read as if it were new", () => {
  const next = random(2);
  for (let i = 0; i < 500; i += 1) {
    const text = randomText(next);
    const markdown = new IncrementalMarkdown();
    for (let length = 0; length < text.length; length += 1 + next(3)) {
      const part = text.slice(0, length);
      assert.deepEqual(markdown.update(part).blocks, parse(part), JSON.stringify(part));
    }
    const { blocks } = markdown.update(text);
    assert.deepEqual(blocks, parse(text), JSON.stringify(text));
    assert.equal(markdown.update(text).same, blocks.length);
  }
});

for (const [name, unit] of [["paragraphs", "Some words and *marks*.\n\n"], ["one paragraph", "some *words* "], ["one list", "- some words\n"], ["one fence", ["```\n", "some code\n"]]]) {
  test(`showing ${name} while they are written takes work in proportion to their length`, { timeout: 120_000 }, () => {
    const [begin, repeated] = Array.isArray(unit) ? unit : ["", unit];
    const whole = begin + repeated.repeat(60_000 / repeated.length);
    const markdown = new IncrementalMarkdown();
    for (let length = 0; length < whole.length; length += 4) {
      const text = whole.slice(0, length);
      if (markdown.isDue(text)) markdown.update(text);
    }
    // Without a limit one block takes 7,500 times its length, and any number of times in a longer one.
    assert.ok(markdown.work < 1200 * whole.length, `${markdown.work / whole.length} times the length`);
    assert.equal(markdown.update(whole).blocks.at(-1).to, name === "one fence" || name === "one paragraph" ? whole.length : whole.trimEnd().length);
  });
}

const TAGS = new Set(["div", "p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em", "span", "#text"]);
const ATTRIBUTES = new Set(["class", "start", "tabindex", "data-language"]);

test("whatever is written becomes text in a few kinds of elements, with no address and no code", () => {
  const next = random(3);
  const check = ({ tag, attributes, children }) => {
    assert.ok(TAGS.has(tag), tag);
    for (const name of Object.keys(attributes)) assert.ok(ATTRIBUTES.has(name), name);
    assert.ok((attributes["data-language"] ?? "").length <= 32);
    children.forEach(check);
  };
  const hostile = ["[a](javascript:alert(1))", "<a href=javascript:alert(1)>x</a>", "<script>alert(1)</script>", "![a](https://example.org/a.png)", "<https://example.org>", `\`\`\`${"x".repeat(1000)}\n`, '```" onload="alert(1)\na'];
  for (let i = 0; i < 2000; i += 1) {
    const prose = new Prose();
    prose.show(hostile[i] ?? randomText(next));
    check(prose.element);
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./bundle.mjs";

/** As much of a document as the renderer uses; it has no innerHTML, so that writing to it would fail. */
class FakeNode {
  children = [];

  constructor(tag, text = "") {
    this.tag = tag;
    this.text = text;
    Object.preventExtensions(this);
  }
  attributes = {};
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  append(...nodes) {
    this.children.push(...nodes.map((node) => (typeof node === "string" ? new FakeNode("#text", node) : node)));
  }
  removeChild(node) {
    assert.ok(this.children.includes(node));
    this.children.splice(this.children.indexOf(node), 1);
  }
  get outline() {
    if (this.tag === "#text") return this.text;
    const attributes = Object.entries(this.attributes).map(([name, value]) => ` ${name}=${value}`).join("");
    return `<${this.tag}${attributes}>${this.children.map((child) => child.outline).join("")}</>`;
  }
}

globalThis.Node = FakeNode;
globalThis.document = { createElement: (tag) => new FakeNode(tag), createTextNode: (text) => new FakeNode("#text", text) };

const { Prose } = await load("prose");
const outlines = (prose) => prose.element.children.map((child) => child.outline);

test("blocks become elements below the page's own headings", () => {
  const prose = new Prose();
  prose.show("# A\n\nb **c** `d`\n\n2. e\n3. f\n\n```rust\ng\n```");
  assert.deepEqual(outlines(prose), [
    "<h3>A</>",
    "<p>b <strong>c</> <code>d</></>",
    "<ol start=2><li>e</><li>f</></>",
    "<pre tabindex=0 data-language=rust><code>g</></>",
  ]);
});

test("markup in a model's text is text", () => {
  const prose = new Prose();
  prose.show("<img src=x onerror=alert(1)>");
  const [paragraph] = prose.element.children;
  assert.equal(paragraph.children.length, 1);
  assert.equal(paragraph.children[0].tag, "#text");
  assert.equal(paragraph.children[0].text, "<img src=x onerror=alert(1)>");
});

test("unchanged blocks keep their nodes while text is written", () => {
  const prose = new Prose();
  prose.show("first\n\nsec");
  const [first, second] = prose.element.children;
  prose.show("first\n\nsecond");
  assert.equal(prose.element.children[0], first);
  assert.notEqual(prose.element.children[1], second);
  assert.deepEqual(outlines(prose), ["<p>first</>", "<p>second</>"]);
  prose.show("first");
  assert.deepEqual(outlines(prose), ["<p>first</>"]);
});

test("the prompt is marked, across blocks and in the middle of one", () => {
  const given = "One.\n\nTwo **thr";
  const prose = new Prose(given.length);
  prose.show(`${given}ee** four`);
  assert.deepEqual(outlines(prose), [
    "<p><span class=given>One.</></>",
    "<p><span class=given>Two </><strong><span class=given>thr</>ee</> four</>",
  ]);
});

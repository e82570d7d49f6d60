// Shows text with light formatting. Model text becomes text nodes only, never markup.

import { h } from "./dom.js";
import { parse, type Block, type Content, type Inline, type List } from "./markdown.js";

/** An element that follows a growing text: blocks that did not change keep their nodes. */
export class Prose {
  readonly element: HTMLElement;
  #given: number;
  #shown: { key: string; node: Node }[] = [];

  /** The first `given` characters are the prompt's, and are marked as such. */
  constructor(given = 0) {
    this.#given = given;
    this.element = h("div", { class: "prose" });
  }

  show(text: string): void {
    const blocks = parse(text);
    let same = 0;
    const keys = blocks.map((block) => keyOf(text, block));
    while (same < keys.length && this.#shown[same]?.key === keys[same]) same += 1;
    for (const old of this.#shown.splice(same)) this.element.removeChild(old.node);
    for (let index = same; index < blocks.length; index += 1) {
      const node = this.#block(blocks[index]!.content);
      this.element.append(node);
      this.#shown.push({ key: keys[index]!, node });
    }
  }

  #block(content: Content): Node {
    switch (content.kind) {
      case "paragraph":
        return h("p", {}, ...this.#inlines(content.children));
      case "heading":
        // The page's own headings are h1 and h2; those of an answer come below them.
        return h(`h${Math.min(content.level + 2, 6)}` as "h3", {}, ...this.#inlines(content.children));
      case "fence":
        return h("pre", { tabindex: 0, "data-language": content.language || null }, h("code", {}, ...this.#text(content.text, content.at)));
      case "list":
        return this.#list(content);
    }
  }

  #list(list: List): Node {
    const items = list.items.map((item) => h("li", {}, ...this.#inlines(item.children), item.nested && this.#list(item.nested)));
    return list.ordered ? h("ol", { start: list.start }, ...items) : h("ul", {}, ...items);
  }

  #inlines(nodes: Inline[]): Node[] {
    return nodes.flatMap((node) => {
      if (node.kind === "text") return this.#text(node.text, node.at);
      if (node.kind === "code") return [h("code", {}, ...this.#text(node.text, node.at))];
      return [h(node.kind, {}, ...this.#inlines(node.children))];
    });
  }

  #text(text: string, at: number): Node[] {
    const given = Math.max(0, Math.min(text.length, this.#given - at));
    const nodes: Node[] = [];
    if (given > 0) nodes.push(h("span", { class: "given" }, text.slice(0, given)));
    if (given < text.length) nodes.push(document.createTextNode(text.slice(given)));
    return nodes;
  }
}

function keyOf(text: string, { from, to, content }: Block): string {
  return `${from}:${content.kind}:${text.slice(from, to)}`;
}

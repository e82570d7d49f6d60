// Shows text with light formatting. Model text becomes text nodes only, never markup.

import { h } from "./dom.js";
import { IncrementalMarkdown } from "./incremental.js";
import type { Content, Inline, List } from "./markdown.js";

/** An element that shows a growing text: blocks that did not change keep their nodes. */
export class Prose {
  readonly element: HTMLElement;
  #given: number;
  #text = new IncrementalMarkdown();
  #shown: Node[] = [];

  /** The first `given` characters are the prompt and are marked as such. */
  constructor(given = 0) {
    this.#given = given;
    this.element = h("div", { class: "prose" });
  }

  /** Shows a text that is being generated, as often as its length allows. */
  follow(text: string): void {
    if (this.#text.isDue(text)) this.show(text);
  }

  show(text: string): void {
    const { blocks, same } = this.#text.update(text);
    for (const old of this.#shown.splice(same)) this.element.removeChild(old);
    for (let index = same; index < blocks.length; index += 1) {
      const node = this.#block(blocks[index]!.content);
      this.element.append(node);
      this.#shown.push(node);
    }
  }

  #block(content: Content): Node {
    switch (content.kind) {
      case "paragraph":
        return fill(h("p"), this.#inlines(content.children));
      case "heading":
        // The page's own headings are h1 and h2; those of a reply come below them.
        return fill(h(`h${Math.min(content.level + 2, 6)}` as "h3"), this.#inlines(content.children));
      case "fence":
        return h("pre", { tabindex: 0, "data-language": content.language || null }, fill(h("code"), this.#leaf(content.text, content.at)));
      case "list":
        return this.#list(content);
    }
  }

  #list(list: List): Node {
    const items = list.items.map((item) => {
      const element = fill(h("li"), this.#inlines(item.children));
      if (item.nested) element.append(this.#list(item.nested));
      return element;
    });
    return fill(list.ordered ? h("ol", { start: list.start }) : h("ul"), items);
  }

  #inlines(nodes: Inline[]): Node[] {
    return nodes.flatMap((node) => {
      if (node.kind === "text") return this.#leaf(node.text, node.at);
      if (node.kind === "code") return [fill(h("code"), this.#leaf(node.text, node.at))];
      return [fill(h(node.kind), this.#inlines(node.children))];
    });
  }

  #leaf(text: string, at: number): Node[] {
    const given = Math.max(0, Math.min(text.length, this.#given - at));
    const nodes: Node[] = [];
    if (given > 0) nodes.push(h("span", { class: "given" }, text.slice(0, given)));
    if (given < text.length) nodes.push(document.createTextNode(text.slice(given)));
    return nodes;
  }
}

/** Appends nodes one by one: there may be more than a call takes arguments. */
function fill<E extends Element>(element: E, nodes: readonly Node[]): E {
  for (const node of nodes) element.append(node);
  return element;
}

// The page for browsers that cannot run it; its words are in index.html.

import { byId } from "./dom.js";

/** What is not there: a secure context, WebGPU altogether, or an adapter behind it. */
export type Missing = "secure-context" | "webgpu" | "adapter";

export class Unsupported {
  /** It stands in the panel for browsers that do not get as far as this line, and is taken from there. */
  #browsers = byId("browsers", "div");

  content(missing: Missing, reason: string): Node[] {
    const { content } = byId(`no-${missing}`, "template");
    const nodes: Element[] = [...document.importNode(content, true).children];
    for (const place of nodes) if (place.matches("[data-testid=reason]")) place.textContent = reason;
    return missing === "secure-context" ? nodes : [...nodes, this.#browsers];
  }
}

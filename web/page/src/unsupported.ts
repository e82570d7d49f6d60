// The page for browsers that cannot run models; its text is in index.html.

import { byId } from "./dom.js";

/** The missing requirement: a secure context, WebGPU, or an adapter for it. */
export type Missing = "secure-context" | "webgpu" | "adapter";

export class Unsupported {
  /** The panel contains the notice for browsers that do not get as far as this line; it is moved from there. */
  #browsers = byId("browsers", "div");

  content(missing: Missing, reason: string): Node[] {
    const { content } = byId(`no-${missing}`, "template");
    const nodes: Element[] = [...document.importNode(content, true).children];
    for (const place of nodes) if (place.matches("[data-testid=reason]")) place.textContent = reason;
    return missing === "secure-context" ? nodes : [...nodes, this.#browsers];
  }
}

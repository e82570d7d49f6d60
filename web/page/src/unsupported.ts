// The page for browsers that cannot run it; its words are in index.html.

import { byId } from "./dom.js";

/** What is not there: a secure context, WebGPU altogether, or an adapter behind it. */
export type Missing = "secure-context" | "webgpu" | "adapter";

export function unsupported(missing: Missing, reason: string): Node[] {
  const content = [byId(`no-${missing}`, "template"), ...(missing === "secure-context" ? [] : [byId("browsers", "template")])];
  const nodes = content.flatMap((template) => [...document.importNode(template.content, true).children]);
  for (const place of nodes) if (place.matches("[data-testid=reason]")) place.textContent = reason;
  return nodes;
}

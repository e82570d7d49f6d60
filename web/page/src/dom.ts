// DOM helpers used instead of a framework.

type Child = Node | string | null | false | undefined;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: globalThis.Event) => void)>;

/** Creates an element. Functions become listeners (`onclick`), `true` an empty attribute; `null` and `false` leave it out. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  // One by one: there may be more children than a call takes arguments.
  for (const child of children) if (child instanceof Node || typeof child === "string") element.append(child);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** One of the drawings in index.html. It is decoration: buttons carry their own names. */
export function icon(name: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** The element of index.html with this id. */
export function byId<K extends keyof HTMLElementTagNameMap>(id: string, tag: K): HTMLElementTagNameMap[K] {
  const element = document.getElementById(id);
  if (element?.tagName.toLowerCase() !== tag) throw new Error(`index.html has no <${tag} id="${id}">`);
  return element as HTMLElementTagNameMap[K];
}

/** Announces a text to screen readers. The live region is part of index.html: one inserted with its text is often not announced. */
export function announce(text: string): void {
  byId("announcer", "div").replaceChildren(text);
}

/** Marks a pressed button as busy. It keeps the focus, which a disabled button would lose. */
export function setBusy(button: HTMLButtonElement, busy: boolean): void {
  if (busy) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
}

/** Opens a modal dialog and closes it on a click outside. */
export function wireDialog(dialog: HTMLDialogElement): void {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  for (const button of dialog.querySelectorAll("[data-close]")) button.addEventListener("click", () => dialog.close());
}

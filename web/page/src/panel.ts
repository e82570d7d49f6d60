// The panel that describes the model before it is loaded.

import type { Fit, Progress } from "pteron";
import { announce, byId, h, icon, setBusy } from "./dom.js";
import * as format from "./format.js";
import type { Cached } from "./protocol.js";
import { Unsupported, type Missing } from "./unsupported.js";

export interface Offer {
  name: string;
  fit: Fit | null;
  cached: Cached | null;
}

/** A model that a link names and the user has not confirmed yet. */
export interface Question {
  origin: string;
  path: string;
  cached: Cached | null;
}

export interface PanelActions {
  allow(): void;
  start(): void;
  cancel(): void;
  retry(): void;
  keep(): void;
  choose(): void;
  useDefault(): void;
}

const INTRODUCTION = "A language model on your own GPU, in this tab. Nothing you write leaves this device.";

export class Panel {
  readonly element = byId("panel", "section");
  #actions: PanelActions;
  #unsupported = new Unsupported();
  #loading: { bar: HTMLProgressElement; line: HTMLElement } | null = null;

  constructor(actions: PanelActions) {
    this.#actions = actions;
  }

  hide(): void {
    this.#show("none");
    this.element.hidden = true;
  }

  busy(sentence: string, canKeep: boolean): void {
    this.#show(
      "busy",
      h("p", { class: "lead" }, sentence),
      h("p", { class: "pulse", "aria-hidden": "true" }),
      canKeep && this.#buttons(this.#button("Cancel", "keep", "plain", "cancel")),
    );
    announce(sentence);
  }

  unsupported(missing: Missing, reason: string): void {
    this.#show("unsupported", ...this.#unsupported.content(missing, reason));
  }

  /** Asks the user whether the page may send requests to the URL of a link. */
  ask({ origin, path, cached }: Question): void {
    const here = cached ? `${format.bytes(cached.bytes)} of ${format.bytes(cached.totalBytes)} is already here.` : "How large it is, only that site can tell.";
    this.#show(
      "ask",
      h("h2", {}, "Use a model from another site?"),
      h("p", { class: "lead" }, "The link that brought you here names a model at this address. Nothing has been fetched from it."),
      h("p", { class: "address", "data-testid": "address" }, h("strong", { "data-testid": "origin" }, origin), h("span", { class: "quiet" }, path)),
      h("p", { class: "quiet", "data-testid": "size" }, `${here} Looking at it tells the site your network address; the download comes after another question.`),
      this.#buttons(
        this.#button("Look at it", "allow", "plain", "allow"),
        this.#button("Use the bundled model", "useDefault", "primary", "use-demo"),
        this.#button("Use another model", "choose", "link", "other"),
      ),
    );
    announce(`Use a model from ${origin}? Nothing has been fetched from it.`);
  }

  offer({ name, fit, cached }: Offer, canKeep: boolean): void {
    const here = cached?.bytes ?? 0;
    const total = cached?.totalBytes ?? (fit ? fit.downloadBytes + fit.cachedBytes : 0);
    const size = here > 0 ? `${format.bytes(here)} of ${format.bytes(total)} is already here.` : `${format.bytes(total)} to download, once.`;
    const label = here > 0 ? "Resume" : "Download and start";
    const fits = fit?.fits ?? true;
    this.#show(
      "offer",
      h("h2", {}, name),
      h("p", { class: "lead" }, INTRODUCTION),
      fit && h("p", { class: fits ? "fit" : "fit problem", "data-testid": "fit" }, sentence(fit.sentence)),
      h("p", { class: "quiet", "data-testid": "size" }, size),
      this.#buttons(
        this.#button(fits ? label : `${label} anyway`, "start", fits ? "primary" : "plain", "download"),
        this.#button(canKeep ? "Keep the model I have" : "Use another model", canKeep ? "keep" : "choose", "link", "other"),
      ),
      h("p", { class: "quiet hint" }, "Or drop a .pte file and its tokenizer anywhere on this page."),
    );
  }

  /** Shows that the operation in progress is being cancelled. */
  stopping(): void {
    const button = this.element.querySelector<HTMLButtonElement>("[data-testid=cancel]");
    if (!button) return;
    button.textContent = "Stopping…";
    setBusy(button, true);
    announce("Stopping…");
  }

  /** Shows the progress of a load. `why` is empty if the user started it. */
  loading(name: string, why: string): void {
    const bar = h("progress", { "aria-label": "Loading the model", "data-testid": "progress" });
    const line = h("p", { class: "quiet figures", "data-testid": "progress-line" }, "Beginning…");
    this.#show(
      "loading",
      h("h2", {}, name),
      h("p", { class: "lead" }, why || "Loading…"),
      bar,
      line,
      this.#buttons(this.#button("Cancel", "cancel", "plain", "cancel")),
    );
    announce(why || `Loading “${name}”…`);
    this.#loading = { bar, line };
  }

  progress(progress: Progress): void {
    if (!this.#loading) return;
    const { bar, line } = this.#loading;
    if (progress.totalBytes > 0 && progress.phase !== "prepare") {
      bar.max = progress.totalBytes;
      bar.value = Math.min(progress.loadedBytes, progress.totalBytes);
    } else {
      bar.removeAttribute("value");
    }
    line.textContent = progressLine(progress);
  }

  failed(problem: string, retry: string | null): void {
    this.#show(
      "failed",
      h("h2", {}, "That did not work"),
      h("p", { class: "problem", role: "alert", "data-testid": "problem" }, sentence(problem)),
      this.#buttons(
        retry !== null && this.#button(retry, "retry", "primary", "retry"),
        this.#button("Use another model", "choose", retry === null ? "primary" : "link", "other"),
      ),
    );
  }

  #button(label: string, action: keyof PanelActions, style: string, id: string): HTMLButtonElement {
    return h("button", { type: "button", class: style, "data-testid": id, onclick: () => this.#actions[action]() }, label);
  }

  #buttons(...buttons: (HTMLButtonElement | false)[]): HTMLElement {
    return h("div", { class: "buttons" }, ...buttons);
  }

  #show(kind: string, ...content: (Node | null | false)[]): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.#loading = null;
    this.element.hidden = false;
    this.element.dataset.panel = kind;
    const mark = icon("mark");
    mark.classList.add("mark", "large");
    this.element.replaceChildren(mark, ...content.filter((node): node is Node => node instanceof Node));
    // The button that was just pressed is gone: the focus moves to its replacement.
    if (hadFocus) this.element.querySelector("button")?.focus();
  }
}

/** Files and servers may put anything into a message; its start and its end identify it. */
const MAX_SENTENCE = 700;

/** Capitalises the engine's messages. Names and URLs at their start stay as they are. */
export function sentence(words: string): string {
  const text = format.shorten(words, MAX_SENTENCE);
  const begun = /^[a-z]+[ ,]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?…][)”]?$/.test(begun) ? begun : `${begun}.`;
}

const PHASES: Partial<Record<Progress["phase"], string>> = {
  check: "Reading the program…",
  prepare: "Making room on the GPU and compiling kernels…",
  repair: "Some parts did not match their checksums and are fetched again…",
};

export function progressLine(progress: Progress): string {
  const { phase, loadedBytes, totalBytes, bytesPerSecond, secondsLeft, fromCacheBytes, notCached } = progress;
  const special = PHASES[phase];
  if (special) return special;
  const parts = [`${format.bytes(loadedBytes)} of ${format.bytes(totalBytes)}`];
  const isLocal = phase === "cache" || (fromCacheBytes > 0 && fromCacheBytes >= loadedBytes);
  if (isLocal) parts.push("from this device");
  else if (bytesPerSecond > 0) parts.push(`${format.bytes(bytesPerSecond)}/s`);
  if (!isLocal && fromCacheBytes > 0) parts.push(`${format.bytes(fromCacheBytes)} was already here`);
  if (secondsLeft !== null && loadedBytes < totalBytes) parts.push(format.timeLeft(secondsLeft));
  if (notCached) parts.push(`not cached for the next visit: ${notCached}`);
  return parts.join(format.DOT);
}

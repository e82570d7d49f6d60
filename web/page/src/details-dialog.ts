// The details dialog: adapter, model, GPU time per kernel of a step, and cached files.

import type { AdapterInfo } from "pteron";
import { announce, byId, h, wireDialog } from "./dom.js";
import * as format from "./format.js";
import { sentence } from "./panel.js";
import type { Cached, KernelTime, ModelFacts, ProfileReport } from "./protocol.js";

export interface DetailsActions {
  measure(steps: number): Promise<ProfileReport>;
  cached(): Promise<Cached[]>;
  forget(url: string): Promise<unknown>;
}

/** The number of steps to average: browsers round GPU times, some to a tenth of a millisecond. */
const STEPS = 8;

export class DetailsDialog {
  #dialog = byId("details-dialog", "dialog");
  #adapter = byId("adapter-facts", "dl");
  #model = byId("model-facts", "dl");
  #profile = byId("profile", "div");
  #cache = byId("cache", "div");
  #actions: DetailsActions;
  #hint = h("p", { class: "quiet" });
  #measureButton = h("button", { type: "button", class: "plain", "data-testid": "measure", onclick: () => void this.#measure() }, "Measure a step");
  #mayMeasure = false;
  #isMeasuring = false;

  constructor(actions: DetailsActions) {
    this.#actions = actions;
    wireDialog(this.#dialog);
  }

  open(adapter: AdapterInfo | null, model: ModelFacts | null): void {
    this.#adapter.replaceChildren(...(adapter ? facts(adapterFacts(adapter)) : [h("dd", { class: "quiet" }, "None yet.")]));
    this.#model.replaceChildren(...(model ? facts(modelFacts(model)) : [h("dd", { class: "quiet" }, "None is loaded.")]));
    this.#showProfile(this.#hint);
    this.#dialog.showModal();
    void this.#listCache();
  }

  /** Whether a model is loaded and not generating. */
  allowMeasuring(may: boolean): void {
    this.#mayMeasure = may;
    this.#refreshMeasuring();
  }

  #refreshMeasuring(): void {
    this.#measureButton.disabled = !this.#mayMeasure || this.#isMeasuring;
    this.#hint.textContent = this.#mayMeasure ? "Runs the step that writes one token, with a clock around each kernel." : "Possible once a model is loaded and not writing.";
  }

  #showProfile(content: Node): void {
    this.#profile.replaceChildren(content, h("div", { class: "buttons" }, this.#measureButton));
  }

  async #measure(): Promise<void> {
    this.#isMeasuring = true;
    this.#refreshMeasuring();
    this.#showProfile(h("p", { class: "quiet" }, "Measuring…"));
    announce("Measuring…");
    const content = await this.#actions.measure(STEPS).then(chart, problem);
    this.#isMeasuring = false;
    this.#refreshMeasuring();
    this.#showProfile(content);
    this.#measureButton.focus();
  }

  async #listCache(): Promise<void> {
    try {
      const rows = (await this.#actions.cached()).map((entry) => this.#cacheRow(entry));
      this.#cache.replaceChildren(rows.length > 0 ? h("ul", { class: "cache", "data-testid": "cache" }, ...rows) : h("p", { class: "quiet" }, "Nothing."));
    } catch (error) {
      this.#cache.replaceChildren(problem(error));
    }
  }

  /** Deletes a row with its button: the focus moves to the row that takes its place, or to the list's heading. */
  async #forget(url: string, button: HTMLButtonElement): Promise<void> {
    const buttons = () => [...this.#cache.querySelectorAll("button")];
    const place = buttons().indexOf(button);
    button.disabled = true;
    const failure = await this.#actions.forget(url).then(() => null, problem);
    await this.#listCache();
    if (failure) this.#cache.append(failure);
    else announce(`Deleted ${shortAddress(url)}.`);
    if (this.#dialog.open) (buttons()[place] ?? buttons().at(-1) ?? byId("cache-title", "h3")).focus();
  }

  #cacheRow({ url, bytes, totalBytes, complete }: Cached): HTMLElement {
    const size = complete ? format.bytes(totalBytes) : `${format.bytes(bytes)} of ${format.bytes(totalBytes)}`;
    const forget = h("button", { type: "button", class: "plain", "aria-label": `Delete ${shortAddress(url)}`, "data-testid": "forget", onclick: () => void this.#forget(url, forget) }, "Delete");
    return h(
      "li",
      {},
      h("span", { class: "address", title: url }, shortAddress(url)),
      h("span", { class: "quiet" }, size),
      forget,
    );
  }
}

function problem(error: unknown): HTMLElement {
  return h("p", { class: "problem", role: "alert" }, sentence((error as Error).message));
}

function shortAddress(url: string): string {
  const { host, pathname } = new URL(url);
  return format.shorten(host === location.host ? pathname.split("/").slice(-2).join("/") : host + pathname, 120);
}

function facts(entries: readonly (readonly [string, string])[]): Node[] {
  return entries.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]);
}

function adapterFacts(adapter: AdapterInfo): [string, string][] {
  return [
    ["Name", adapter.name || "not told by the browser"],
    ["Kind", adapter.software ? "software: the processor stands in for a GPU" : adapter.kind],
    ["Through", [adapter.backend, adapter.driver].filter(Boolean).join(", ")],
    ["Largest buffer", format.bytes(adapter.maxBufferSize)],
    ["Features", adapter.features.join(", ") || "none"],
  ];
}

function modelFacts(model: ModelFacts): [string, string][] {
  return [
    ["Name", model.name],
    ["File", format.bytes(model.fileBytes)],
    ["Talks", model.chat ? "with a chat template" : "goes on from what you write"],
    ["Context", format.count(model.contextLength, "token")],
    ["Vocabulary", format.count(model.vocabSize, "token")],
    ["GPU memory", format.bytes(model.gpuBytes)],
    ...model.memory.map(({ label, bytes }): [string, string] => [`– ${label}`, format.bytes(bytes)]),
    ["Wasm memory", format.bytes(model.wasmBytes)],
  ];
}

function chart(report: ProfileReport): Node {
  const { kernels, totalMicroseconds, steps, timing } = report;
  if (totalMicroseconds === 0) {
    return h("p", { class: "quiet", "data-testid": "no-times" }, "This browser gives no GPU times: it offers no timestamps, or rounds them to nothing.");
  }
  const caveats = [
    `${format.microseconds(totalMicroseconds)} in all, the mean of ${steps} steps. Browsers round GPU times.`,
    timing === "pass-each" ? "For the measurement each kernel runs in a pass of its own, so the sum is longer than a step in an answer." : "",
  ];
  return h("div", {}, h("p", { class: "quiet" }, caveats.join(" ").trim()), table(kernels, totalMicroseconds));
}

/** One table for screens and screen readers: the bars are the background of its rows. */
function table(kernels: readonly KernelTime[], total: number): HTMLElement {
  const longest = kernels[0]?.microseconds ?? 1;
  const rows = kernels.map(({ kernel, operators, microseconds, count }) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(microseconds / longest));
    return h(
      "tr",
      {},
      h("th", { scope: "row", title: operators.join(", ") }, kernel, bar),
      h("td", {}, format.microseconds(microseconds)),
      h("td", {}, format.percent(microseconds / total)),
      h("td", {}, `${count} ×`),
    );
  });
  const head = ["Kernel", "Time", "Share", "Runs"].map((label) => h("th", { scope: "col" }, label));
  return h(
    "table",
    { class: "kernels", "data-testid": "kernels" },
    h("caption", { class: "hidden" }, "GPU time of one step by kernel"),
    h("thead", {}, h("tr", {}, ...head)),
    h("tbody", {}, ...rows),
  );
}

// The page's state: which model is there, on its way, or lost.

import type { AdapterInfo, Fit } from "pteron";
import { Composer } from "./composer.js";
import { DetailsDialog } from "./details-dialog.js";
import { byId } from "./dom.js";
import { LossGuard } from "./guard.js";
import { Host } from "./host.js";
import { Panel, sentence } from "./panel.js";
import type { Cached, ModelFacts } from "./protocol.js";
import { ABORTED, CallError } from "./rpc.js";
import { SettingsDialog } from "./settings-dialog.js";
import { keepSettings, readSettings, type ModelKind } from "./settings.js";
import { openStore } from "./storage.js";
import { sourceFromFiles, type FileSource, type ModelSource } from "./source.js";
import { Writer } from "./writer.js";

export type State = "checking" | "unsupported" | "ready-to-download" | "loading" | "ready" | "generating" | "failed" | "recovering";

const SUGGESTIONS = ["To read a file in Rust, you", "The difference between `String` and `&str` is", "To create a new project with Cargo,"];
/** Remembers, for a reload, that the model came from files, which a page cannot open again by itself. */
const FILES_KEY = "pteron.files.1";

export class App {
  readonly defaultSource: ModelSource = { kind: "url", name: "Demo model", url: new URL("model/model.pte", document.baseURI).href };
  #store = openStore("localStorage");
  #session = openStore("sessionStorage");
  #settings = readSettings(this.#store);
  #host = new Host((reason) => this.#lost(reason));
  #guard = new LossGuard();
  #panel: Panel;
  #composer: Composer;
  #writer: Writer;
  #settingsDialog = new SettingsDialog(this.#settings, () => this.#applySettings());
  #details: DetailsDialog;
  #adapter: AdapterInfo | null = null;
  /** The model that is loaded. */
  #facts: ModelFacts | null = null;
  #source: ModelSource | null = null;
  /** The model that is spoken of in the panel, and what is known about it. */
  #proposed: ModelSource = this.defaultSource;
  #fit: Fit | null = null;
  #task: AbortController | null = null;
  #state: State = "checking";
  #openChooser: () => void;

  constructor(openChooser: () => void) {
    this.#openChooser = openChooser;
    this.#panel = new Panel({
      start: () => void this.#load(this.#proposed),
      cancel: () => this.#task?.abort(),
      retry: () => this.#retry(),
      keep: () => this.#settle(),
      choose: () => this.#openChooser(),
    });
    this.#composer = new Composer({ send: (text) => this.#writer.send(text), stop: () => this.#writer.stop() });
    this.#writer = new Writer({
      host: this.#host,
      facts: () => this.#facts,
      sampling: () => this.#settings.sampling[this.#kind()],
      system: () => this.#settings.system,
      onChange: () => this.#refresh(),
      notify: (text) => this.notify(text),
      suggest: (text) => this.#composer.fill(text),
    });
    this.#details = new DetailsDialog({
      measure: (steps) => this.#host.call("profile", { steps }),
      cached: () => this.#host.call("cached", null),
      forget: (url) => this.#host.call("forget", { url }),
    });
    this.#applySettings();
    this.#refresh();
  }

  /** Looks for a GPU, then at the first model. */
  async start(source: ModelSource): Promise<void> {
    if (!isSecureContext) return this.#unsupported("secure-context", "");
    if (!("gpu" in navigator)) return this.#unsupported("webgpu", "");
    this.#remindOfFiles();
    try {
      const support = await this.#host.call("support", null);
      if (!support.supported) return this.#unsupported("adapter", support.reason);
      this.#adapter = support.adapter;
    } catch (error) {
      this.#proposed = source;
      return this.#fail((error as CallError).message);
    }
    // Files may have been dropped in the meantime.
    if (!this.#task) await this.propose(source);
  }

  /** Says whether a model fits and what it costs to fetch; loads it at once where all of it is here. */
  async propose(source: ModelSource): Promise<void> {
    if (!this.acceptsFiles) return;
    const task = this.#begin(source);
    this.#setState("checking");
    this.#panel.busy(`Looking at “${source.name}” and whether it fits…`, this.#facts !== null);
    try {
      const { cached, fit } = await this.#host.call("inspect", { source }, { signal: task.signal });
      if (this.#task !== task) return;
      this.#fit = fit;
      if (cached?.complete) await this.#load(source);
      else this.#offer(cached);
    } catch (error) {
      if (this.#task === task) this.#failedTask(error as CallError);
    }
  }

  get acceptsFiles(): boolean {
    return this.#state !== "unsupported";
  }

  takeFiles(files: Iterable<File>): void {
    if (!this.acceptsFiles) return;
    const before = this.#proposed.kind === "files" ? this.#proposed : null;
    const source: FileSource | string = sourceFromFiles(files, before);
    if (typeof source === "string") this.notify(source);
    else void this.#load(source);
  }

  newConversation(): void {
    this.#writer.clear();
    this.#composer.focus();
  }

  openSettings(): void {
    this.#settingsDialog.open(this.#kind());
  }

  openDetails(): void {
    this.#details.open(this.#adapter, this.#writer.isWriting ? null : this.#facts);
  }

  notify(text: string): void {
    byId("notice-text", "p").textContent = text;
    byId("notice", "div").hidden = text === "";
  }

  async #load(source: ModelSource, lostBecause = ""): Promise<void> {
    const task = this.#begin(source);
    this.notify("");
    this.#setState(lostBecause ? "recovering" : "loading");
    this.#panel.loading(source.name, lostBecause && `${sentence(lostBecause)} Loading the model again; the conversation stays.`);
    try {
      const onNote = (progress: Parameters<Panel["progress"]>[0]) => {
        if (this.#task === task) this.#panel.progress(progress);
      };
      const facts = await this.#host.call("load", { source }, { signal: task.signal, onNote });
      if (this.#task !== task) return;
      this.#loaded(source, facts);
      if (lostBecause) this.notify(`${sentence(lostBecause)} The model was loaded again, and the conversation is still here.`);
    } catch (error) {
      const failure = error as CallError;
      if (failure.modelGone) this.#facts = null;
      if (this.#task === task) this.#failedTask(failure);
    }
  }

  #loaded(source: ModelSource, facts: ModelFacts): void {
    this.#source = source;
    this.#facts = facts;
    if (source.kind === "files") this.#session.setItem(FILES_KEY, source.name);
    else this.#session.removeItem(FILES_KEY);
    this.#rememberAddress(source);
    this.#writer.showMemory(facts);
    this.#settle();
    this.#composer.focus();
  }

  /** A new thing to do about models ends what was under way. */
  #begin(source: ModelSource): AbortController {
    this.#task?.abort();
    this.#writer.stop();
    this.#task = new AbortController();
    this.#proposed = source;
    return this.#task;
  }

  /** Back to the model that is there. */
  #settle(): void {
    this.#task?.abort();
    this.#task = null;
    this.#panel.hide();
    this.#setState("ready");
  }

  #failedTask(failure: CallError): void {
    if (failure.code === ABORTED) return void this.#cancelled();
    if (!this.#facts) return this.#fail(failure.message);
    this.#settle();
    this.notify(sentence(failure.message));
  }

  /** After a cancelled download: what is here stays here, and the panel says how much that is. */
  async #cancelled(): Promise<void> {
    if (this.#facts) return this.#settle();
    const source = this.#proposed;
    if (source.kind === "files") return this.#fail(`Loading “${source.name}” was cancelled.`);
    const cached = await this.#host.call("cached", null).catch((): Cached[] => []);
    if (this.#proposed === source) this.#offer(cached.find((entry) => entry.url === source.url) ?? null);
  }

  #offer(cached: Cached | null): void {
    this.#setState("ready-to-download");
    this.#panel.offer({ name: this.#proposed.name, fit: this.#fit, cached }, this.#facts !== null);
  }

  #fail(problem: string, retry = "Try again"): void {
    this.#task = null;
    this.#setState("failed");
    this.#panel.failed(problem, retry);
  }

  #unsupported(missing: Parameters<Panel["unsupported"]>[0], reason: string): void {
    this.#setState("unsupported");
    this.#panel.unsupported(missing, reason);
  }

  #retry(): void {
    this.#guard.forgive();
    if (!this.#adapter) void this.start(this.#proposed);
    else if (this.#proposed.kind === "files") void this.#load(this.#proposed);
    else void this.propose(this.#proposed);
  }

  /** The GPU or the worker is gone: loads again from what is on this device, once; a second time it asks. */
  #lost(reason: string): void {
    const source = this.#source;
    const hadModel = this.#facts !== null;
    this.#facts = null;
    // While something is being looked at or loaded, that call fails by itself and says why.
    if (!hadModel || !source || this.#state === "loading" || this.#state === "checking") return this.#refresh();
    this.notify("");
    if (!this.#guard.mayRecover(Date.now())) {
      this.#proposed = source;
      this.#fail(`${sentence(reason)} It is the second time within a minute, so the page waits for you. The conversation is kept.`, "Load the model again");
      return;
    }
    this.#setState("recovering");
    this.#panel.busy(sentence(reason), false);
    whenVisible(() => void this.#load(source, reason));
  }

  #kind(): ModelKind {
    const source = this.#source ?? this.#proposed;
    if (source.kind === "url" && this.defaultSource.kind === "url" && source.url === this.defaultSource.url) return "demo";
    return this.#facts?.chat ? "chat" : "text";
  }

  #setState(state: State): void {
    this.#state = state;
    this.#refresh();
  }

  /** Brings everything on the screen in line with the state. */
  #refresh(): void {
    const isReady = this.#state === "ready";
    const isWriting = isReady && this.#writer.isWriting;
    const root = document.documentElement;
    root.dataset.state = isWriting ? "generating" : this.#state;
    root.dataset.stage = isReady ? "chat" : "panel";
    root.dataset.empty = String(this.#writer.isEmpty);
    byId("model-name", "span").textContent = (this.#facts ?? this.#proposed).name;
    byId("model-button", "button").disabled = !this.acceptsFiles;
    byId("new-button", "button").disabled = this.#writer.isEmpty;
    this.#writer.welcome(isReady && this.#facts && this.#writer.isEmpty ? this.#welcome(this.#facts) : null);
    this.#writer.show();
    this.#composer.update({ visible: isReady, writing: isWriting, continues: this.#facts?.chat === false });
  }

  #welcome({ name, chat }: ModelFacts): Parameters<Writer["welcome"]>[0] {
    const text = chat ? "Ask it something. It runs on your GPU, and nothing you write leaves this device." : "This model has no chat template: it goes on from what you write. Begin a text, and it continues it.";
    return { title: name, text, suggestions: this.#kind() === "demo" ? SUGGESTIONS : [] };
  }

  #applySettings(): void {
    keepSettings(this.#store, this.#settings);
    const { theme } = this.#settings;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }

  /** A reload finds the same model again. */
  #rememberAddress(source: ModelSource): void {
    if (source.kind !== "url") return;
    const address = new URL(location.href);
    if (source === this.defaultSource) address.searchParams.delete("model");
    else address.searchParams.set("model", source.url);
    history.replaceState(null, "", address);
  }

  #remindOfFiles(): void {
    const name = this.#session.getItem(FILES_KEY);
    this.#session.removeItem(FILES_KEY);
    if (name) this.notify(`“${name}” was read from files, which a reload forgets. Drop them again to go on with it.`);
  }
}

/** A hidden tab may lose its GPU again at any moment: better to wait until somebody looks. */
function whenVisible(then: () => void): void {
  if (document.visibilityState === "visible") return then();
  document.addEventListener("visibilitychange", () => whenVisible(then), { once: true });
}

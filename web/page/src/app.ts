// The page's state: which model is loaded, loading or lost.

import type { AdapterInfo, Fit } from "pteron";
import { Composer } from "./composer.js";
import { DetailsDialog } from "./details-dialog.js";
import { byId } from "./dom.js";
import { LossGuard } from "./guard.js";
import { Host } from "./host.js";
import { lossText, type Loss } from "./loss.js";
import { Panel, sentence } from "./panel.js";
import type { Cached, ModelFacts } from "./protocol.js";
import { ABORTED, CallError } from "./rpc.js";
import { SettingsDialog } from "./settings-dialog.js";
import { keepSettings, readSettings, type ModelKind } from "./settings.js";
import { openStore } from "./storage.js";
import { isOwn, shownAddress, sourceFromFiles, type FileSource, type ModelSource, type UrlSource } from "./source.js";
import { Writer } from "./writer.js";

export type State = "checking" | "unsupported" | "asking" | "ready-to-download" | "loading" | "ready" | "generating" | "failed" | "recovering";

const SUGGESTIONS = ["To read a file in Rust, you", "The difference between `String` and `&str` is", "To create a new project with Cargo,"];
/** Remembers, for a reload, that the model came from files, which a page cannot open again by itself. */
const FILES_KEY = "pteron.files.1";
/** Remembers, for a reload, the URL of another site that the user has agreed to. */
const ALLOWED_KEY = "pteron.allowed.1";

/** The digest of the bundled model's manifest, inserted by the build. */
declare const MODEL_INTEGRITY: string | undefined;

function defaultSource(): UrlSource {
  const integrity = typeof MODEL_INTEGRITY === "undefined" ? undefined : MODEL_INTEGRITY;
  return { kind: "url", name: "Demo model", url: new URL("model/model.pte", document.baseURI).href, ...(integrity && { integrity }) };
}

/** The reason for loading a model again. */
interface Recovery {
  loss: Loss;
  interruptedWhileHidden: boolean;
}

export class App {
  readonly defaultSource = defaultSource();
  #store = openStore("localStorage");
  #session = openStore("sessionStorage");
  #settings = readSettings(this.#store);
  #host = new Host((loss) => this.#lost(loss));
  #guard = new LossGuard();
  #panel: Panel;
  #composer: Composer;
  #writer: Writer;
  #settingsDialog = new SettingsDialog(this.#settings, () => this.#applySettings());
  #details: DetailsDialog;
  #adapter: AdapterInfo | null = null;
  /** The loaded model. */
  #facts: ModelFacts | null = null;
  #source: ModelSource | null = null;
  /** The model shown in the panel, with its description. */
  #proposed: ModelSource = this.defaultSource;
  /** The model of a link, until the user allows fetching it. */
  #unconfirmed: UrlSource | null = null;
  /** The URL whose files changed since they were first loaded: a retry accepts them. */
  #changed: string | null = null;
  #fit: Fit | null = null;
  #task: AbortController | null = null;
  #state: State = "checking";
  #openChooser: () => void;

  constructor(openChooser: () => void) {
    this.#openChooser = openChooser;
    this.#panel = new Panel({
      allow: () => this.#allow(),
      start: () => void this.#load(this.#proposed),
      cancel: () => this.#cancel(),
      retry: () => void this.#retry(),
      keep: () => void (this.#facts ? this.#settle() : this.#retry()),
      choose: () => this.#openChooser(),
      useDefault: () => void this.propose(this.defaultSource),
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

  /** Starts with the model of a link. A model of another site is not requested before the user agrees. */
  startWithLink(source: UrlSource): Promise<void> {
    if (isOwn(source, document.baseURI)) return this.start({ ...source, unasked: true });
    if (this.#session.getItem(ALLOWED_KEY) !== source.url) this.#unconfirmed = source;
    return this.start(source);
  }

  /** Opens the GPU, then checks the first model. */
  async start(source: ModelSource): Promise<void> {
    if (!isSecureContext) return this.#unsupported("secure-context", "");
    if (!("gpu" in navigator)) return this.#unsupported("webgpu", "");
    this.#remindOfFiles();
    try {
      const support = await this.#host.call("support", null);
      if (!support.supported) return this.#unsupported("adapter", support.reason);
      this.#adapter = support.adapter;
    } catch (error) {
      // Files that were dropped in the meantime report their own errors.
      if (this.#task) return;
      this.#proposed = source;
      return this.#fail((error as CallError).message);
    }
    if (!this.#task) await this.#open(source);
  }

  /** Loads files at once; checks a URL first. */
  #open(source: ModelSource): Promise<void> {
    if (source === this.#unconfirmed) return this.#ask(source);
    return source.kind === "files" ? this.#load(source) : this.propose(source);
  }

  /** Asks the user about the model of a link. A completely cached one needs no server and no second consent. */
  async #ask(source: UrlSource): Promise<void> {
    const task = this.#begin(source);
    const kept = await this.#host.call("cached", null).catch((): Cached[] => []);
    if (this.#task !== task) return;
    const cached = kept.find(({ url }) => url === source.url) ?? null;
    if (cached?.complete) return this.#allow();
    this.#setState("asking");
    this.#panel.ask({ ...shownAddress(source), cached });
  }

  #allow(): void {
    const source = this.#unconfirmed;
    if (!source) return;
    this.#unconfirmed = null;
    this.#remember(ALLOWED_KEY, source.url);
    void this.propose(source);
  }

  /** Shows whether a model fits and its download size; loads it at once if it is completely cached. */
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
    this.#details.open(this.#adapter, this.#facts);
  }

  notify(text: string): void {
    byId("notice-text", "p").textContent = text;
    byId("notice", "div").hidden = text === "";
  }

  /** `recovery` is set if the model is loaded again after a loss. */
  async #load(source: ModelSource, recovery: Recovery | null = null): Promise<void> {
    const task = this.#begin(source);
    this.notify("");
    this.#setState(recovery ? "recovering" : "loading");
    this.#panel.loading(source.name, recovery ? lossText(recovery.loss, "Loading the model again; the conversation stays.") : "");
    try {
      const onNote = (progress: Parameters<Panel["progress"]>[0]) => {
        if (this.#task === task) this.#panel.progress(progress);
      };
      const facts = await this.#host.call("load", { source }, { signal: task.signal, onNote });
      this.#record(source, facts);
      if (this.#task !== task) return this.#refresh();
      this.#settle();
      this.#composer.focus();
      if (recovery) this.notify(recoveredText(recovery));
    } catch (error) {
      const failure = error as CallError;
      if (failure.modelGone) this.#facts = null;
      if (this.#task === task) this.#failedTask(failure);
      else this.#refresh();
    }
  }

  /** The worker has this model now, even if another one was requested in the meantime. */
  #record(source: ModelSource, facts: ModelFacts): void {
    this.#source = source;
    this.#facts = facts;
    if (source.kind === "files") this.#remember(FILES_KEY, source.name);
    else this.#session.removeItem(FILES_KEY);
    this.#rememberAddress(source);
    this.#writer.showMemory(facts);
  }

  /** A conversation may exhaust the tab's storage: then it is lost on a reload. */
  #remember(key: string, value: string): void {
    try {
      this.#session.setItem(key, value);
    } catch {
      // As in a browser that denies storage.
    }
  }

  /** Starts an operation on models and aborts the one in progress. */
  #begin(source: ModelSource): AbortController {
    this.#changed = null;
    this.#task?.abort();
    this.#writer.stop();
    this.#task = new AbortController();
    this.#proposed = source;
    return this.#task;
  }

  /** Aborts the operation in progress, which reports its own end. */
  #cancel(): void {
    if (!this.#task || this.#task.signal.aborted) return;
    this.#task.abort();
    this.#panel.stopping();
  }

  /** Returns to the loaded model. */
  #settle(): void {
    this.#task?.abort();
    this.#task = null;
    this.#panel.hide();
    this.#setState("ready");
  }

  #failedTask(failure: CallError): void {
    if (failure.code === ABORTED) return void this.#cancelled();
    if (!this.#facts) return failure.code === "integrity" ? this.#failChanged(failure.message) : this.#fail(failure.message);
    this.#settle();
    this.notify(sentence(failure.message));
  }

  /** After a cancelled download: the cached bytes stay, and the panel shows how many there are. */
  async #cancelled(): Promise<void> {
    if (this.#facts) return this.#settle();
    const source = this.#proposed;
    const task = this.#task;
    if (source.kind === "files") return this.#fail(`Loading “${source.name}” was cancelled.`);
    const cached = await this.#host.call("cached", null).catch((): Cached[] => []);
    if (this.#task === task) this.#offer(cached.find((entry) => entry.url === source.url) ?? null);
  }

  #offer(cached: Cached | null): void {
    this.#setState("ready-to-download");
    this.#panel.offer({ name: this.#proposed.name, fit: this.#fit, cached }, this.#facts !== null);
  }

  /** The page's own model must match its digest; the model of another site may have a new version. */
  #failChanged(message: string): void {
    const source = this.#proposed;
    if (source.kind !== "url" || source.integrity) return this.#fail(message);
    this.#fail(`The files of “${source.name}” are not those that were loaded here before. (${message.split("; ", 1)[0]})`, "Accept the new version");
    this.#changed = source.url;
  }

  #fail(problem: string, retry = "Try again"): void {
    this.#task = null;
    this.#setState("failed");
    this.#panel.failed(problem, retry);
  }

  #unsupported(missing: Parameters<Panel["unsupported"]>[0], reason: string): void {
    this.#task?.abort();
    this.#task = null;
    this.#setState("unsupported");
    this.#panel.unsupported(missing, reason);
  }

  async #retry(): Promise<void> {
    this.#guard.forgive();
    const url = this.#changed;
    this.#changed = null;
    if (url !== null) await this.#host.call("forget", { url }).catch(() => null);
    if (this.#adapter) void this.#open(this.#proposed);
    else void this.start(this.#proposed);
  }

  /** Handles the loss of the GPU or the worker: loads again from the cache once; asks the user the second time. */
  #lost(loss: Loss): void {
    const source = this.#source;
    const hadModel = this.#facts !== null;
    const interrupted = this.#writer.isWriting;
    this.#facts = null;
    // Without a model, the operation in progress fails and reports the reason.
    if (!hadModel || !source) return this.#refresh();
    // A model that was loading was lost, too.
    this.#task = null;
    this.#proposed = source;
    this.notify("");
    if (!this.#guard.mayRecover(Date.now())) {
      return this.#fail(lossText(loss, "It is the second time within a minute, so the page waits for you. The conversation is kept."), "Load the model again");
    }
    const hidden = document.visibilityState !== "visible";
    this.#setState("recovering");
    this.#panel.busy(lossText(loss, hidden ? "The model will be loaded again when this tab is in view." : "Loading the model again."), false);
    whenVisible(() => {
      if (this.#state === "recovering" && !this.#task) void this.#load(source, { loss, interruptedWhileHidden: interrupted && hidden });
    });
  }

  #kind(): ModelKind {
    const source = this.#source ?? this.#proposed;
    if (source.kind === "url" && source.url === this.defaultSource.url) return "demo";
    return this.#facts?.chat ? "chat" : "text";
  }

  #setState(state: State): void {
    this.#state = state;
    this.#refresh();
  }

  /** Updates the screen to the state. */
  #refresh(): void {
    const isReady = this.#state === "ready";
    const isWriting = isReady && this.#writer.isWriting;
    const root = document.documentElement;
    root.dataset.state = isWriting ? "generating" : this.#state;
    root.dataset.stage = isReady ? "chat" : "panel";
    root.dataset.empty = String(this.#writer.isEmpty);
    this.#aimSkipLink(isReady);
    byId("model-name", "span").textContent = (this.#facts ?? this.#proposed).name;
    byId("model-button", "button").disabled = !this.acceptsFiles;
    byId("new-button", "button").disabled = this.#writer.isEmpty;
    this.#writer.welcome(isReady && this.#facts && this.#writer.isEmpty ? this.#welcome(this.#facts) : null);
    this.#writer.show();
    this.#composer.update({ visible: isReady, writing: isWriting, stopping: this.#writer.isStopping, continues: this.#facts?.chat === false });
    this.#details.allowMeasuring(isReady && !isWriting);
  }

  #aimSkipLink(isReady: boolean): void {
    const link = byId("skip", "a");
    link.href = isReady ? "#prompt" : "#panel";
    link.textContent = isReady ? "Skip to the message field" : "Skip to the model";
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

function recoveredText({ loss, interruptedWhileHidden }: Recovery): string {
  const hidden = interruptedWhileHidden ? " This tab was hidden while an answer was written, which browsers may cut short; Continue goes on with it." : "";
  return lossText(loss, `The model was loaded again, and the conversation is still here.${hidden}`);
}

/** Waits until the tab is visible: a hidden one may lose its GPU again at any moment. */
function whenVisible(then: () => void): void {
  if (document.visibilityState === "visible") return then();
  document.addEventListener("visibilitychange", () => whenVisible(then), { once: true });
}

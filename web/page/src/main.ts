// Wires the page together.

import { App } from "./app.js";
import { byId, wireDialog } from "./dom.js";
import { sourceFromText } from "./source.js";

const modelDialog = byId("model-dialog", "dialog");
const app = new App(() => modelDialog.showModal());

function wireButtons(): void {
  byId("model-button", "button").addEventListener("click", () => modelDialog.showModal());
  byId("new-button", "button").addEventListener("click", () => app.newConversation());
  byId("details-button", "button").addEventListener("click", () => app.openDetails());
  byId("settings-button", "button").addEventListener("click", () => app.openSettings());
  byId("notice-close", "button").addEventListener("click", () => app.notify(""));
}

function wireChooser(): void {
  wireDialog(modelDialog);
  const files = byId("files", "input");
  byId("use-default", "button").addEventListener("click", () => {
    modelDialog.close();
    void app.propose(app.defaultSource);
  });
  byId("choose-files", "button").addEventListener("click", () => files.click());
  files.addEventListener("change", () => {
    const chosen = [...(files.files ?? [])];
    files.value = "";
    modelDialog.close();
    if (chosen.length > 0) app.takeFiles(chosen);
  });
  byId("url-form", "form").addEventListener("submit", (event) => {
    event.preventDefault();
    const source = sourceFromText(byId("url", "input").value, document.baseURI);
    byId("url-problem", "p").textContent = typeof source === "string" ? source : "";
    if (typeof source === "string") return;
    modelDialog.close();
    void app.propose(source);
  });
}

/** Accepts files dropped anywhere on the page; leaves text dragged into the field alone. */
function wireDrop(): void {
  const overlay = byId("drop", "div");
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    overlay.hidden = !app.acceptsFiles;
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) overlay.hidden = true;
  });
  addEventListener("drop", (event) => {
    overlay.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    modelDialog.close();
    app.takeFiles(event.dataTransfer?.files ?? []);
  });
}

/** A link may name a model, which is only a proposal. */
function start(): void {
  const asked = new URLSearchParams(location.search).get("model");
  const source = asked === null ? app.defaultSource : sourceFromText(asked, document.baseURI);
  if (typeof source === "string") app.notify(source);
  void (typeof source === "string" || asked === null ? app.start(app.defaultSource) : app.startWithLink(source));
}

wireButtons();
wireChooser();
wireDrop();
start();

// Continues the text that is selected in the tab, or whatever is written here. The model is in the extension: it works offline.

import { Model, support } from "./pteron/index.js";

const [text, button, status] = ["text", "button", "status"].map((id) => document.getElementById(id));

function show(state, message) {
  document.documentElement.dataset.state = state;
  status.textContent = message;
  button.textContent = state === "writing" ? "Stop" : "Continue";
  button.disabled = state === "loading" || state === "failed";
}

/** What is selected in the tab, where the browser lets an extension look. */
async function selection() {
  try {
    const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
    const [found] = await chrome.scripting.executeScript({ target: { tabId: tab.id }, func: () => getSelection().toString() });
    return found.result;
  } catch {
    return "";
  }
}

/** A file of the extension. */
async function file(name) {
  return (await fetch(chrome.runtime.getURL(`model/${name}`))).blob();
}

async function start() {
  text.value = (await selection()) || "A thread is";
  const gpu = await support();
  if (!gpu.supported) return show("failed", gpu.reason);
  const model = await Model.load(await file("model.pte"), { tokenizer: await file("tokenizer.json") });
  const session = model.session();
  let running = null;
  button.onclick = async () => {
    if (running) return running.stop();
    running = session.generate(text.value.trimEnd(), { maxTokens: 60, temperature: 0 });
    show("writing", `Writing, on ${model.info.adapter.name}`);
    try {
      for await (const token of running) text.value += token.text;
      show("ready", "Done.");
    } catch (error) {
      show("ready", error.message);
    } finally {
      running = null;
    }
  };
  show("ready", `Ready, on ${model.info.adapter.name}`);
}

start().catch((error) => show("failed", error.message));

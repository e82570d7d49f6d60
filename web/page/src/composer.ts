// The input field for messages.

import { byId, setBusy } from "./dom.js";

export interface ComposerActions {
  send(text: string): void;
  stop(): void;
}

export class Composer {
  #form = byId("composer", "form");
  #field = byId("prompt", "textarea");
  #send = byId("send", "button");
  #stop = byId("stop", "button");
  #actions: ComposerActions;

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#stop.addEventListener("click", () => actions.stop());
    this.#field.addEventListener("input", () => this.#fit());
    this.#field.addEventListener("keydown", (event) => {
      // Enter also ends an IME composition, which does not send the message. In Safari the composition is over by then, and only the
      // legacy key code tells.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.#submit();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.#stop.hidden && !document.querySelector("dialog[open]")) actions.stop();
    });
  }

  update({ visible, writing, stopping, continues }: { visible: boolean; writing: boolean; stopping: boolean; continues: boolean }): void {
    const stopHadFocus = document.activeElement === this.#stop;
    this.#form.hidden = !visible;
    this.#send.hidden = writing;
    this.#stop.hidden = !writing;
    setBusy(this.#stop, stopping);
    this.#stop.ariaLabel = stopping ? "Stopping…" : "Stop";
    this.#stop.title = stopping ? "Stopping…" : "Stop (Esc)";
    if (stopHadFocus && !writing) this.focus();
    // The button that requested this reply is gone, and the keyboard focus with it.
    if (writing && document.activeElement === document.body) this.#stop.focus();
    const label = continues ? "Begin a text" : "Write a message";
    this.#field.placeholder = `${label}…`;
    byId("prompt-label", "label").textContent = label;
    this.#fit();
  }

  fill(text: string): void {
    this.#field.value = text;
    this.#fit();
    this.#field.focus();
  }

  /** Not on touch screens, where focus brings up the keyboard. */
  focus(): void {
    if (!this.#form.hidden && matchMedia("(pointer: fine)").matches) this.#field.focus();
  }

  #submit(): void {
    // Leading space and line breaks can matter to a text that is continued.
    const text = this.#field.value;
    if (!text.trim() || !this.#stop.hidden) return;
    this.#field.value = "";
    this.#fit();
    this.#actions.send(text);
  }

  /** Resizes the field to its text, up to the limit of the style sheet. */
  #fit(): void {
    this.#send.disabled = !this.#field.value.trim();
    this.#field.style.blockSize = "auto";
    this.#field.style.blockSize = `${this.#field.scrollHeight}px`;
  }
}

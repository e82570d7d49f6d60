// The settings dialog: every change takes effect at once and is stored.

import { byId, wireDialog } from "./dom.js";
import { DEFAULTS, FIELDS, GREEDY, cleanNumber, type ModelKind, type NumberField, type Sampling, type Settings, type Theme } from "./settings.js";

const NAMES = Object.keys(FIELDS) as NumberField[];

export class SettingsDialog {
  #dialog = byId("settings-dialog", "dialog");
  #system = byId("setting-system", "textarea");
  #theme = byId("setting-theme", "select");
  #settings: Settings;
  #kind: ModelKind = "demo";
  #onChange: () => void;

  constructor(settings: Settings, onChange: () => void) {
    this.#settings = settings;
    this.#onChange = onChange;
    wireDialog(this.#dialog);
    for (const name of NAMES) this.#wireNumber(name);
    this.#system.addEventListener("input", () => {
      settings.system = this.#system.value;
      onChange();
    });
    this.#theme.addEventListener("change", () => {
      settings.theme = this.#theme.value as Theme;
      onChange();
    });
    byId("defaults", "button").addEventListener("click", () => this.#set(DEFAULTS[this.#kind]));
    byId("greedy", "button").addEventListener("click", () => this.#set(GREEDY));
  }

  /** Shows the settings for one kind of model. */
  open(kind: ModelKind): void {
    this.#kind = kind;
    byId("system-field", "div").hidden = kind !== "chat";
    this.#system.value = this.#settings.system;
    this.#theme.value = this.#settings.theme;
    this.#set({});
    this.#dialog.showModal();
  }

  #wireNumber(name: NumberField): void {
    const { min, max, step } = FIELDS[name];
    const input = inputOf(name);
    input.min = String(min);
    input.max = String(max);
    input.step = String(step);
    input.addEventListener("change", () => {
      const value = cleanNumber(name, input.valueAsNumber);
      // An empty seed is valid; any other empty field is reset to its value.
      this.#set(value !== null || name === "seed" ? { [name]: value } : {});
    });
  }

  #set(change: Partial<Sampling>): void {
    const sampling = { ...this.#settings.sampling[this.#kind], ...change };
    this.#settings.sampling[this.#kind] = sampling;
    for (const name of NAMES) inputOf(name).value = sampling[name]?.toString() ?? "";
    this.#onChange();
  }
}

function inputOf(name: NumberField): HTMLInputElement {
  return byId(`setting-${name}`, "input");
}

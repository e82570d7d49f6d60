// Settings: fields, defaults and storage.

import type { GenerateOptions } from "pteron";
import type { Store } from "./storage.js";

/** Kinds of models with different sampling defaults: the page's own, those with a chat template, and those that continue texts. */
export type ModelKind = "demo" | "chat" | "text";

export interface Sampling {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  repetitionPenalty: number;
  /** Empty for a new seed each time. */
  seed: number | null;
  maxTokens: number;
}

export type Theme = "system" | "light" | "dark";

export interface Settings {
  theme: Theme;
  system: string;
  sampling: Record<ModelKind, Sampling>;
}

/** Greedy: the argmax of the logits. */
export const GREEDY = { temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1 } as const;

export const DEFAULTS: Readonly<Record<ModelKind, Sampling>> = {
  demo: { ...GREEDY, temperature: 0.8, minP: 0.1, repetitionPenalty: 1.15, seed: null, maxTokens: 256 },
  chat: { ...GREEDY, temperature: 0.7, topP: 0.9, seed: null, maxTokens: 1024 },
  text: { ...GREEDY, seed: null, maxTokens: 256 },
};

export type NumberField = keyof Sampling;

/** The valid values of a field, for the dialog and for stored settings. Whole numbers have a step of 1. */
export const FIELDS: Readonly<Record<NumberField, { min: number; max: number; step: number }>> = {
  temperature: { min: 0, max: 2, step: 0.05 },
  topK: { min: 0, max: 1000, step: 1 },
  topP: { min: 0.01, max: 1, step: 0.01 },
  minP: { min: 0, max: 1, step: 0.01 },
  repetitionPenalty: { min: 0.5, max: 2, step: 0.01 },
  seed: { min: 0, max: 4294967295, step: 1 },
  maxTokens: { min: 1, max: 32768, step: 1 },
};

const KEY = "pteron.settings.1";

export function readSettings(store: Store): Settings {
  let kept: Partial<Settings> = {};
  try {
    kept = (JSON.parse(store.getItem(KEY) ?? "{}") as Partial<Settings> | null) ?? {};
  } catch {
    // Unreadable settings count as none.
  }
  const sampling = (kind: ModelKind): Sampling => cleanSampling(kept.sampling?.[kind], DEFAULTS[kind]);
  return {
    theme: kept.theme === "light" || kept.theme === "dark" ? kept.theme : "system",
    system: typeof kept.system === "string" ? kept.system : "",
    sampling: { demo: sampling("demo"), chat: sampling("chat"), text: sampling("text") },
  };
}

export function keepSettings(store: Store, settings: Settings): void {
  try {
    store.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Storage is full or denied: the settings last until the page is closed.
  }
}

/** A number that its field allows, or null. */
export function cleanNumber(field: NumberField, value: unknown): number | null {
  const { min, max, step } = FIELDS[field];
  if (typeof value !== "number" || !Number.isFinite(value)) return null;
  const bounded = Math.min(max, Math.max(min, value));
  return step === 1 ? Math.round(bounded) : bounded;
}

function cleanSampling(kept: Partial<Sampling> | undefined, defaults: Sampling): Sampling {
  const clean = { ...defaults };
  for (const field of Object.keys(FIELDS) as NumberField[]) {
    const value = cleanNumber(field, kept?.[field]);
    if (value !== null) clean[field] = value;
  }
  return clean;
}

/** The engine's options: disabled ones are left out, and a reply without a seed gets one. */
export function optionsOf(sampling: Sampling): GenerateOptions {
  const { temperature, topK, topP, minP, repetitionPenalty, seed, maxTokens } = sampling;
  return {
    temperature,
    maxTokens,
    ...(topK > 0 && { topK }),
    ...(topP < 1 && { topP }),
    ...(minP > 0 && { minP }),
    ...(repetitionPenalty !== 1 && { repetitionPenalty }),
    seed: seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!,
  };
}

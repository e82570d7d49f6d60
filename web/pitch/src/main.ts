// The page: finds the pitch of a file, of the sample, or of the microphone as it listens.

import { Model, support } from "pteron";
import { byId } from "../../page/src/dom.js";
import { MOST_FRAMES, type Pitch, centsOff, framesOf, nameOf, notesOf, pitchesOf, samplesOf, semitoneOf } from "./notes.js";
import { draw } from "./plot.js";
import { type Microphone, decode, record } from "./sound.js";

declare const PITCH_INTEGRITY: string | undefined;

type State = "checking" | "unsupported" | "loading" | "ready" | "working" | "listening" | "failed";

const HOP_SECONDS = 0.01;
/** Frames of a call while it listens, and the most that wait: a slow GPU skips what it cannot follow. */
const LIVE_FRAMES = 10;
const MOST_WAITING = 100;
/** The model is this sure where a note is shown. */
const SURE = 0.5;

const canvas = byId("plot", "canvas");
const buttons = { microphone: byId("microphone", "button"), sample: byId("sample", "button"), choose: byId("choose", "button") };
const file = byId("file", "input");

function show(state: State, status: string): void {
  document.documentElement.dataset.state = state;
  byId("status", "p").textContent = status;
  buttons.microphone.disabled = state !== "ready" && state !== "listening";
  buttons.microphone.textContent = state === "listening" ? "Stop listening" : "Listen to the microphone";
  buttons.sample.disabled = buttons.choose.disabled = state !== "ready";
}

function complain(error: unknown): void {
  byId("problem", "p").textContent = error instanceof Error ? error.message : String(error);
}

function showNow(pitch: Pitch | undefined): void {
  const sure = pitch !== undefined && pitch.confidence >= SURE;
  byId("note", "span").textContent = sure ? nameOf(semitoneOf(pitch.hertz)) : "–";
  const off = sure ? centsOff(pitch.hertz) : 0;
  byId("hertz", "span").textContent = sure ? `${pitch.hertz.toFixed(1)} Hz, ${off < 0 ? "−" : "+"}${Math.abs(off)} cents` : "";
}

function showNotes(pitches: readonly Pitch[]): void {
  const items = notesOf(pitches, SURE).map(({ name, hertz, start, end }) => {
    const item = document.createElement("li");
    item.textContent = `${name} · ${hertz.toFixed(1)} Hz · ${start.toFixed(2)}–${end.toFixed(2)} s`;
    item.dataset.note = name;
    return item;
  });
  byId("notes", "ol").replaceChildren(...items);
}

/** The pitch of each frame of a sound that one call takes. */
async function run(model: Model, sound: Float32Array): Promise<Pitch[]> {
  const [activations] = await model.call([{ dtype: "float32", shape: [1, sound.length], data: sound }]);
  if (activations?.dtype !== "float32") throw new Error("the model has another output");
  return pitchesOf(activations.data);
}

/** Runs on a whole sound, part by part, and draws what is known. */
async function analyse(model: Model, sound: Float32Array): Promise<void> {
  const frames = Math.max(2, framesOf(sound.length));
  const seconds = Math.max(1, frames * HOP_SECONDS);
  const pitches: Pitch[] = [];
  const start = performance.now();
  for (let first = 0; first < frames; first += MOST_FRAMES / 2) {
    const count = Math.max(2, Math.min(MOST_FRAMES / 2, frames - first));
    const part = new Float32Array(samplesOf(count));
    part.set(sound.subarray(first * 160, first * 160 + part.length));
    pitches.push(...(await run(model, part)).slice(0, frames - first));
    draw(canvas, pitches, seconds);
    showNow(pitches.filter(({ confidence }) => confidence >= SURE).at(-1));
    showNotes(pitches);
  }
  console.info(`${frames} frames in ${((performance.now() - start) / 1000).toFixed(2)} s`);
  show("ready", `${seconds.toFixed(1)} s of sound, on ${model.info.adapter.name}.`);
}

/** Follows the microphone until the button is pressed again. */
async function listen(model: Model, stopped: Promise<void>): Promise<void> {
  let waiting = new Float32Array(0);
  let wake = () => {};
  let ended = false;
  const microphone: Microphone = await record((chunk) => {
    const joined = new Float32Array(waiting.length + chunk.length);
    joined.set(waiting);
    joined.set(chunk, waiting.length);
    waiting = joined;
    wake();
  });
  void stopped.then(() => ((ended = true), wake()));
  const pitches: Pitch[] = [];
  try {
    show("listening", "Listening. Sing, whistle or play.");
    while (!ended) {
      const ready = framesOf(waiting.length);
      if (ready < LIVE_FRAMES) {
        await new Promise<void>((resolve) => (wake = resolve));
        continue;
      }
      if (ready > MOST_WAITING) waiting = waiting.slice((ready - LIVE_FRAMES) * 160);
      const count = Math.min(MOST_FRAMES, framesOf(waiting.length));
      const sound = waiting.slice(0, samplesOf(count));
      waiting = waiting.slice(count * 160);
      pitches.push(...(await run(model, sound)));
      draw(canvas, pitches, 10);
      showNow(pitches.at(-1));
      showNotes(pitches.slice(-1000));
    }
  } finally {
    await microphone.stop();
  }
}

/** Does one thing at a time, and says what went wrong. */
async function guarded(work: () => Promise<void>): Promise<void> {
  byId("problem", "p").textContent = "";
  try {
    await work();
  } catch (error) {
    complain(error);
  }
  if (document.documentElement.dataset.state !== "failed") show("ready", byId("status", "p").textContent ?? "");
}

function wire(model: Model): void {
  let stop: (() => void) | null = null;
  const analyseFile = (bytes: () => Promise<ArrayBuffer>) =>
    guarded(async () => {
      show("working", "Working…");
      await analyse(model, await decode(await bytes()));
    });
  buttons.sample.addEventListener("click", () => void analyseFile(async () => (await fetch("melody.wav")).arrayBuffer()));
  buttons.choose.addEventListener("click", () => file.click());
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    file.value = "";
    if (chosen) void analyseFile(() => chosen.arrayBuffer());
  });
  buttons.microphone.addEventListener("click", () => {
    if (stop) return stop();
    const stopped = new Promise<void>((resolve) => (stop = resolve));
    void guarded(() => listen(model, stopped)).then(() => {
      stop = null;
      show("ready", "Stopped listening.");
    });
  });
  void model.lost.then(({ reason }) => {
    show("failed", "");
    complain(`The GPU was lost: ${reason}. Load the page again.`);
  });
}

async function start(): Promise<void> {
  draw(canvas, [], 10);
  const found = await support();
  if (!found.supported) {
    show("unsupported", "");
    return complain(`This page needs WebGPU: ${found.reason}`);
  }
  show("loading", "Loading the model, 2 MB…");
  const integrity = typeof PITCH_INTEGRITY === "undefined" ? undefined : PITCH_INTEGRITY;
  const model = await Model.load(new URL("program.pte", document.baseURI).href, integrity === undefined ? {} : { integrity });
  wire(model);
  show("ready", `Ready on ${model.info.adapter.name}.`);
}

start().catch((error: unknown) => {
  show("failed", "");
  complain(error);
});

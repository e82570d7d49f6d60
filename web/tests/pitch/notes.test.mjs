// Pitches and notes, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, test } from "node:test";

import { build } from "esbuild";

const at = (name) => fileURLToPath(new URL(`../../../${name}`, import.meta.url));
const { outputFiles } = await build({ entryPoints: [at("web/pitch/src/notes.ts")], bundle: true, format: "esm", write: false });
const notes = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

describe("pitches", () => {
  test("are the mean around the largest class", () => {
    const frame = new Float32Array(720);
    frame[200] = 0.5;
    frame[201] = 0.5;
    frame[360 + 3] = 1;
    const [first, second] = notes.pitchesOf(frame);
    assert.ok(Math.abs(1200 * Math.log2(first.hertz / 10) - (200.5 * 20 + 1997.3794)) < 1e-3);
    assert.ok(Math.abs(1200 * Math.log2(second.hertz / 10) - (3 * 20 + 1997.3794)) < 1e-3);
    assert.equal(second.confidence, 1);
    assert.deepEqual(notes.pitchesOf(new Float32Array(359)), []);
  });

  test("of PyTorch's output are those of the melody", () => {
    const bytes = readFileSync(at("models/crepe_tiny/call0.out0.bin"));
    const pitches = notes.pitchesOf(new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)));
    assert.equal(pitches.length, 12);
    assert.equal(notes.nameOf(notes.semitoneOf(pitches[0].hertz)), "A3");
    assert.equal(notes.nameOf(notes.semitoneOf(pitches.at(-1).hertz)), "C♯4");
  });
});

describe("notes", () => {
  const frames = (hertz, confidence, count) => Array.from({ length: count }, () => ({ hertz, confidence }));

  test("have names, octaves and distances", () => {
    assert.deepEqual([440, 261.63, 27.5, 32.7].map((hertz) => notes.nameOf(notes.semitoneOf(hertz))), ["A4", "C4", "A0", "C1"]);
    assert.equal(notes.centsOff(440 * 2 ** (30 / 1200)), 30);
    assert.equal(notes.centsOff(440 * 2 ** (-20 / 1200)), -20);
  });

  test("are stretches of one semitone that last and are sure", () => {
    const found = notes.notesOf([...frames(220, 0.9, 10), ...frames(300, 0.9, 2), ...frames(440, 0.9, 10), ...frames(440, 0.1, 30)]);
    assert.deepEqual(found.map(({ name }) => name), ["A3", "A4"]);
    assert.deepEqual([found[1].start, found[1].end], [0.12, 0.22]);
    assert.deepEqual(notes.notesOf([]), []);
  });

  test("frames and samples belong together", () => {
    assert.deepEqual([1023, 1024, 1183, 1184, 21344].map(notes.framesOf), [0, 1, 1, 2, 128]);
    assert.equal(notes.samplesOf(128), 21344);
  });
});

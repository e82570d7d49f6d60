// Pitch over time, on a logarithmic scale.

import type { Pitch } from "./notes.js";
import { HOP, RATE, nameOf } from "./notes.js";

/** From C2 to C7, in semitones. */
const LOW = 36;
const HIGH = 96;

/** Draws frames from left to right; where there are more than fit, the last ones. */
export function draw(canvas: HTMLCanvasElement, pitches: readonly Pitch[], seconds: number): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { width, height } = canvas;
  const colour = getComputedStyle(canvas);
  const frames = Math.max(1, Math.round((seconds * RATE) / HOP));
  const first = Math.max(0, pitches.length - frames);
  const x = (frame: number) => ((frame - first) / frames) * width;
  const y = (semitone: number) => height - ((semitone - LOW) / (HIGH - LOW)) * height;
  context.clearRect(0, 0, width, height);
  // Colours that the style sheet has resolved for the theme.
  context.fillStyle = colour.caretColor;
  context.strokeStyle = colour.borderTopColor;
  context.font = "16px sans-serif";
  for (let octave = LOW; octave < HIGH; octave += 12) {
    context.beginPath();
    context.moveTo(0, y(octave));
    context.lineTo(width, y(octave));
    context.stroke();
    context.fillText(nameOf(octave), 6, y(octave) - 4);
  }
  context.fillStyle = colour.color;
  for (let frame = first; frame < pitches.length; frame += 1) {
    const { hertz, confidence } = pitches[frame]!;
    context.globalAlpha = confidence ** 2;
    context.fillRect(x(frame), y(69 + 12 * Math.log2(hertz / 440)) - 3, Math.max(3, width / frames), 6);
  }
  context.globalAlpha = 1;
}

// From the model's activations to pitches, and from pitches to notes. No document here.

/** Samples per second of the model's sound, samples of a frame, and samples from one frame to the next. */
export const RATE = 16_000;
export const FRAME = 1024;
export const HOP = 160;
/** The most frames of a call, as the program was exported. */
export const MOST_FRAMES = 128;

const CLASSES = 360;
/** Cents between two classes, and those of the first above 10 Hz. */
const STEP = 20;
const FIRST = 1997.3794084376191;
const NAMES = ["C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B"];

/** The pitch of a frame. */
export interface Pitch {
  hertz: number;
  /** From 0 to 1: how sure the model is that there is one. */
  confidence: number;
}

/** A stretch of frames with the same nearest semitone. */
export interface Note {
  name: string;
  hertz: number;
  /** In seconds. */
  start: number;
  end: number;
}

/** The samples that a number of frames needs. */
export const samplesOf = (frames: number): number => FRAME + (frames - 1) * HOP;

/** The whole frames in a number of samples. */
export const framesOf = (samples: number): number => Math.max(0, Math.floor((samples - FRAME) / HOP) + 1);

/** The pitch of each frame: the mean of the classes around the largest one, weighted by their activations. */
export function pitchesOf(activations: Float32Array): Pitch[] {
  const pitches: Pitch[] = [];
  for (let start = 0; start + CLASSES <= activations.length; start += CLASSES) {
    const frame = activations.subarray(start, start + CLASSES);
    let peak = 0;
    for (let index = 1; index < CLASSES; index += 1) if (frame[index]! > frame[peak]!) peak = index;
    let sum = 0;
    let total = 0;
    for (let index = Math.max(0, peak - 4); index < Math.min(CLASSES, peak + 5); index += 1) {
      sum += frame[index]! * index * STEP;
      total += frame[index]!;
    }
    const cents = (total > 0 ? sum / total : peak * STEP) + FIRST;
    pitches.push({ hertz: 10 * 2 ** (cents / 1200), confidence: frame[peak]! });
  }
  return pitches;
}

/** The nearest semitone, as MIDI counts. */
export const semitoneOf = (hertz: number): number => Math.round(69 + 12 * Math.log2(hertz / 440));

/** The name of a semitone, with its octave: A4 is 440 Hz. */
export function nameOf(semitone: number): string {
  return `${NAMES[((semitone % 12) + 12) % 12]!}${Math.floor(semitone / 12) - 1}`;
}

/** How far a pitch is from its nearest semitone, in cents. */
export const centsOff = (hertz: number): number => Math.round(1200 * Math.log2(hertz / 440) + 6900 - 100 * semitoneOf(hertz));

/** The notes of frames: those that last 50 ms or more, and that the model is sure of. */
export function notesOf(pitches: readonly Pitch[], least = 0.5): Note[] {
  const notes: Note[] = [];
  let start = 0;
  const key = (pitch: Pitch | undefined) => (pitch && pitch.confidence >= least ? semitoneOf(pitch.hertz) : null);
  for (let index = 1; index <= pitches.length; index += 1) {
    const semitone = key(pitches[start]);
    if (index < pitches.length && key(pitches[index]) === semitone) continue;
    if (semitone !== null && index - start >= 5) {
      const part = pitches.slice(start, index);
      const hertz = part.reduce((sum, pitch) => sum + pitch.hertz, 0) / part.length;
      notes.push({ name: nameOf(semitone), hertz, start: (start * HOP) / RATE, end: (index * HOP) / RATE });
    }
    start = index;
  }
  return notes;
}

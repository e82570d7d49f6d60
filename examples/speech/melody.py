"""Finds where somebody sings, and which notes: `python examples/speech/melody.py [sound.wav]`.

CREPE tiny estimates a pitch, and how sure it is, for each hundredth of a second. Without an argument it listens to the melody
beside the model. A sound must have 16,000 samples per second, of 16 bits.
"""

import sys
import wave
from itertools import groupby
from pathlib import Path

import numpy as np
from pteron.runtime import Runtime

FOLDER = Path(__file__).parents[2] / "models" / "crepe_tiny"
RATE, HOP, FRAME = 16_000, 160, 1024
#: Frames of a call, how sure the model must be, and the frames of the shortest note.
FRAMES, VOICED, SHORTEST = 100, 0.5, 5
NOTES = ["C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B"]


def read(path):
    """The first channel of a WAV file, from -1 to 1."""
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getsampwidth()) != (RATE, 2):
            raise SystemExit(f"{path} must have {RATE:,} samples per second, of 16 bits")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples[:: file.getnchannels()].astype(np.float32) / 32768


def semitones(sound):
    """The nearest semitone of each frame, counted as MIDI does, and `None` where nobody sings."""
    forward = Runtime.get().load_program(FOLDER / "program.pte").load_method("forward")
    count = max(0, len(sound) - FRAME) // HOP + 1
    for first in range(0, count, FRAMES):
        frames = max(2, min(FRAMES, count - first))
        part = np.zeros(FRAME + (frames - 1) * HOP, np.float32)
        piece = sound[first * HOP :][: len(part)]
        part[: len(piece)] = piece
        (activations,) = forward.execute([part[np.newaxis]])
        for activation in activations[: count - first]:
            cents = 20 * int(activation.argmax()) + 1997.3794
            hertz = 10 * 2 ** (cents / 1200)
            yield round(69 + 12 * np.log2(hertz / 440)) if activation.max() >= VOICED else None


def main():
    """Prints the notes with their times."""
    path = sys.argv[1] if len(sys.argv) > 1 else FOLDER / "melody.wav"
    frame = 0
    for semitone, group in groupby(semitones(read(path))):
        length = len(list(group))
        if semitone is not None and length >= SHORTEST:
            start, end = (at * HOP / RATE for at in (frame, frame + length))
            print(f"{start:.2f} s to {end:.2f} s: {NOTES[semitone % 12]}{semitone // 12 - 1}")
        frame += length


if __name__ == "__main__":
    main()

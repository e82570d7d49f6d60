//! Finds the pitch of a sound: reads a WAV file, runs CREPE tiny on its frames, and prints the notes.
//!
//! `cargo run -p pteron --features media --example pitch -- [sound.wav]`; without an argument it listens to the melody beside the model.

#![allow(clippy::cast_possible_truncation, reason = "semitones are small numbers")]

use std::path::PathBuf;

use pteron::media::{Audio, MediaLimits};
use pteron::{Gpu, GpuOptions, LoadOptions, Program, Tensor, block_on};

/// Samples per second that the model was trained with, samples of a frame, and samples from one frame to the next.
const RATE: u32 = 16_000;
const FRAME: usize = 1024;
const HOP: usize = 160;
/// Frames of a call.
const FRAMES: usize = 100;
/// Frames whose largest activation is smaller have no pitch.
const VOICED: f32 = 0.5;
/// The notes of the melody beside the model.
const MELODY: [&str; 4] = ["A3", "C♯4", "E4", "A4"];
const NOTES: [&str; 12] = ["C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/crepe_tiny");
    let given = std::env::args().nth(1).map(PathBuf::from);
    let is_known = given.is_none();
    let sound = given.unwrap_or_else(|| folder.join("melody.wav"));
    let limits = MediaLimits::default();
    let sound = Audio::decode_wav(&std::fs::read(sound)?, &limits)?.resample(RATE, &limits)?;
    let pitches = block_on(find_pitches(&Program::open(folder.join("program.pte"))?, sound.samples()))?;
    let mut notes = print_notes(&pitches);
    notes.dedup();
    if is_known && notes != MELODY {
        return Err(format!("the melody is {}", MELODY.join(", ")).into());
    }
    Ok(())
}

/// Returns the pitch of each frame in Hz; `None` where there is none.
async fn find_pitches(program: &Program, sound: &[f32]) -> pteron::Result<Vec<Option<f32>>> {
    let gpu = Gpu::open(&GpuOptions::default()).await?;
    let method = program.load(&gpu, "forward", &LoadOptions::default()).await?;
    let mut state = method.new_state()?;
    let frames = sound.len().saturating_sub(FRAME) / HOP + 1;
    let mut pitches = Vec::new();
    for first in (0..frames).step_by(FRAMES) {
        // At least two frames; after the end there is silence.
        let count = FRAMES.min(frames - first).max(2);
        let length = FRAME + (count - 1) * HOP;
        let mut part: Vec<f32> = sound.iter().skip(first * HOP).take(length).copied().collect();
        part.resize(length, 0.0);
        let input = Tensor::from_f32(&[1, u32::try_from(length).unwrap_or(u32::MAX)], &part)?;
        let outputs = method.call(&mut state, &[input]).await?;
        let activations = outputs.first().and_then(Tensor::to_f32).unwrap_or_default();
        pitches.extend(activations.chunks_exact(360).take(frames - first).map(pitch));
    }
    Ok(pitches)
}

/// The mean of the classes around the largest one, weighted by their activation. Classes are 20 cents apart.
fn pitch(activation: &[f32]) -> Option<f32> {
    let (peak, &most) = activation.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    if most < VOICED {
        return None;
    }
    let near = peak.saturating_sub(4)..(peak + 5).min(activation.len());
    let (mut sum, mut total) = (0.0, 0.0);
    for class in near {
        sum += activation[class] * (class as f32 * 20.0);
        total += activation[class];
    }
    let cents = sum / total + 1_997.379_4;
    Some(10.0 * (cents / 1200.0).exp2())
}

/// Prints the notes with their times, and returns their names: a note lasts as long as the nearest semitone is the same.
fn print_notes(pitches: &[Option<f32>]) -> Vec<String> {
    let semitone = |pitch: &f32| (69.0 + 12.0 * (pitch / 440.0).log2()).round() as i32;
    let mut start = 0;
    let mut names = Vec::new();
    for part in pitches.chunk_by(|a, b| a.as_ref().map(semitone) == b.as_ref().map(semitone)) {
        let time = |frame: usize| frame as f32 * HOP as f32 / RATE as f32;
        let voiced: Vec<f32> = part.iter().copied().flatten().collect();
        // Shorter ones are transitions.
        if let (Some(first), true) = (voiced.first(), part.len() >= 5) {
            let mean = voiced.iter().sum::<f32>() / voiced.len() as f32;
            let note = semitone(first);
            let name = format!("{}{}", NOTES[usize::try_from(note.rem_euclid(12)).unwrap_or(0)], note.div_euclid(12) - 1);
            let (from, to) = (time(start), time(start + part.len()));
            println!("{from:.2} s to {to:.2} s: {name} ({mean:.1} Hz)");
            names.push(name);
        }
        start += part.len();
    }
    names
}

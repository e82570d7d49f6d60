//! Finds faces in a picture with MTCNN: a small network proposes windows at several scales, two larger ones judge and refine them.
//!
//! `cargo run -p pteron --features media --example faces -- [picture.jpg]`; without an argument it looks at the picture beside the model.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and positions of pixels")]

mod boxes;

use std::path::PathBuf;

use boxes::{Candidate, Overlap, suppress};
use pteron::media::{Image, MediaLimits, PixelFormat};
use pteron::{Gpu, GpuOptions, LoadOptions, Method, Program, State, Tensor, block_on};

/// The face in the picture beside the model, as PyTorch finds it: left, top, right, bottom.
const EXPECTED: [f32; 4] = [89.6, 31.9, 132.6, 87.0];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The smallest face, in pixels, and the windows that the first network looks at: their side, and their distance.
const SMALLEST: f32 = 24.0;
const WINDOW: f32 = 12.0;
const STRIDE: f32 = 2.0;
/// The ratio of a scale to the next.
const RATIO: f32 = 0.709;
/// The longest side that the first network takes.
const LONGEST: u32 = 320;

fn main() -> Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/mtcnn");
    let given = std::env::args().nth(1).map(PathBuf::from);
    let is_known = given.is_none();
    let picture = given.unwrap_or_else(|| folder.join("astronaut.jpg"));
    let picture = Image::decode(&std::fs::read(picture)?, &MediaLimits::default())?;
    let faces = block_on(async {
        let gpu = Gpu::open(&GpuOptions::default()).await?;
        let program = Program::open(folder.join("program.pte"))?;
        Detector::load(&gpu, &program).await?.find(&picture).await
    })?;
    for (index, (face, points)) in faces.iter().enumerate() {
        let Candidate { left, top, right, bottom, score } = face;
        println!("face {index}: {left:.0}, {top:.0} to {right:.0}, {bottom:.0} ({:.1} %)", score * 100.0);
        for (name, (x, y)) in ["left eye", "right eye", "nose", "mouth, left", "mouth, right"].iter().zip(points) {
            println!("  {name}: {x:.0}, {y:.0}");
        }
    }
    let count = if faces.len() == 1 { "1 face".to_owned() } else { format!("{} faces", faces.len()) };
    println!("{count} in {} × {} pixels", picture.width(), picture.height());
    let near = |(face, _): &(Candidate, Vec<(f32, f32)>)| {
        let edges = [face.left, face.top, face.right, face.bottom];
        edges.iter().zip(EXPECTED).all(|(edge, expected)| (edge - expected).abs() < 5.0)
    };
    if is_known && !(faces.len() == 1 && faces.iter().all(near)) {
        return Err(format!("PyTorch finds one face, at {EXPECTED:?}").into());
    }
    Ok(())
}

/// A network and its state.
struct Network {
    method: Method,
    state: State,
    format: PixelFormat,
}

impl Network {
    async fn load(gpu: &Gpu, program: &Program, name: &str) -> Result<Self> {
        let method = program.load(gpu, name, &LoadOptions::default()).await?;
        let state = method.new_state()?;
        // Pixels are (value - 127.5) / 128.
        let format = PixelFormat::of_input(&method.inputs()[0], None)?.with_normalisation(&[0.5], &[128.0 / 255.0])?;
        Ok(Self { method, state, format })
    }

    /// Runs on a picture; returns all outputs as floats, with their shapes.
    async fn run(&mut self, picture: &Image) -> Result<Vec<(Vec<u32>, Vec<f32>)>> {
        let input = picture.to_tensor(&self.format)?;
        let outputs = self.method.call(&mut self.state, &[input]).await?;
        let floats = |tensor: &Tensor| Some((tensor.shape().to_vec(), tensor.to_f32()?));
        outputs.iter().map(floats).collect::<Option<Vec<_>>>().ok_or_else(|| "an output is not of floats".into())
    }
}

struct Detector {
    proposals: Network,
    refinement: Network,
    output: Network,
}

impl Detector {
    async fn load(gpu: &Gpu, program: &Program) -> Result<Self> {
        Ok(Self {
            proposals: Network::load(gpu, program, "pnet").await?,
            refinement: Network::load(gpu, program, "rnet").await?,
            output: Network::load(gpu, program, "onet").await?,
        })
    }

    /// Returns faces with their eyes, nose and corners of the mouth.
    async fn find(&mut self, picture: &Image) -> Result<Vec<(Candidate, Vec<(f32, f32)>)>> {
        let candidates = self.propose(picture).await?;
        let mut refined = Vec::new();
        for candidate in candidates {
            let outputs = self.refinement.run(&cut(picture, &candidate, 24)?).await?;
            let score = outputs[1].1[1];
            if score > 0.7 {
                refined.push(Candidate { score, ..candidate }.shifted(&outputs[0].1).squared());
            }
        }
        let mut faces = Vec::new();
        for candidate in suppress(refined, 0.7, Overlap::Union) {
            let outputs = self.output.run(&cut(picture, &candidate, 48)?).await?;
            let score = outputs[1].1[1];
            if score > 0.7 {
                let (width, height) = (candidate.right - candidate.left, candidate.bottom - candidate.top);
                let points = &outputs[2].1;
                let point =
                    |index: usize| (candidate.left + points[index] * width, candidate.top + points[index + 5] * height);
                faces.push((Candidate { score, ..candidate }.shifted(&outputs[0].1), (0..5).map(point).collect()));
            }
        }
        let kept = suppress(faces.iter().map(|(face, _)| *face).collect(), 0.7, Overlap::Smaller);
        let same = |a: &Candidate, b: &Candidate| (a.left, a.top, a.score) == (b.left, b.top, b.score);
        faces.retain(|(face, _)| kept.iter().any(|kept| same(kept, face)));
        Ok(faces)
    }

    /// Looks for windows that may contain a face, at all scales.
    async fn propose(&mut self, picture: &Image) -> Result<Vec<Candidate>> {
        let mut all = Vec::new();
        let (width, height) = (picture.width() as f32, picture.height() as f32);
        let mut scale = (WINDOW / SMALLEST).min(LONGEST as f32 / width.max(height));
        while width.min(height) * scale >= WINDOW {
            // The network takes even sides of 14 pixels or more.
            let even = |side: f32| ((side * scale) as u32 + 1).next_multiple_of(2).clamp(14, LONGEST);
            let scaled = picture.resize(even(width), even(height))?;
            let outputs = self.proposals.run(&scaled).await?;
            let (shape, scores) = &outputs[1];
            let (rows, columns) = (shape[2] as usize, shape[3] as usize);
            let cells = rows * columns;
            let mut found = Vec::new();
            for (cell, &score) in scores[cells..].iter().enumerate().filter(|(_, score)| **score > 0.6) {
                let (x, y) = ((cell % columns) as f32 * STRIDE, (cell / columns) as f32 * STRIDE);
                let (across, down) = (width / scaled.width() as f32, height / scaled.height() as f32);
                let window = Candidate {
                    left: x * across,
                    top: y * down,
                    right: (x + WINDOW) * across,
                    bottom: (y + WINDOW) * down,
                    score,
                };
                let offsets: Vec<f32> = (0..4).map(|edge| outputs[0].1[edge * cells + cell]).collect();
                found.push(window.shifted(&offsets));
            }
            all.extend(suppress(found, 0.5, Overlap::Union));
            scale *= RATIO;
        }
        Ok(suppress(all, 0.7, Overlap::Union).iter().map(Candidate::squared).collect())
    }
}

/// Cuts a candidate out of a picture, at the size that a network takes.
fn cut(picture: &Image, candidate: &Candidate, side: u32) -> Result<Image> {
    let length = (candidate.right - candidate.left).round().max(1.0) as u32;
    let part = picture.crop(candidate.left.round() as i64, candidate.top.round() as i64, length, length)?;
    Ok(part.resize(side, side)?)
}

//! Reads the digits in a picture: each is cut out, scaled to the eight by eight pixels that the network takes, and classified.
//!
//! `cargo run -p pteron-examples --example classify -- [picture.png]`; digits stand side by side, each as wide as it is high.

use std::path::Path;

use pteron::media::{Image, MediaLimits, PixelFormat};
use pteron::{Gpu, GpuOptions, LoadOptions, Program, Tensor, block_on};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/classify"));
    let given = std::env::args().nth(1);
    let path = given.as_ref().map_or_else(|| folder.join("digits.png"), Into::into);
    let picture = Image::decode(&std::fs::read(path)?, &MediaLimits::default())?;

    let gpu = block_on(Gpu::open(&GpuOptions::default()))?;
    let method = block_on(Program::open(folder.join("digits.pte"))?.load(&gpu, "forward", &LoadOptions::default()))?;
    let mut state = method.new_state()?;
    let format = PixelFormat::of_input(&method.inputs()[0], None)?;

    let (side, mut digits) = (picture.height(), String::new());
    for left in (0..picture.width()).step_by(side.max(1) as usize) {
        let digit = picture.crop(left.into(), 0, side, side)?.resize(8, 8)?;
        let outputs = block_on(method.call(&mut state, &[digit.to_tensor(&format)?]))?;
        let probabilities = outputs.first().and_then(Tensor::to_f32).unwrap_or_default();
        let best = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let (class, probability) = best.ok_or("the network returned nothing")?;
        println!("{class} ({:.1} %)", probability * 100.0);
        digits += &class.to_string();
    }
    println!("{digits}");
    if given.is_none() && digits != "0123456789" {
        return Err("the picture shows 0123456789".into());
    }
    Ok(())
}

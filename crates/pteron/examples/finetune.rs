//! Fine-tunes a layer on the GPU: a program exported for it computes the loss, the gradient and a step of `AdamW` in one call, and each call
//! takes the weights and moments that the previous one returned. Prints each loss beside PyTorch's.
//!
//! `cargo run -p pteron --example finetune`

use std::path::{Path, PathBuf};

use pteron::{Gpu, GpuOptions, LoadOptions, Program, ScalarType, Tensor, block_on};

/// The inputs of a step, in order: the batch, the weights, their moments, and the steps of the weights' 4-bit codes.
const FILES: [&str; 6] = ["x", "labels", "weights", "", "", "steps"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/training/finetune");
    let losses = floats(&std::fs::read(folder.join("losses.bin"))?);
    for (step, (loss, pytorch)) in block_on(train(&folder, losses.len()))?.iter().zip(&losses).enumerate() {
        println!("step {:2}: loss {loss:.5}, PyTorch {pytorch:.5}", step + 1);
        if (loss - pytorch).abs() > 1e-3 {
            return Err(format!("step {} differs by {}", step + 1, (loss - pytorch).abs()).into());
        }
    }
    Ok(())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// Runs the steps and returns the loss before each.
async fn train(folder: &Path, steps: usize) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let program = Program::open(folder.join("program.pte"))?;
    let gpu = Gpu::open(&GpuOptions::default()).await?;
    let method = program.load(&gpu, "forward", &LoadOptions::default()).await?;
    let mut state = method.new_state()?;
    let mut inputs = Vec::new();
    for (input, file) in method.inputs().iter().zip(FILES) {
        inputs.push(match file {
            // Moments start at 0.
            "" => Tensor::zeros(input.scalar_type, &input.shape)?,
            file => Tensor::new(input.scalar_type, &input.shape, std::fs::read(folder.join(file).with_extension("bin"))?)?,
        });
    }
    let mut losses = Vec::new();
    for _ in 0..steps {
        let mut outputs = method.call(&mut state, &inputs).await?.into_iter();
        let loss =
            outputs.next().filter(|loss| loss.scalar_type() == ScalarType::Float).ok_or("no loss among the outputs")?;
        losses.push(floats(loss.bytes())[0]);
        // Weights and both moments; the last output is the weights in 4 bits.
        for (input, output) in inputs[2..5].iter_mut().zip(outputs) {
            *input = output;
        }
    }
    Ok(losses)
}

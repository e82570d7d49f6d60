//! Loads a method of a `.pte` file and calls it with zeros of its largest shapes.
//!
//! `cargo run -p pteron --example call_method -- [model.pte] [method]`; without arguments it runs a small model of the tests.

use std::path::PathBuf;

use pteron::{Gpu, GpuOptions, LoadOptions, Program, Tensor, block_on};

fn main() -> pteron::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let bundled = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llama/tiny_4w/program.pte");
    let program = Program::open(arguments.next().map_or_else(bundled, PathBuf::from))?;
    let name = arguments.next().unwrap_or_else(|| "forward".to_owned());
    block_on(async {
        let gpu = Gpu::open(&GpuOptions::default()).await?;
        let method = program.load(&gpu, &name, &LoadOptions::default()).await?;
        let mut state = method.new_state()?;
        let inputs = method.inputs().iter().map(|input| Tensor::zeros(input.scalar_type, &input.shape));
        let inputs = inputs.collect::<pteron::Result<Vec<_>>>()?;
        for (index, output) in method.call(&mut state, &inputs).await?.iter().enumerate() {
            println!("output {index}: {} {:?}", output.scalar_type().name(), output.shape());
        }
        Ok(())
    })
}

//! Goes on from a prompt: `cargo run --release -p pteron-llm --example generate -- "To read a file in Rust, you"`.

use std::io::Write;

use pteron::{Gpu, GpuOptions, Program, block_on};
use pteron_llm::{GenerationOptions, Model, ModelOptions, ParseSpecial, Session, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "To read a file in Rust, you".to_owned());
    let gpu = block_on(Gpu::open(&GpuOptions::default()))?;
    let program = Program::open("models/demo/model.pte")?;
    let tokenizer = Tokenizer::open("models/demo/tokenizer.json")?;
    let model = block_on(Model::load(&gpu, &program, tokenizer, &ModelOptions::default()))?;
    let tokens = model.tokenizer().encode_prompt(&prompt, ParseSpecial::No)?;
    let mut session = Session::new(&model)?;
    let options = GenerationOptions { max_tokens: Some(100), ..GenerationOptions::default() };
    let mut text = session.generate(&tokens, options)?;
    while let Some(piece) = block_on(text.next())? {
        print!("{}", piece.text);
        std::io::stdout().flush()?;
    }
    Ok(())
}

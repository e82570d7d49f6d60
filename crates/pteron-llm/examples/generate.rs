//! Continues a prompt and prints the text as it is generated:
//! `cargo run --release -p pteron-llm --example generate -- "To read a file in Rust, you"`.

use std::io::Write;

use pteron::block_on;
use pteron_llm::{GenerationOptions, Model, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "To read a file in Rust, you".to_owned());
    // The bundled model. Any folder with one .pte file and its tokenizer works.
    let model = Model::open_blocking(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo"))?;
    let mut session = Session::new(&model)?;
    let tokens = model.text_prompt(&prompt)?;
    let mut generation = session.generate(&tokens, GenerationOptions::default().with_max_tokens(40))?;
    print!("{prompt}");
    while let Some(token) = block_on(generation.next())? {
        print!("{}", token.text);
        std::io::stdout().flush()?;
    }
    println!("\n[{:?}]", generation.finish());
    Ok(())
}

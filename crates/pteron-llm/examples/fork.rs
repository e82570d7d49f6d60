//! Continues one prompt in two ways: `cargo run --release -p pteron-llm --example fork`.

use pteron::block_on;
use pteron_llm::{GenerationOptions, Model, Sampling, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open_blocking(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo"))?;
    let prompt = model.text_prompt("The compiler checks that every reference")?;
    let mut session = Session::new(&model)?;
    // Prefill the prompt once.
    block_on(session.logits(&prompt))?;
    for seed in [1, 2] {
        // A fork copies the KV cache: only the prompt's last token runs again.
        let mut fork = session.fork()?;
        println!("seed {seed}: {} of {} prompt tokens are cached", fork.cached_prefix_len(&prompt), prompt.len());
        let sampling = Sampling::default().with_temperature(0.9).with_seed(seed);
        let options = GenerationOptions::default().with_sampling(sampling).with_max_tokens(24);
        println!("{}", block_on(fork.generate(&prompt, options)?.text())?);
    }
    // The original is where it was.
    assert_eq!(session.tokens(), prompt);
    Ok(())
}

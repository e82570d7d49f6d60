//! A program that has nothing but the packages: it continues the bundled model's prompts and compares with PyTorch.

use pteron::block_on;
use pteron_llm::{GenerationOptions, Model, Session};

/// Tokens that are compared of each prompt.
const TOKENS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("pteron-consumer-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("model.pte"), pteron_demo_model::PROGRAM)?;
    std::fs::write(folder.join("tokenizer.json"), pteron_demo_model::TOKENIZER)?;
    let model = Model::open_blocking(&folder)?;
    std::fs::remove_dir_all(&folder)?;

    let goldens: serde_json::Value = serde_json::from_str(pteron_demo_model::GOLDENS)?;
    let prompts = goldens["prompts"].as_array().ok_or("no prompts")?;
    let mut compared = 0;
    for prompt in prompts.iter().take(2) {
        let tokens = model.text_prompt(prompt["prompt"].as_str().ok_or("no prompt")?)?;
        let mut session = Session::new(&model)?;
        let mut generation = session.generate(&tokens, GenerationOptions::default().with_max_tokens(TOKENS))?;
        for expected in prompt["ids"].as_array().ok_or("no tokens")?.iter().take(TOKENS) {
            let token = block_on(generation.next())?.ok_or("the text ends early")?;
            if expected.as_u64() != Some(u64::from(token.token)) {
                return Err(format!("{} is not {expected}", token.token).into());
            }
            compared += 1;
        }
    }
    println!("{compared} tokens as PyTorch computes them");
    Ok(())
}

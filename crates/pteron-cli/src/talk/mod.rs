//! What `pteron run` and `pteron chat` share: opening a model, and printing a text as it comes.

mod chat;
mod demo;
mod model;
mod run;
mod speed;

use std::sync::atomic::{AtomicBool, Ordering};

use pteron_llm::{Model, ParseSpecial, TokenId, TokenizerError};

pub(crate) use chat::run as chat;
pub(crate) use run::run;

use crate::cli::ModelArgs;

/// Whether Ctrl-C was pressed since this was last asked.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on Ctrl-C is a wish and not the end of the program.
fn catch_interrupts() {
    // Without a handler Ctrl-C ends the program, which is safe as well.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst));
}

fn interrupted() -> bool {
    INTERRUPTED.swap(false, Ordering::SeqCst)
}

/// How much chance there is where nobody says: some for the model in the box, which repeats itself without any.
fn temperature(args: &ModelArgs) -> f32 {
    if args.model.is_none() { 0.7 } else { 0.0 }
}

/// A text as a prompt, begun as the model was taught that texts begin.
fn encode(model: &Model, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
    let tokens = model.tokenizer().encode_prompt(text, ParseSpecial::No)?;
    let first = model.metadata().bos_id.filter(|bos| tokens.first() != Some(bos));
    Ok(first.into_iter().chain(tokens).collect())
}

//! Streams several texts at once in tokio's multi-threaded runtime: `cargo run --release -p pteron-llm --example tokio_stream`.

use pteron_llm::{GenerationOptions, Model, Session};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

/// Generates on a thread for blocking work: natively, polling a generation blocks its thread until the GPU has the next token.
/// The text arrives through the channel; if the receiver is dropped, generating stops at the next token.
fn stream(model: Model, prompt: &'static str) -> mpsc::Receiver<pteron_llm::Result<String>> {
    let (sender, receiver) = mpsc::channel(8);
    spawn_blocking(move || {
        let run = || -> pteron_llm::Result<()> {
            let mut session = Session::new(&model)?;
            let tokens = model.text_prompt(prompt)?;
            let mut generation = session.generate(&tokens, GenerationOptions::default().with_max_tokens(20))?;
            while let Some(token) = pteron::block_on(generation.next())? {
                if sender.blocking_send(Ok(token.text)).is_err() {
                    break;
                }
            }
            Ok(())
        };
        if let Err(error) = run() {
            let _ = sender.blocking_send(Err(error));
        }
    });
    receiver
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo");
    let model = spawn_blocking(move || Model::open_blocking(path)).await??;
    // Sessions share the model's weights, and the GPU runs their steps in turn.
    let prompts = ["Ownership is", "A trait object", "Iterators are"];
    let tasks = prompts.map(|prompt| {
        let mut texts = stream(model.clone(), prompt);
        tokio::spawn(async move {
            let mut whole = prompt.to_owned();
            while let Some(text) = texts.recv().await {
                whole += &text?;
            }
            Ok::<_, pteron_llm::Error>(whole)
        })
    });
    for task in tasks {
        println!("{}\n", task.await??);
    }
    Ok(())
}

//! Holds a conversation of two turns: `cargo run --release -p pteron-llm --example chat`.

use std::io::Write;

use pteron::block_on;
use pteron_llm::{ChatRequest, Model, Sampling, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The bundled model continues text and has no chat template; its messages are joined by blank lines. A model with
    // chat_template.jinja or a template in tokenizer_config.json uses that.
    let model = Model::open_blocking(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo"))?;
    let mut session = Session::new(&model)?;
    let sampling = Sampling::default().with_temperature(0.8).with_min_p(0.1).with_repetition_penalty(1.15).with_seed(7);
    let mut request = ChatRequest::new().with_sampling(sampling).with_stop_string("\n\n").with_max_tokens(40);
    for question in ["A lifetime is", "Ownership means"] {
        request = request.user(question);
        println!("> {question}");
        // The whole conversation is sent every time; the session runs only the tokens that its KV cache does not hold.
        let mut reply = session.chat(&request)?;
        let mut text = String::new();
        while let Some(token) = block_on(reply.next())? {
            print!("{}", token.text);
            std::io::stdout().flush()?;
            text += &token.text;
        }
        println!("\n[{:?}, {} tokens]", reply.finish(), reply.generated().len());
        request = request.assistant(text);
    }
    Ok(())
}

//! Continues several prompts at once, from threads and from async tasks: `cargo run --release -p pteron-llm --example batch`.

use pteron_llm::{Engine, EngineOptions, EngineRequest, GenerationOptions, Sampling, TokenStream};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open_blocking(MODEL, EngineOptions::default())?;
    let request = |text: &str, seed: u64| -> pteron_llm::Result<EngineRequest> {
        let sampling = Sampling::default().with_temperature(0.8).with_min_p(0.1).with_seed(seed);
        let options = GenerationOptions::default().with_sampling(sampling).with_max_tokens(24);
        Ok(EngineRequest::new(engine.text_prompt(text)?).with_options(options))
    };

    // All requests are submitted before the first text is read: they run in the same steps.
    let prompts = ["Ownership is", "To read a file in Rust, you", "A thread is"];
    let mut streams = Vec::new();
    for (prompt, seed) in prompts.into_iter().zip(1..) {
        streams.push((prompt, engine.submit(request(prompt, seed)?)?));
    }
    for (prompt, mut stream) in streams {
        print!("{prompt}");
        while let Some(token) = stream.next_blocking()? {
            print!("{}", token.text);
        }
        println!("\n");
    }

    // Tasks never wait for the GPU: one thread is enough for all of them.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let texts = runtime.block_on(async {
        let [first, second] = [4, 5].map(|seed| request("An iterator", seed));
        let (first, second) = (engine.submit(first?)?, engine.submit(second?)?);
        let (first, second) = tokio::join!(text(first), text(second));
        Ok::<_, Box<dyn std::error::Error>>([first?, second?])
    })?;
    texts.iter().for_each(|text| println!("An iterator{text}\n"));

    // Dropping a stream cancels its request.
    drop(engine.submit(request("A long text", 6)?)?);
    let statistics = engine.statistics();
    println!("{} tokens in {} steps, {} cancelled", statistics.generated_tokens, statistics.steps, statistics.cancelled);
    Ok(())
}

async fn text(mut stream: TokenStream) -> Result<String, pteron_llm::EngineError> {
    let mut text = String::new();
    while let Some(token) = stream.next().await? {
        text += &token.text;
    }
    Ok(text)
}

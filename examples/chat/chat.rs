//! `cargo run -p pteron-examples --example chat_in_ten_lines -- [folder of a model]`
use pteron_llm::{ChatRequest, Model, Session, pteron::block_on};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open_blocking(std::env::args().nth(1).unwrap_or_else(|| "models/demo".to_owned()))?;
    let mut session = Session::new(&model)?;
    let mut request = ChatRequest::new().with_max_tokens(60).with_stop_string("\n\n");
    for line in std::io::stdin().lines() {
        request = request.user(line?);
        let reply = block_on(session.chat(&request)?.text())?;
        println!("{reply}");
        request = request.assistant(reply);
    }
    Ok(())
}

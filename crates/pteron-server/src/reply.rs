//! Replies: the texts of a generation, split into what the APIs of conversations return.

use crate::backend::{Finish, Token};
use crate::error::ApiError;
use crate::id;
use crate::output::{OutputParser, Part};
use crate::request::Generation;

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// One whole reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) content: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
    /// The tokens, where their log probabilities were asked for.
    pub(crate) tokens: Vec<Token>,
    pub(crate) finish: Option<Finish>,
}

impl Reply {
    fn add(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Content(text) => self.content += &text,
                Part::Reasoning(text) => self.reasoning += &text,
                Part::Call { name, .. } => self.calls.push(Call { id: id::new("call_"), name, arguments: String::new() }),
                Part::Arguments { index, text } => {
                    if let Some(call) = self.calls.get_mut(index) {
                        call.arguments += &text;
                    }
                }
            }
        }
    }
}

/// Generates all replies to their ends.
pub(crate) async fn collect(
    generation: &mut Generation,
    parser: impl Fn() -> OutputParser,
    keep_tokens: bool,
) -> Result<Vec<Reply>, ApiError> {
    let mut replies: Vec<(Reply, OutputParser)> = (0..generation.len()).map(|_| (Reply::default(), parser())).collect();
    while let Some(next) = generation.next().await {
        let (index, token) = next?;
        let Some((reply, parser)) = replies.get_mut(index) else { continue };
        reply.add(parser.push(&token.text));
        reply.finish = token.finish;
        if keep_tokens {
            reply.tokens.push(token);
        }
    }
    let finished = replies.into_iter().map(|(mut reply, mut parser)| {
        reply.add(parser.finish());
        reply
    });
    Ok(finished.collect())
}

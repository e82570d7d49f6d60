//! A file of prompts: one JSON object per line.

use std::path::Path;

use pteron_llm::{GenerationOptions, Message, TokenId};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::{Failure, Reason};

/// A line of the file.
#[derive(Debug, PartialEq)]
pub(super) struct PromptLine {
    /// What the line calls itself; repeated in its result.
    pub(super) id: Option<Value>,
    pub(super) prompt: LinePrompt,
    /// The options of the command line, as far as the line does not set them.
    pub(super) options: GenerationOptions,
}

#[derive(Debug, PartialEq)]
pub(super) enum LinePrompt {
    Text(String),
    Chat(Vec<Message>),
    Tokens(Vec<TokenId>),
}

/// The fields of a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: Option<Value>,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    tokens: Option<Vec<TokenId>>,
    max_tokens: Option<usize>,
    temperature: Option<f32>,
    top_k: Option<u32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    logit_bias: Option<Vec<(TokenId, f32)>>,
    seed: Option<u64>,
    stop: Option<Vec<String>>,
}

/// The options of lines that do not set them.
#[derive(Clone, Debug)]
pub(super) struct CommonOptions {
    /// Where a line sets no temperature.
    pub(super) usual: GenerationOptions,
    /// Where it does: the defaults of the bundled model do not apply then, as on the command line.
    pub(super) with_temperature: GenerationOptions,
}

/// Parses all lines. Empty ones are skipped.
pub(super) fn parse(path: &Path, text: &str, options: &CommonOptions) -> Result<Vec<PromptLine>, Failure> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let lines = lines.map(|(number, line)| {
        parse_line(line, options).map_err(|reason| Failure::file(path, Reason::PromptLine { number, reason }))
    });
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    if lines.is_empty() { Err(Failure::file(path, Reason::NoPrompts)) } else { Ok(lines) }
}

fn parse_line(line: &str, options: &CommonOptions) -> Result<PromptLine, String> {
    let fields: Fields = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let prompt = match (fields.prompt, fields.messages, fields.tokens) {
        (Some(text), None, None) => LinePrompt::Text(text),
        (None, Some(messages), None) => LinePrompt::Chat(messages),
        (None, None, Some(tokens)) => LinePrompt::Tokens(tokens),
        _ => return Err("it needs one of prompt, messages and tokens".to_owned()),
    };
    let options = if fields.temperature.is_some() { &options.with_temperature } else { &options.usual };
    let mut options = options.clone();
    let sampling = &mut options.sampling;
    set(&mut sampling.temperature, fields.temperature);
    set(&mut sampling.top_k, fields.top_k);
    set(&mut sampling.top_p, fields.top_p);
    set(&mut sampling.min_p, fields.min_p);
    set(&mut sampling.repetition_penalty, fields.repetition_penalty);
    set(&mut sampling.presence_penalty, fields.presence_penalty);
    set(&mut sampling.frequency_penalty, fields.frequency_penalty);
    set(&mut sampling.logit_bias, fields.logit_bias);
    set(&mut sampling.seed, fields.seed);
    set(&mut options.stop_strings, fields.stop);
    options.max_tokens = fields.max_tokens.or(options.max_tokens);
    sampling_is_valid(&options)?;
    Ok(PromptLine { id: fields.id, prompt, options })
}

/// Replaces a value if the line has another one.
fn set<T>(field: &mut T, value: Option<T>) {
    value.into_iter().for_each(|value| *field = value);
}

fn sampling_is_valid(options: &GenerationOptions) -> Result<(), String> {
    options.sampling.validate().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use pteron_llm::Sampling;

    use super::*;

    fn parsed(text: &str, options: &GenerationOptions) -> Result<Vec<PromptLine>, String> {
        let with_temperature = options.clone().with_sampling(Sampling::default());
        let options = CommonOptions { usual: options.clone(), with_temperature };
        parse(Path::new("prompts.jsonl"), text, &options).map_err(|failure| failure.to_string())
    }

    #[test]
    fn lines_override_the_command_line() {
        let usual = Sampling::default().with_temperature(0.8).with_min_p(0.1);
        let options = GenerationOptions::default().with_sampling(usual).with_max_tokens(9).with_stop_string("x");
        let text = concat!(
            "{\"prompt\": \"a\"}\n\n",
            "{\"id\": 7, \"messages\": [{\"role\": \"user\", \"content\": \"b\"}], \"seed\": 3, \"temperature\": 0.5}\r\n",
            "{\"tokens\": [1, 2], \"max_tokens\": 4, \"stop\": []}",
        );
        let lines = parsed(text, &options).unwrap();
        assert_eq!(lines[0], PromptLine { id: None, prompt: LinePrompt::Text("a".to_owned()), options: options.clone() });
        let sampling = Sampling::default().with_seed(3).with_temperature(0.5);
        let chat = LinePrompt::Chat(vec![Message::user("b")]);
        let expected = PromptLine { id: Some(7.into()), prompt: chat, options: options.clone().with_sampling(sampling) };
        assert_eq!(lines[1], expected);
        assert_eq!((lines[2].options.max_tokens, lines[2].options.stop_strings.len()), (Some(4), 0));
        assert_eq!(lines[2].prompt, LinePrompt::Tokens(vec![1, 2]));
    }

    #[test]
    fn malformed_lines_are_named() {
        let options = GenerationOptions::default();
        let refused = |text: &str| parsed(text, &options).unwrap_err();
        for (text, reason) in [
            ("{\"prompt\": \"a\"}\n{\"prompt\": 1}", "line 2: invalid type"),
            ("\n{}", "line 2: it needs one of prompt, messages and tokens"),
            ("{\"prompt\": \"a\", \"tokens\": [1]}", "line 1: it needs one of"),
            ("{\"prompt\": \"a\", \"temprature\": 1}", "line 1: unknown field `temprature`"),
            ("{\"prompt\": \"a\", \"top_p\": 2}", "line 1: top_p is 2"),
            ("not JSON", "line 1: "),
            ("\n", "has no prompts"),
        ] {
            let error = refused(text);
            assert!(error.starts_with("prompts.jsonl: ") && error.contains(reason), "{error}");
        }
    }
}

use super::*;

/// The parts of a text, joined, for a text that is cut at these places.
fn parts(parser: &mut OutputParser, pieces: &[&str]) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for piece in pieces {
        all.extend(parser.push(piece));
    }
    all.extend(parser.finish());
    let mut joined: Vec<Part> = Vec::new();
    for part in all {
        match (joined.last_mut(), part) {
            (Some(Part::Content(before)), Part::Content(text)) | (Some(Part::Reasoning(before)), Part::Reasoning(text)) => {
                *before += &text;
            }
            (Some(Part::Arguments { index, text }), Part::Arguments { index: next, text: more }) if *index == next => {
                *text += &more;
            }
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn parser(format: CallFormat) -> OutputParser {
    OutputParser::new(Some(format), vec!["weather".to_owned(), "time".to_owned()], true, false)
}

fn content(text: &str) -> Part {
    Part::Content(text.to_owned())
}

fn call(index: usize, name: &str, arguments: &str) -> [Part; 2] {
    [Part::Call { index, name: name.to_owned() }, Part::Arguments { index, text: arguments.to_owned() }]
}

const HERMES: &str = "<think>\nRain? <b>\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \
                      \"Zürich \\\"}\\u00fc\", \"n\": [1, 2]}}\n</tool_call>\n<tool_call>\n{\"arguments\": {}, \"name\": \"time\"}\n</tool_call>";

#[test]
fn any_cut_of_a_reply_gives_the_same_parts() {
    let mut expected = vec![Part::Reasoning("Rain? <b>\n".to_owned()), content("Let me look.\n")];
    expected.extend(call(0, "weather", "{\"city\": \"Zürich \\\"}\\u00fc\", \"n\": [1, 2]}"));
    expected.extend(call(1, "time", "{}"));
    assert_eq!(parts(&mut parser(CallFormat::Hermes), &[HERMES]), expected);
    for (at, _) in HERMES.char_indices() {
        let (before, after) = HERMES.split_at(at);
        assert_eq!(parts(&mut parser(CallFormat::Hermes), &[before, after]), expected, "cut at {at}");
    }
    let characters: Vec<String> = HERMES.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(parts(&mut parser(CallFormat::Hermes), &characters), expected);
}

#[test]
fn arguments_arrive_before_the_call_is_complete() {
    let mut parser = parser(CallFormat::Hermes);
    let first = parser.push("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Ber");
    assert_eq!(first, call(0, "weather", "{\"city\": \"Ber"));
    assert_eq!(parser.push("lin\""), [Part::Arguments { index: 0, text: "lin\"".to_owned() }]);
}

#[test]
fn llama_calls_are_the_whole_reply_or_follow_their_tag() {
    let plain =
        "{\"type\": \"function\", \"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}; {\"name\": \"time\"}";
    let mut expected = call(0, "weather", "{\"city\": \"Rome\"}").to_vec();
    expected.extend(call(1, "time", "{}"));
    assert_eq!(parts(&mut parser(CallFormat::Llama3), &[plain]), expected);
    assert_eq!(parts(&mut parser(CallFormat::Llama3), &["<|python_tag|>", plain]), expected);
    for other in
        ["{\"city\": \"Rome\"}", "{\"name\": \"unknown\", \"parameters\": {}}", "{ not JSON", "Look: {\"name\": \"time\"}"]
    {
        assert_eq!(parts(&mut parser(CallFormat::Llama3), &[other]), [content(other)], "no call of a tool that exists");
    }
}

#[test]
fn mistral_calls_are_a_list() {
    let text = "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"a\": 1}}, {\"name\": \"time\", \"arguments\": {}}]";
    let mut expected = call(0, "weather", "{\"a\": 1}").to_vec();
    expected.extend(call(1, "time", "{}"));
    assert_eq!(parts(&mut parser(CallFormat::Mistral), &[text]), expected);
}

#[test]
fn arguments_that_are_a_string_are_unescaped() {
    let text = r#"<tool_call>{"name": "weather", "arguments": "{\"city\": \"\u00fc \ud83d\ude00\\n\"}"}</tool_call>"#;
    assert_eq!(parts(&mut parser(CallFormat::Hermes), &[text]), call(0, "weather", "{\"city\": \"ü 😀\\n\"}"));
}

#[test]
fn broken_calls_lose_no_text() {
    assert_eq!(parts(&mut parser(CallFormat::Hermes), &["<tool_call>{\"arguments\": 3"]), [content("{\"arguments\": 3")]);
    let cut = parts(&mut parser(CallFormat::Hermes), &["<tool_call>{\"name\": \"time\", \"arguments\": {\"a\""]);
    assert_eq!(cut, call(0, "time", "{\"a\""), "the client sees that it is cut");
    assert_eq!(parts(&mut parser(CallFormat::Hermes), &["a <tool_call>b"]), [content("a b")]);
    assert_eq!(parts(&mut parser(CallFormat::Hermes), &["a <tool_"]), [content("a <tool_")]);
}

#[test]
fn reasoning_may_be_open_when_the_reply_begins_and_never_end() {
    let mut parser = OutputParser::new(None, Vec::new(), true, true);
    assert_eq!(parts(&mut parser, &["I think", "</think>Yes"]), [Part::Reasoning("I think".to_owned()), content("Yes")]);
    let mut parser = OutputParser::new(None, Vec::new(), true, true);
    assert_eq!(parts(&mut parser, &["on and on </thi"]), [Part::Reasoning("on and on </thi".to_owned())]);
    let mut off = OutputParser::new(None, Vec::new(), false, false);
    assert_eq!(parts(&mut off, &["<think>x</think>"]), [content("<think>x</think>")]);
}

//! Chat templates: any source, then a conversation through it.

use std::collections::BTreeMap;

use pteron_llm::{ChatTemplate, Message, RenderOptions};

use crate::generate::{self, Choices};
use crate::mutate;
use crate::oracle;
use crate::seeds::{self, Input};
use crate::target::{Outcome, Target};

/// The source of a template.
pub const SOURCE: Target = Target {
    name: "template",
    attacks: "pteron-llm: chat templates as text, then a conversation",
    run: |bytes| rendered(&String::from_utf8_lossy(bytes)),
    seeds: |_| {
        let real = REAL.iter().enumerate().map(|(index, source)| Input::new(format!("template {index}"), *source));
        let made = seeds::entropy(std::path::Path::new("")).into_iter();
        let made = made.map(|entropy| Input::new(entropy.name, generate::template(&mut Choices::new(&entropy.bytes))));
        real.chain(made).collect()
    },
    mutate: mutate::text_changed,
    max_len: 4096,
    dictionary: &[
        "{{ ",
        " }}",
        "{% ",
        " %}",
        "{%- for m in messages %}",
        "{% endfor %}",
        "{% if ",
        "{% endif %}",
        "{% set ",
        "namespace(",
        "message.content",
        "['role']",
        " | trim",
        " | tojson",
        "loop.first",
        "range(",
        ".strip()",
        ".split(",
        "raise_exception(",
        "strftime_now(",
        "{% macro f(x) %}",
        "{% endmacro %}",
        "[::-1]",
        " ~ ",
        " | indent(",
        "'%s' | format(",
        " is defined",
    ],
    ..LIMITED
};

/// A template made by the grammar.
pub const TYPED: Target = Target {
    name: "template_typed",
    attacks: "pteron-llm: chat templates by the grammar of Jinja, then a conversation",
    run: |bytes| rendered(&generate::template(&mut Choices::new(bytes))),
    seeds: seeds::entropy,
    max_len: 512,
    ..LIMITED
};

/// A template may use up all of its budget, whatever its length.
const LIMITED: Target = Target { heap: 256 << 20, time: std::time::Duration::from_secs(10), smoke: 5000, ..Target::DEFAULT };

/// The text that a template may make of a short conversation.
const MAX_TEXT: usize = 64 << 20;

/// In the manner of templates in use.
const REAL: [&str; 4] = [
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
     {{ raise_exception('roles must alternate') }}{% endif %}<|{{ message.role }}|>\n{{ message['content'] | trim }}{{ eos_token }}\n\
     {% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "{%- set ns = namespace(last=messages|length - 1) %}{%- for m in messages[::-1] %}{%- set i = (messages|length - 1) - loop.index0 %}\
     {%- if m.role == 'user' and not (m.content.startswith('<t>') and m.content.endswith('</t>')) %}{%- set ns.last = i %}{%- break %}\
     {%- endif %}{%- endfor %}{{ ns.last }}{% for m in messages %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% endfor %}",
    "{% macro item(x, indent=4) %}{{ x | tojson(indent=indent) }}{% endmacro %}{% if tools is not none %}{% for t in tools %}\
     {{ item(t) }}{{ ', ' if not loop.last }}{% endfor %}{% endif %}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
    "Today is {{ strftime_now('%d %b %Y') }}.{% set content = 'a' %}{% for i in range(3) %}{% set content = content ~ i %}{% endfor %}\
     {{ content.upper().replace('A', 'b') | default('x') }}{{ {'a': [1, 2.5, none, true]} | tojson }}",
];

/// Reads a template and renders a conversation, twice.
fn rendered(source: &str) -> Outcome {
    let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")];
    let tokens: BTreeMap<String, String> = tokens.map(|(name, token)| (name.to_owned(), token.to_owned())).into();
    let template = oracle::bounded_heap(source.len(), 1000, 4 << 20, || ChatTemplate::new(source, tokens));
    let template = match template {
        Ok(template) => template,
        Err(error) => {
            oracle::error_text(&error);
            return "syntax";
        }
    };
    let messages = [Message::system("Be brief."), Message::user("2+2? <t>é</t>"), Message::assistant("<think>\n</think>4")];
    let tools = r#"[{"type": "function", "function": {"name": "f"}}]"#;
    let options = RenderOptions::default().with_now(1_700_000_000).with_variable("tools", tools);
    let text = template.render(&messages, &options);
    match &text {
        Ok(text) => assert!(text.len() <= MAX_TEXT, "a text of {} bytes", text.len()),
        // A template speaks for itself there.
        Err(error) => oracle::error_text(error),
    }
    oracle::outcome(&text)
}

use super::*;

fn tokens() -> BTreeMap<String, String> {
    [("bos_token", "<s>"), ("eos_token", "</s>")].map(|(name, token)| (name.to_owned(), token.to_owned())).into()
}

fn render(source: &str, messages: &[Message]) -> Result<String, TemplateError> {
    ChatTemplate::new(source, tokens())?.render(messages, &RenderOptions::default())
}

fn conversation() -> Vec<Message> {
    vec![Message::system(" Be brief. "), Message::user("Hi"), Message::assistant("Hello!"), Message::user("2+2?")]
}

/// In the manner of the common templates with a header for each message.
const HEADERS: &str = "{{ bos_token }}
{%- for message in messages %}
    {%- if loop.first and message['role'] == 'system' %}
        {%- set content = message.content.strip() %}
    {%- else %}
        {%- set content = message['content'] | trim %}
    {%- endif %}
<|{{ message.role }}|>
{{ content }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}
";

#[test]
fn blocks_are_trimmed_and_python_methods_work() {
    let text = render(HEADERS, &conversation()).unwrap();
    let expected =
        "<s><|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello!</s>\n<|user|>\n2+2?</s>\n<|assistant|>\n";
    assert_eq!(text, expected);
    let template = ChatTemplate::new(HEADERS, tokens()).unwrap();
    let options = RenderOptions { add_generation_prompt: false, ..RenderOptions::default() };
    assert!(template.render(&conversation(), &options).unwrap().ends_with("2+2?</s>\n"));
}

#[test]
fn what_templates_in_use_need_is_there() {
    let source = "{% set ns = namespace(seen=false) %}
{%- for m in messages[1:] -%}
{%- if m.role == 'assistant' %}{% set ns.seen = true %}{% continue %}{% endif -%}
{{ m.content.split('+')[0].upper() ~ '|' }}
{%- if m.content.startswith('2') and ns.seen %}{% break %}{% endif %}
{%- endfor %}
{{- messages | selectattr('role', 'equalto', 'user') | list | length }}{{ none }}{{ true }}
{%- macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('é') }}{{ missing is defined }}{{ missing }}{{ missing | length }}{{ tools is none }}";
    assert_eq!(render(source, &conversation()).unwrap(), "HI|2|2NoneTrueééFalse0True");
}

#[test]
fn json_is_pythons_and_escapes_nothing() {
    let template = ChatTemplate::new("{{ tools | tojson }}{{ tools | tojson(indent=4) }}", tokens()).unwrap();
    let mut options = RenderOptions::default();
    options.variables.insert("tools".to_owned(), r#"[{"z": "<b>'&é", "a": 1}]"#.to_owned());
    let text = template.render(&[], &options).unwrap();
    let indented = "[\n    {\n        \"z\": \"<b>'&é\",\n        \"a\": 1\n    }\n]";
    assert_eq!(text, format!("[{{\"z\": \"<b>'&é\", \"a\": 1}}]{indented}"));
    options.variables.insert("tools".to_owned(), "[".to_owned());
    let error = template.render(&[], &options).unwrap_err().to_string();
    assert!(error.starts_with("the variable \"tools\" for the chat template is not JSON: "), "{error}");
}

#[test]
fn generation_blocks_are_seen_through() {
    let source =
        "{% for m in messages %}{%- generation -%} {{ m.role }} {%- endgeneration %}{% endfor %}{% if 1 %}x{% endif %}";
    assert_eq!(render(source, &conversation()).unwrap(), "systemuserassistantuserx");
}

#[test]
fn slices_run_backwards() {
    let source = "{% for m in messages[::-1] %}{{ m.role[::-2] }} {% endfor %}{{ [][::-1] }}{{ ''[5:1:-1] }}{{ messages[0:9:2] | length }}";
    assert_eq!(render(source, &conversation()).unwrap(), "rs tassa rs mty []2");
    assert!(render("{{ 1[::-1] }}", &[]).is_err());
    assert_eq!(render("{{ missing[::-1] }}", &[]).unwrap(), "[]");
}

#[test]
fn a_template_can_refuse() {
    let source = "{{ raise_exception('Conversation roles must alternate!') }}";
    let error = render(source, &conversation()).unwrap_err();
    assert_eq!(error, TemplateError::Refused { message: "Conversation roles must alternate!".to_owned() });
    let nested = format!("{{% macro m() %}}{source}{{% endmacro %}}{{{{ m() }}}}");
    assert!(matches!(render(&nested, &[]), Err(TemplateError::Refused { .. })));
}

#[test]
fn dates_come_from_the_caller() {
    let template = ChatTemplate::new("Today Date: {{ strftime_now('%d %b %Y') }}", tokens()).unwrap();
    let options = RenderOptions { now: Some(1_722_000_000), ..RenderOptions::default() };
    assert_eq!(template.render(&[], &options).unwrap(), "Today Date: 26 Jul 2024");
    let error = template.render(&[], &RenderOptions::default()).unwrap_err().to_string();
    assert!(error.contains("none was given"), "{error}");
    // Templates that ask whether there is such a function find it.
    let source = "{% if strftime_now is defined %}yes{% endif %}";
    assert_eq!(render(source, &[]).unwrap(), "yes");
}

#[test]
fn errors_name_template_and_line() {
    let error = render("a\n{% if %}\n", &[]).unwrap_err();
    assert!(matches!(&error, TemplateError::Syntax { name, line: 2, .. } if name == "default"), "{error}");
    assert!(error.to_string().starts_with("chat template \"default\", line 2: syntax error"), "{error}");
    let error = render("a\nb\n{{ messages.nothing.more }}", &[]).unwrap_err();
    assert!(matches!(error, TemplateError::Render { line: 3, .. }), "{error}");
    let error = render("{{ 'a'.explode() }}", &[]).unwrap_err();
    assert!(error.to_string().contains("explode"), "{error}");
}

#[test]
fn templates_can_be_named() {
    let json = br#"{"bos_token": "<s>", "chat_template": [
        {"name": "default", "template": "{{ bos_token }}D"}, {"name": "tool_use", "template": "T"}]}"#;
    let config = TokenizerConfig::from_json(json).unwrap();
    let template = ChatTemplate::from_config(&config).unwrap().unwrap();
    assert_eq!(template.names(), ["default", "tool_use"]);
    let named = |name: Option<&str>| {
        template.render(&[], &RenderOptions { template: name.map(str::to_owned), ..RenderOptions::default() })
    };
    assert_eq!((named(None).unwrap(), named(Some("tool_use")).unwrap()), ("<s>D".to_owned(), "T".to_owned()));
    let error = named(Some("rag")).unwrap_err().to_string();
    assert_eq!(error, "there is no chat template \"rag\"; there are default, tool_use");
    assert!(ChatTemplate::from_config(&TokenizerConfig::default()).unwrap().is_none());
}

#[test]
fn a_template_without_end_is_stopped() {
    let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% set x = a + b %}{% endfor %}{% endfor %}";
    let error = render(source, &[]).unwrap_err().to_string();
    assert!(error.contains("fuel"), "{error}");
    assert!(render("{{ 'x' * 99999999999 }}", &[]).is_err());
    let deep = "{% if true %}".repeat(5000);
    assert!(render(&deep, &[]).is_err());
    let error = render(&format!("{{{{ 1{} }}}}", "+1".repeat(100_000)), &[]).unwrap_err().to_string();
    assert!(error.starts_with("chat template \"default\", line 1: a template may have"), "{error}");
    // At the limit, nothing breaks.
    assert_eq!(render(&format!("{{{{ 1{} }}}}", "+1".repeat(495)), &[]).unwrap(), "496");
    assert_eq!(render(&format!("{{{{ {}1 }}}}", "-".repeat(990)), &[]).unwrap(), "1");
    let chain = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(500));
    assert_eq!(render(&chain, &[]).unwrap(), "");
    // Neither is zero divided by.
    assert_eq!(
        render("{{ 4 is divisibleby(0) }}{{ 4 is divisibleby(2) }}{{ none is iterable }}", &[]).unwrap(),
        "FalseTrueFalse"
    );
}

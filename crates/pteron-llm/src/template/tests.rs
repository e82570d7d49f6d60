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

/// Resembles common templates with one header per message.
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
fn constructs_of_published_templates_work() {
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

/// The results are Jinja2's.
#[test]
fn filters_and_methods_are_those_of_python() {
    for (source, expected) in [
        ("{{ none | selectattr('a') | list }}{{ none | map('upper') | list }}", "[][]"),
        ("{{ ['é'] | tojson(ensure_ascii=true) }}{{ {'a': 1} | tojson(separators=(',', ':')) }}", "[\"\\u00e9\"]{\"a\":1}"),
        ("{{ ' a b  c '.split(None, 1) }}{{ 'a b c'.rsplit(' ', 1) }}", "['a', 'b  c ']['a b', 'c']"),
        ("{{ [1, 'a', none, true, {'k': [1.5]}] }}{{ [\"it's\"] }}", "[1, 'a', None, True, {'k': [1.5]}][\"it's\"]"),
        ("{{ 1.0 }} {{ 1e20 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 1 / 3 }}", "1.0 1e+20 3 -4 0.3333333333333333"),
        ("{{ '%5d|%-5s|%05d' | format(3, 'a', 7) }}{{ '{}-{}'.format(1, 'b') }}", "    3|a    |000071-b"),
        ("{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}", "a\n    b\n\n    c|  a\n  b"),
        ("{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{% endcall %}", "[x]"),
        ("{% set x = 1 %}{% for a in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"),
        ("{{ 1 < 2 < 3 }} {{ not 1 in [2] }} {{ 'a' is in ['a'] }} {{ 2 * 3 ~ 4 }}", "True True True 64"),
        ("{{ [] * 99999999999999 }}{{ '' * 99999999999999 }}", "[]"),
        ("{% for a in [[1, [2, []]]] recursive %}{{ a }}{% endfor %}", "[1, [2, []]]"),
        ("{% raw %}{{ x }}{% endraw %}{% set t %}q{% endset %}{{ t }}{% with z=1 %}{{ z }}{% endwith %}", "{{ x }}q1"),
    ] {
        assert_eq!(render(source, &conversation()).as_deref(), Ok(expected), "{source}");
    }
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
fn raise_exception_rejects_the_conversation() {
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

fn limit(source: &str) -> Option<Limit> {
    match render(source, &conversation()) {
        Err(TemplateError::Limit { limit, .. }) => Some(limit),
        _ => None,
    }
}

#[test]
fn endless_templates_are_stopped() {
    for source in [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% set x = a + b %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set x = 'a' * 1000000 %}{% for a in range(99999) %}{% if x == x ~ '' %}{% endif %}{% endfor %}",
        "{% set x = 'a' * 1000000 %}{% set y = 'a' * 999999 ~ 'b' %}{% for a in range(99999) %}{% if y in x %}{% endif %}{% endfor %}",
        "{% set l = range(50000) | list %}{{ l | select('in', l) | list }}",
        "{{ range(99999) | map('string') | unique | list }}",
    ] {
        let limit = limit(source);
        assert!(matches!(limit, Some(Limit::Steps | Limit::Memory)), "{source}: {limit:?}");
    }
    let error = render("\n{% for a in range(9999) %}{% for b in range(99) %}{% endfor %}{% endfor %}", &[]).unwrap_err();
    let text = "chat template \"default\" is stopped in line 2: it takes too many steps for this conversation; use the template \
                that belongs to the model";
    assert_eq!(error.to_string(), text);
}

#[test]
fn unbounded_values_are_stopped() {
    for source in [
        "{{ 'x' * 99999999999 }}",
        "{{ 'x' * 2000000000 }}",
        "{{ [1, 2] * 1000000000 }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '%.1000000000f' | format(1) }}",
        "{{ '%1000000000s' % 'a' }}",
        "{{ '%99999999999999999999999999d' % 1 }}",
        "{{ 'a\\nb' | indent(1000000000) }}",
        "{{ ('a\\n' * 1000000) | indent(65536) }}",
        "{{ 'x'.ljust(1000000000) }}",
        "{{ 'x'.rjust(10 ** 15) }}",
        "{{ 'x'.center(1000000000, 'é') }}",
        "{{ '1'.zfill(1000000000) }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ [1] | batch(1000000000, 0) | list }}",
        "{{ [1] | slice(1000000000) | list }}",
        "{{ 'x' | join(',') | replace('', 'x' * 60000000) }}",
        "{{ ('a' * 10000).replace('a', 'b' * 10000) }}",
        "{{ (range(99999) | list) | join('a' * 10000) }}",
        "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% for i in range(9999) %}{% for i in range(99) %}{% set ns = namespace(x=1) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson(indent=4) }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == [ns.x] }}",
        "{% set ns = namespace(x={}) %}{% for i in range(99) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x ~ '' }}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='a') %}\
         {% for i in range(99) %}{% set ns.x = m(ns.x) %}{% endfor %}",
    ] {
        let limit = limit(source);
        assert!(matches!(limit, Some(Limit::Memory | Limit::Steps | Limit::Output)), "{source}: {limit:?}");
    }
    let text = "x".repeat(1000);
    assert_eq!(limit(&format!("{{% for a in range(99999) %}}{text}{{% endfor %}}")), Some(Limit::Output));
}

/// Each of these runs on a thread with the stack that a browser gives.
#[test]
fn deep_nesting_is_rejected_on_a_small_stack() {
    let sources = [
        "{% if true %}".repeat(5000),
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(59), "]".repeat(59)),
        format!("{{{{ {}1{} }}}}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{{{ {}1{} }}}}", "{1:".repeat(100_000), "}".repeat(100_000)),
        format!("{{{{ {}1{} }}}}", "a(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ {}1{} }}}}", "a[".repeat(100_000), "]".repeat(100_000)),
        format!("{{{{ 1 {} }}}}", "if 1 else 1 ".repeat(50_000)),
        format!("{}{}", "{% for a in [1] %}".repeat(59), "{% endfor %}".repeat(59)),
        "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}".to_owned(),
        "{% macro m(x) %}{% if x %}{% for a in [1] %}{{ [[m([[x]])]] }}{% endfor %}{% endif %}{% endmacro %}{{ m(1) }}"
            .to_owned(),
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}".to_owned(),
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}".to_owned(),
        "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = dict(x=ns.x) %}{% endfor %}".to_owned(),
        "{{ [[1]] | map('map', 'map', 'map') | list }}".to_owned(),
    ];
    let run = move || {
        for source in sources {
            let result = render(&source, &[]);
            let depth = matches!(result, Err(TemplateError::Limit { limit: Limit::Depth, .. }));
            let kept = source.len() < 2000
                && !source.contains("macro")
                && !source.contains("range")
                && !source.contains("recursive");
            assert!(depth != kept, "{source:.100}: {result:?}");
        }
        // What comes in a row is not deep.
        assert_eq!(render(&format!("{{{{ 1{} }}}}", "+1".repeat(10_000)), &[]).unwrap(), "10001");
        assert_eq!(render(&format!("{{{{ {}1 }}}}", "-".repeat(9_990)), &[]).unwrap(), "1");
        assert_eq!(render(&format!("{{{{ {}1 }}}}", "not ".repeat(9_990)), &[]).unwrap(), "True");
        assert_eq!(render(&format!("{{{{ ''{} }}}}", ".strip()".repeat(10_000)), &[]).unwrap(), "");
        assert_eq!(render(&format!("{{{{ ''{} }}}}", "|trim".repeat(10_000)), &[]).unwrap(), "");
        assert_eq!(render(&format!("{{{{ 1{} }}}}", " and 1".repeat(10_000)), &[]).unwrap(), "1");
        let chain = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(10_000));
        assert_eq!(render(&chain, &[]).unwrap(), "");
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn long_conversations_stay_within_the_limits() {
    let messages: Vec<Message> = (0..5000).map(|n| Message::user(format!("Message {n}. ").repeat(20))).collect();
    assert!(render(HEADERS, &messages).unwrap().len() > 1_000_000);
    let long = [Message::user("word ".repeat(2_000_000))];
    assert!(render(HEADERS, &long).unwrap().len() >= 9_999_999);
    let source = "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ m.content[::-1] | replace('a', 'b') %}{% endfor %}{{ ns.all }}";
    assert!(render(source, &messages[..200]).unwrap().len() > 40_000);
}

#[test]
fn inputs_that_other_engines_get_wrong() {
    assert_eq!(
        render("{{ 4 is divisibleby(0) }}{{ 4 is divisibleby(2) }}{{ none is iterable }}", &[]).unwrap(),
        "FalseTrueFalse"
    );
    for source in ["{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1 / 0 }}", "{{ 9223372036854775807 + 1 }}", "{{ 2 ** 64 }}"] {
        assert!(matches!(render(source, &[]), Err(TemplateError::Render { .. })), "{source}");
    }
    assert_eq!(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }}", &[]).unwrap(), "-4 2 3.5 8");
    for source in ["{{ [3, 'a', 1] | sort }}", "{{ [1e999, 'x'] | max }}", "{{ [{}, {}] | sort }}"] {
        assert!(render(source, &[]).is_err(), "{source}");
    }
    let nan = "{% set nan = 1e308 * 10 - 1e308 * 10 %}{{ [2, nan, 1, nan, 3, nan] | sort }}";
    assert!(render(nan, &[]).is_err());
    assert!(render(&" ".repeat((1 << 20) + 1), &[]).is_err());
}

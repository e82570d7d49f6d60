//! A chat template, by the grammar of Jinja.

use std::fmt::Write as _;

use super::Choices;

const NAMES: [&str; 12] = [
    "messages",
    "message",
    "bos_token",
    "eos_token",
    "tools",
    "add_generation_prompt",
    "x",
    "y",
    "ns",
    "loop",
    "missing",
    "m",
];
const FIELDS: [&str; 10] = ["role", "content", "index", "first", "last", "a", "seen", "length", "previtem", "nextitem"];
const FILTERS: [&str; 30] = [
    "trim",
    "length",
    "upper",
    "lower",
    "list",
    "join",
    "tojson",
    "string",
    "int",
    "float",
    "abs",
    "first",
    "last",
    "reverse",
    "sort",
    "unique",
    "items",
    "indent",
    "replace",
    "default",
    "round",
    "batch",
    "slice",
    "map",
    "selectattr",
    "format",
    "title",
    "escape",
    "sum",
    "dictsort",
];
const METHODS: [&str; 18] = [
    "strip",
    "split",
    "upper",
    "lower",
    "startswith",
    "endswith",
    "replace",
    "items",
    "keys",
    "values",
    "get",
    "title",
    "capitalize",
    "count",
    "find",
    "join",
    "format",
    "splitlines",
];
const TESTS: [&str; 12] = [
    "defined",
    "none",
    "string",
    "mapping",
    "iterable",
    "number",
    "sequence",
    "undefined",
    "odd",
    "divisibleby(0)",
    "true",
    "in [1]",
];
const OPERATORS: [&str; 16] = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in"];
/// The deepest nesting of expressions and of blocks.
const MAX_DEPTH: usize = 6;

/// A template's source.
pub fn template(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    let mut writer = Writer { choices, text: &mut text };
    while !writer.choices.is_empty() && writer.text.len() < 16 << 10 {
        writer.statement(0);
    }
    text
}

struct Writer<'a, 'b> {
    choices: &'a mut Choices<'b>,
    text: &'a mut String,
}

impl Writer<'_, '_> {
    fn name(&mut self) -> &'static str {
        let name: &&str = self.choices.pick(&NAMES);
        name
    }

    fn statement(&mut self, depth: usize) {
        let kind = if depth >= MAX_DEPTH { 0 } else { self.choices.byte() % 16 };
        match kind {
            0..4 => self.wrapped("{{ ", " }}", |writer| writer.expression(0)),
            4 | 5 => {
                let text = self.choices.text(6);
                self.text.push_str(&text);
            }
            6 | 7 => self.for_loop(depth),
            8 => self.condition(depth),
            9 | 10 => self.set(depth),
            11 => self.macro_block(depth),
            12 => {
                let part = *self.choices.pick(&[
                    "{% break %}",
                    "{% continue %}",
                    "{#- x #}",
                    "{%- endif %}",
                    "{{",
                    "{% raw %}{{{% endraw %}",
                ]);
                self.text.push_str(part);
            }
            13 => self.doubling(),
            14 => self.deep(),
            _ => {
                self.text.push_str("{{ raise_exception(");
                self.expression(0);
                self.text.push_str(") }}");
            }
        }
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..self.choices.below(4) {
            self.statement(depth + 1);
        }
    }

    fn wrapped(&mut self, start: &str, end: &str, inner: impl FnOnce(&mut Self)) {
        self.text.push_str(start);
        inner(self);
        self.text.push_str(end);
    }

    fn for_loop(&mut self, depth: usize) {
        let name = self.name();
        let _ = write!(self.text, "{{%- for {name} in ");
        match self.choices.byte() % 4 {
            0 => self.text.push_str("messages"),
            1 => {
                // Loops that use up all steps take their time: a few are enough.
                let count =
                    if self.choices.chance(4) { self.choices.number() % (1 << 40) } else { self.choices.below(5) as u64 };
                let _ = write!(self.text, "range({count})");
            }
            _ => self.expression(0),
        }
        self.text.push_str(" -%}");
        self.block(depth);
        self.text.push_str("{% endfor %}");
    }

    fn condition(&mut self, depth: usize) {
        self.wrapped("{% if ", " %}", |writer| writer.expression(0));
        self.block(depth);
        if self.choices.bool() {
            self.text.push_str("{% else %}");
            self.block(depth);
        }
        self.text.push_str("{% endif %}");
    }

    fn set(&mut self, depth: usize) {
        let name = self.name();
        match self.choices.byte() % 4 {
            0 => {
                let _ = write!(self.text, "{{% set {name} %}}");
                self.block(depth);
                self.text.push_str("{% endset %}");
            }
            1 => {
                self.text.push_str("{% set ns = namespace(a=");
                self.expression(0);
                self.text.push_str(") %}");
            }
            2 => {
                self.text.push_str("{% set ns.a = ");
                self.expression(0);
                self.text.push_str(" %}");
            }
            _ => {
                let _ = write!(self.text, "{{% set {name} = ");
                self.expression(0);
                self.text.push_str(" %}");
            }
        }
    }

    fn macro_block(&mut self, depth: usize) {
        let name = self.name();
        let _ = write!(self.text, "{{% macro {name}_macro(x, y=1) %}}");
        self.block(depth);
        if self.choices.bool() {
            let _ = write!(self.text, "{{{{ {name}_macro(x) }}}}");
        }
        let _ = write!(self.text, "{{% endmacro %}}{{{{ {name}_macro(2) }}}}");
    }

    /// A value that grows with every step.
    fn doubling(&mut self) {
        let count = if self.choices.chance(4) { self.choices.number() % 10_000 } else { self.choices.below(12) as u64 };
        let step = *self.choices.pick(&[
            "ns.a ~ ns.a",
            "ns.a + ns.a",
            "[ns.a, ns.a]",
            "ns.a * 2",
            "ns.a | string",
            "ns.a | list",
            "ns.a | map('upper')",
            "ns.a | reverse",
            "(ns.a | tojson)",
            "ns.a.replace('a', 'aaaa')",
            "{'a': ns.a}",
            "ns.a[:]",
            "ns.a | batch(2) | list",
        ]);
        let start = *self.choices.pick(&["'ab'", "[1]", "messages", "range(9)"]);
        let _ = write!(
            self.text,
            "{{% set ns = namespace(a={start}) %}}{{% for i in range({count}) %}}{{% set ns.a = {step} %}}{{% endfor %}}{{{{ ns.a }}}}"
        );
    }

    /// Expressions or blocks inside of each other.
    fn deep(&mut self) {
        let count = if self.choices.chance(16) { self.choices.below(400) } else { self.choices.below(40) };
        let (open, middle, close) = *self.choices.pick(&[
            ("{{ ", "(", ")"),
            ("{{ ", "[", "]"),
            ("{{ ", "-", ""),
            ("{{ ", "not ", ""),
            ("{{ x", ".a", ""),
            ("{{ x", " | trim", ""),
            ("", "{% if 1 %}", "{% endif %}"),
            ("", "{% for x in [1] %}", "{% endfor %}"),
        ]);
        self.text.push_str(open);
        self.text.push_str(&middle.repeat(count));
        if open == "{{ " {
            self.text.push('1');
        }
        self.text.push_str(&close.repeat(count));
        if !open.is_empty() {
            self.text.push_str(" }}");
        }
    }

    fn expression(&mut self, depth: usize) {
        let kind = if depth >= MAX_DEPTH { self.choices.byte() % 4 } else { self.choices.byte() % 14 };
        match kind {
            0 => {
                let name = self.name();
                self.text.push_str(name);
            }
            1 => {
                let number = self.choices.signed();
                let _ = write!(self.text, "{number}");
            }
            2 => {
                let text = self.choices.text(4).replace(['\'', '\\'], "");
                let _ = write!(self.text, "'{text}'");
            }
            3 => {
                let (name, field) = (self.name(), *self.choices.pick(&FIELDS));
                let _ = write!(self.text, "{name}.{field}");
            }
            4 | 5 => {
                self.text.push('(');
                self.expression(depth + 1);
                let operator = *self.choices.pick(&OPERATORS);
                let _ = write!(self.text, " {operator} ");
                self.expression(depth + 1);
                self.text.push(')');
            }
            6 | 7 => self.filtered(depth),
            8 => {
                self.expression(depth + 1);
                let method = *self.choices.pick(&METHODS);
                let _ = write!(self.text, ".{method}");
                self.arguments(depth);
            }
            9 => self.subscript(depth),
            10 => {
                self.text.push('[');
                self.expression(depth + 1);
                self.text.push_str(", ");
                self.expression(depth + 1);
                self.text.push(']');
            }
            11 => {
                self.text.push_str("{'a': ");
                self.expression(depth + 1);
                self.text.push('}');
            }
            12 => {
                self.expression(depth + 1);
                let test = *self.choices.pick(&TESTS);
                let _ = write!(self.text, " is {test}");
            }
            _ => {
                let function = *self.choices.pick(&[
                    "range",
                    "strftime_now",
                    "namespace",
                    "dict",
                    "raise_exception",
                    "joiner",
                    "cycler",
                ]);
                self.text.push_str(function);
                self.arguments(depth);
            }
        }
    }

    fn filtered(&mut self, depth: usize) {
        self.text.push('(');
        self.expression(depth + 1);
        let filter = *self.choices.pick(&FILTERS);
        let _ = write!(self.text, " | {filter}");
        match self.choices.byte() % 4 {
            0 => self.arguments(depth),
            1 => {
                let width = self.choices.number();
                let _ = write!(self.text, "({width})");
            }
            2 if filter == "tojson" => self.text.push_str("(indent=4)"),
            _ => {}
        }
        self.text.push(')');
    }

    fn arguments(&mut self, depth: usize) {
        self.text.push('(');
        for index in 0..self.choices.below(4) {
            if index > 0 {
                self.text.push_str(", ");
            }
            self.expression(depth + 1);
        }
        self.text.push(')');
    }

    fn subscript(&mut self, depth: usize) {
        self.expression(depth + 1);
        match self.choices.byte() % 4 {
            0 => self.text.push_str("[::-1]"),
            1 => {
                let (from, to) = (self.choices.signed(), self.choices.signed());
                let _ = write!(self.text, "[{from}:{to}]");
            }
            _ => {
                self.text.push('[');
                self.expression(depth + 1);
                self.text.push(']');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_generated_templates_are_correct() {
        assert_eq!(template(&mut Choices::new(&[])), "");
        let correct = crate::seeds::entropy(std::path::Path::new("")).into_iter().filter(|entropy| {
            let source = template(&mut Choices::new(&entropy.bytes));
            pteron_llm::ChatTemplate::new(&source, std::collections::BTreeMap::new()).is_ok()
        });
        assert!(correct.count() > 10);
    }
}

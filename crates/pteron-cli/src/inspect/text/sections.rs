//! The sections of the text, one function per section.

use super::{Page, format};
use crate::inspect::report::{Caches, Constant, Delegate, Header, Method, OperatorCount, Report};
use crate::table::{Cell, Table};
use crate::terminal::{FAINT, NUMBER, TITLE, WARNING};
use crate::units::{bytes, count, plural};

/// How long the bar of the most frequent operator is.
const BAR: usize = 24;
/// How much of a key is shown, where it helps to tell keys apart.
const KEY: usize = 12;
/// How many external keys are listed.
const KEYS: usize = 5;

fn faint(text: impl AsRef<str>) -> Cell {
    Cell::new(text).style(FAINT)
}

fn size(number: u64) -> Cell {
    Cell::new(bytes(number)).style(NUMBER).right()
}

pub(super) fn header(page: &mut Page, header: &Header) {
    let extended = match header.extended_bytes {
        Some(length) => format!("{length}-byte extended header"),
        None => "no extended header".to_owned(),
    };
    let (tables, segments) = (bytes(header.tables_bytes), plural(header.segments, "segment"));
    let line = format!(
        "ExecuTorch program {}, {extended} · {tables} of tables · {segments}, {}",
        header.identifier,
        bytes(header.segments_bytes)
    );
    let mut table = Table::default();
    table.row([faint(line)]);
    page.indented(&table, 0);
}

pub(super) fn methods(page: &mut Page, report: &Report) {
    page.heading(
        "Methods",
        if any_dynamic(&report.methods) { "≤ marks sizes that may be smaller from call to call" } else { "" },
    );
    if report.methods.is_empty() {
        page.out.push_str("  none\n");
    }
    for method in &report.methods {
        let mut table = Table::default();
        table.row([Cell::new(&method.name).style(TITLE), faint(work(method))]);
        page.table(&table);
        let mut table = Table::default();
        let inputs = method.inputs.iter().map(|argument| ("in", argument));
        for (way, argument) in inputs.chain(method.outputs.iter().map(|argument| ("out", argument))) {
            let (kind, shape) = format::argument(argument);
            let name = argument.tensor.as_ref().and_then(|tensor| tensor.name.as_deref()).unwrap_or_default();
            table.row([faint(way), Cell::new(kind), Cell::new(shape).style(NUMBER), faint(name)]);
        }
        page.indented(&table, 4);
    }
}

fn any_dynamic(methods: &[Method]) -> bool {
    let mut tensors = methods.iter().flat_map(|method| method.inputs.iter().chain(&method.outputs)).flat_map(|a| &a.tensor);
    tensors.any(|tensor| tensor.dynamism == "bound")
}

/// Summarises a method's instructions.
fn work(method: &Method) -> String {
    let kernels = method.kernels.iter().map(|kernel| kernel.count).sum::<usize>();
    let mut parts = Vec::new();
    if let [single] = method.delegate_calls[..] {
        parts.push(format!("runs delegate {single}"));
    } else if !method.delegate_calls.is_empty() {
        parts.push(plural(method.delegate_calls.len(), "delegate call"));
    }
    if kernels > 0 {
        parts.push(plural(kernels, "portable kernel call"));
    }
    let other = method.instructions.saturating_sub(method.delegate_calls.len() + kernels);
    if other > 0 {
        parts.push(plural(other, "other instruction"));
    }
    if method.gpu_graphs > 0 {
        parts.push(format!("{} on the GPU", plural(method.gpu_graphs, "graph")));
    }
    let on_host = method.host_kernels.iter().map(|kernel| kernel.count).sum::<usize>();
    if on_host > 0 {
        parts.push(format!("{} on the host", plural(on_host, "kernel")));
    }
    if parts.is_empty() { "no instructions".to_owned() } else { parts.join(" · ") }
}

pub(super) fn constant_methods(page: &mut Page, report: &Report) {
    if report.constant_methods.is_empty() {
        return;
    }
    page.heading("Constant methods", "");
    let mut table = Table::default();
    for method in &report.constant_methods {
        let value = Cell::new(format!("= {}", format::literal(&method.value))).style(NUMBER);
        table.row([Cell::new(&method.name), value]);
    }
    page.table(&table);
}

pub(super) fn delegate(page: &mut Page, index: usize, delegate: &Delegate) {
    let users: Vec<_> = delegate.used_by.iter().map(|user| user.method.as_str()).collect();
    page.heading(&format!("Delegate {index}"), &format!("{} · {}", delegate.backend, users.join(", ")));
    let mut table = Table::default();
    for (index, option) in delegate.options.iter().enumerate() {
        let label = if index == 0 { "options" } else { "" };
        table.row([faint(label), Cell::new(format!("{} = {}", option.key, format::literal(&option.value)))]);
    }
    table.row([faint("data"), Cell::new(bytes(delegate.bytes))]);
    let Some(graph) = &delegate.graph else {
        table.row([faint("graph"), Cell::new("for a backend that this build does not read; its data is opaque")]);
        return page.table(&table);
    };
    let (inputs, outputs) = (plural(graph.inputs, "input"), plural(graph.outputs, "output"));
    table.row([faint("graph"), Cell::new(format!("{inputs} · {outputs} · {}", plural(graph.values, "value")))]);
    if let Some(numbers) = &delegate.xnnpack {
        table.row([faint("types"), Cell::new(counts(&numbers.dtypes))]);
        if !numbers.quantization.is_empty() {
            table.row([faint("quantised"), Cell::new(counts(&numbers.quantization))]);
        }
        let constants = format!("{}, {}", plural(numbers.constants, "constant"), bytes(numbers.constants_bytes));
        table.row([faint("constants"), Cell::new(constants)]);
        let nodes = format!("{} of {}", plural(graph.calls, "node"), plural(graph.operators.len(), "kind"));
        table.row([faint("nodes"), Cell::new(nodes)]);
    } else {
        let calls = format!("{} to {}", plural(graph.calls, "call"), plural(graph.operators.len(), "operator"));
        table.row([faint("operators"), Cell::new(calls)]);
    }
    page.table(&table);
    operators(page, &graph.operators);
}

/// Names and counts in one line.
fn counts(items: &[OperatorCount]) -> String {
    let items: Vec<_> = items.iter().map(|item| format!("{} {}", count(item.count as u64), item.name)).collect();
    items.join(" · ")
}

/// Counts and names; on a terminal with bars.
fn operators(page: &mut Page, operators: &[OperatorCount]) {
    let most = operators.iter().map(|operator| operator.count).max().unwrap_or(1);
    let mut table = Table::default();
    for operator in operators {
        let bar = if page.width.is_some() { format::bar(operator.count, most, BAR) } else { String::new() };
        let number = Cell::new(count(operator.count as u64)).style(NUMBER).right();
        table.row([number, Cell::new(&operator.name), faint(bar)]);
    }
    page.indented(&table, 4);
}

/// Portable kernels, by method.
pub(super) fn kernels(page: &mut Page, report: &Report) {
    let outside: Vec<_> = report.methods.iter().filter(|method| !method.kernels.is_empty()).collect();
    if outside.is_empty() && report.delegates.is_empty() {
        return;
    }
    page.heading("Outside the delegates", "portable kernels");
    if outside.is_empty() {
        page.out.push_str("  none: the delegates compute everything\n");
    }
    for method in outside {
        let mut table = Table::default();
        table.row([faint(&method.name)]);
        page.table(&table);
        operators(page, &method.kernels);
    }
}

pub(super) fn support(page: &mut Page, report: &Report) {
    let unsupported = &report.support.unsupported;
    let mut table = Table::default();
    if unsupported.is_empty() && report.support.refused.is_empty() {
        table.row([faint("this build runs every operator of the program")]);
    }
    if !unsupported.is_empty() {
        let counts = unsupported.iter().zip(&report.support.unsupported_calls);
        let names: Vec<String> = counts.map(|(name, count)| format!("{name} ({count}×)")).collect();
        table.row([Cell::new(format!("this build cannot run: {}", names.join(", "))).style(WARNING)]);
    }
    for reason in &report.support.refused {
        table.row([Cell::new(format!("this build cannot run it: {reason}")).style(WARNING)]);
    }
    page.out.push('\n');
    page.table(&table);
}

pub(super) fn constants(page: &mut Page, report: &Report) {
    let constants = &report.constants;
    page.heading("Constants", "");
    if constants.count == 0 {
        page.out.push_str("  none\n");
        return;
    }
    let mut table = Table::default();
    let row = |number: usize, size_of: u64, word: &str| {
        [Cell::new(count(number as u64)).style(NUMBER).right(), size(size_of), faint(word)]
    };
    table.row(row(constants.count, constants.bytes, "in all"));
    table.row(row(constants.unique_count, constants.unique_bytes, "unique: equal bytes are stored once"));
    page.table(&table);
    let shown = if constants.largest.len() == constants.unique_count { "each" } else { "the largest" };
    let mut table = Table::default();
    table.row([faint(shown)]);
    page.table(&table);
    let mut table = Table::default();
    for constant in &constants.largest {
        table.row(constant_row(constant));
    }
    page.indented(&table, 4);
}

fn constant_row(constant: &Constant) -> [Cell; 6] {
    let key = constant.key.as_deref().unwrap_or_default();
    // A hash is known by its first digits; a name is shown in full.
    let key = if pteron_format::is_sha256(key) { format!("{}…", &key[..KEY]) } else { key.to_owned() };
    let place = if constant.place == "external" { format!("{key} outside the file") } else { key };
    [
        size(constant.bytes),
        Cell::new(constant.dtype.unwrap_or("bytes")),
        Cell::new(format::shape(constant.shape.as_deref().unwrap_or_default())),
        faint(if constant.copies > 1 { format!("{}×", count(constant.copies as u64)) } else { String::new() }),
        Cell::new(constant.used_by.as_deref().unwrap_or("not used")),
        faint(place),
    ]
}

pub(super) fn caches(page: &mut Page, report: &Report) {
    if report.caches.is_empty() {
        return;
    }
    let is_kv = |caches: &Caches| caches.kind == "kv_cache";
    let title = match (report.caches.iter().any(is_kv), report.caches.iter().all(is_kv)) {
        (true, true) => "KV caches",
        (true, false) => "KV caches and state",
        _ => "State",
    };
    page.heading(title, "written in place, kept between calls");
    let mut table = Table::default();
    for caches in &report.caches {
        let words = match (caches.written_by.is_empty(), caches.is_input) {
            (true, _) => "starts as a constant".to_owned(),
            (false, true) => format!("passed in, written by {}", caches.written_by.join(", ")),
            (false, false) => format!("written by {}", caches.written_by.join(", ")),
        };
        table.row([
            Cell::new(format!("{} ×", count(caches.count as u64))).style(NUMBER).right(),
            Cell::new(caches.dtype),
            Cell::new(format::shape(&caches.shape)),
            Cell::new(format!("{} each", bytes(caches.bytes_each))).right(),
            size(caches.bytes),
            faint(words),
        ]);
    }
    page.table(&table);
}

pub(super) fn external(page: &mut Page, report: &Report) {
    let external = &report.external;
    if external.needed.is_empty() {
        return;
    }
    page.heading("External data", "constants that are not in this file");
    let needed = format!("{}, {}", plural(external.needed.len(), "key"), bytes(external.bytes));
    let found = if external.verified {
        Cell::new(format!("all in {}", plural(external.files.len(), "file"))).style(NUMBER)
    } else {
        Cell::new("not given: pass the .ptd file with --data").style(WARNING)
    };
    let mut table = Table::default();
    table.row([Cell::new(needed), found]);
    page.table(&table);
    let mut table = Table::default();
    for key in external.needed.iter().take(KEYS) {
        table.row([size(key.bytes), Cell::new(&key.key)]);
    }
    let rest = external.needed.len().saturating_sub(KEYS);
    if rest > 0 {
        table.row([Cell::new(""), faint(format!("and {} more (all with --json)", count(rest as u64)))]);
    }
    page.indented(&table, 4);
}

pub(super) fn memory(page: &mut Page, report: &Report) {
    let memory = &report.memory;
    page.heading("Memory", "at the largest shapes");
    let mut table = Table::default();
    for (label, number, meaning) in [
        ("constants", memory.constants_bytes, "each different one once"),
        ("caches", memory.state_bytes, "KV caches and other state, a buffer each"),
        ("activations", memory.activations_bytes, "computed tensors, sharing memory as the file plans"),
        ("host", memory.host_bytes, "inputs, outputs and what runs outside the delegates"),
    ] {
        table.row([Cell::new(label), size(number), faint(meaning)]);
    }
    table.row([Cell::new("total").style(TITLE), size(memory.total_bytes)]);
    table.row([
        faint("unshared"),
        size(memory.activations_unshared_bytes),
        faint("activations if nothing shared memory, for comparison"),
    ]);
    page.table(&table);
}

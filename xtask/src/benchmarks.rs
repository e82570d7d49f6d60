//! Writes the page of benchmarks, `docs/benchmarks/speed.md`, and its plots, from the raw runs in `benches/runs`.
//!
//! The page has the newest run of each program on each adapter. Every figure is read or computed from a run's file; nothing is typed.

mod plot;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::Workspace;

/// The page, the folder of its plots, and the folder of its runs, from the repository's root.
const PAGE: &str = "docs/benchmarks/speed.md";
const PLOTS: &str = "docs/benchmarks";
const RUNS: &str = "benches/runs";

const HEAD: &str = "# Speed of language models

Written by `cargo xtask benchmarks` from the files in [`benches/runs`](../../benches/runs); edit those, not this page. A run is made with
`pteron bench --runs benches/runs`, and [the command's README](../../crates/pteron-cli/README.md#measuring) says how it measures. The page
has the newest run of each program on each adapter.
";

/// Writes the page and its plots again.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let write = |path: &str, text: String| {
        std::fs::write(workspace.root.join(path), text).with_context(|| format!("{path} was not written"))
    };
    let runs = read_runs(&workspace.root)?;
    for run in newest(&runs) {
        write(&format!("{PLOTS}/{}", plot_name(run)), plot::svg(&run.json))?;
    }
    write(PAGE, page(&runs))
}

/// A run and the name of its file.
struct Run {
    file: String,
    json: Value,
}

/// Reads every report of `pteron bench`; the folder has files of other tools as well.
fn read_runs(root: &Path) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for entry in std::fs::read_dir(root.join(RUNS)).with_context(|| format!("{RUNS} could not be read"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).with_context(|| format!("{file} could not be read"))?;
        let json: Value = serde_json::from_str(&text).with_context(|| format!("{file} is not JSON"))?;
        if json["report_version"].is_u64() {
            runs.push(Run { file, json });
        }
    }
    Ok(runs)
}

/// The newest run of each program on each adapter, in whatever order they come.
fn newest(runs: &[Run]) -> Vec<&Run> {
    let mut newest: BTreeMap<(&str, &str), &Run> = BTreeMap::new();
    for run in runs {
        let key = (text(&run.json["adapter"]["name"]), text(&run.json["program"]["name"]));
        let kept = newest.entry(key).or_insert(run);
        if text(&run.json["date"]) > text(&kept.json["date"]) {
            *kept = run;
        }
    }
    newest.into_values().collect()
}

/// The page for some runs.
fn page(runs: &[Run]) -> String {
    let mut out = HEAD.to_owned();
    for run in newest(runs) {
        section(&mut out, run);
    }
    out
}

/// The name of a run's plot.
fn plot_name(Run { json, .. }: &Run) -> String {
    let name = format!("{}-{}", text(&json["program"]["name"]), text(&json["adapter"]["name"])).to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("speed-{}.svg", words.join("-"))
}

fn section(out: &mut String, run: &Run) {
    let Run { file, json } = run;
    let (adapter, program) = (&json["adapter"], &json["program"]);
    let _ = writeln!(out, "\n## {} on {}\n", text(&program["name"]), text(&adapter["name"]));
    let debug = if json["optimised"] == false { ", a debug build" } else { "" };
    let tuned = json["tuning"].as_str().map(|tuning| format!("; tuned: {tuning}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "Driver {}, {}; {}; pteron {}{debug}{tuned}; {} runs of each test; [raw figures](../../{RUNS}/{file}).\n",
        text(&adapter["driver"]),
        text(&adapter["backend"]),
        text(&json["date"]).replace('T', " ").replace('Z', " UTC"),
        text(&json["version"]),
        json["repeat"],
    );
    let _ = writeln!(out, "![Speed by length and by depth]({})\n", plot_name(run));
    tests(out, json);
    for sentence in [loading(json), checks(json)].into_iter().flatten() {
        let _ = writeln!(out, "\n{sentence}");
    }
}

/// The table of tests, with a pair of columns per peer.
fn tests(out: &mut String, json: &Value) {
    let peers = list(&json["peers"]);
    let mut head = "| test | depth | tok/s | min … max | wall | GPU | wall − GPU |".to_owned();
    let mut line = "|---|---:|---:|---:|---:|---:|---:|".to_owned();
    for peer in peers {
        let _ = write!(head, " {} | ratio |", text(&peer["name"]));
        line.push_str("---:|---:|");
    }
    let _ = writeln!(out, "{head}\n{line}");
    for test in list(&json["tests"]).iter().filter(|test| test["wall"].is_object()) {
        let tokens = test["tokens"].as_f64().unwrap_or(0.0);
        let own = test["tokens_per_second"].as_f64();
        let kind = if test["test"] == "prefill" { "pp" } else { "tg" };
        let [least, most] = ["max", "min"].map(|field| test["wall"][field].as_f64().map(|seconds| tokens / seconds));
        let range = format!("{} … {}", rate(least), rate(most));
        let [wall, gpu] = ["call_seconds", "gpu_call_seconds"].map(|field| time(test[field].as_f64()));
        let _ = write!(out, "| {kind} {} | {} | {} | {range} | {wall} | {gpu} |", test["tokens"], test["depth"], rate(own));
        let _ = write!(out, " {} |", time(gap(test)));
        for peer in peers {
            let other = speed_of(peer, test);
            let ratio = own.zip(other).map_or_else(|| "–".to_owned(), |(own, other)| format!("{:.2}", own / other));
            let _ = write!(out, " {} | {ratio} |", rate(other));
        }
        out.push('\n');
    }
    let _ = writeln!(out, "\nTimes are per call: a decode step, a prompt or a part of it.");
    for peer in peers {
        let told = ["model", "build", "backends", "gpu"].map(|field| text(&peer[field]));
        let told: Vec<&str> = told.into_iter().filter(|text| !text.is_empty()).collect();
        let _ = writeln!(out, "{}: {}, measured in turns.", text(&peer["name"]), told.join(", "));
    }
}

/// Wall time less GPU time of a call: as reported, or from the medians in reports that do not have it.
fn gap(test: &Value) -> Option<f64> {
    let reported = test["gap_call_seconds"]["median"].as_f64();
    reported.or_else(|| Some(test["call_seconds"].as_f64()? - test["gpu_call_seconds"].as_f64()?))
}

/// The median speed of a peer in a test.
fn speed_of(peer: &Value, test: &Value) -> Option<f64> {
    let same = |other: &&Value| ["test", "tokens", "depth"].iter().all(|field| other[*field] == test[*field]);
    let speeds = list(&list(&peer["tests"]).iter().find(same)?["tokens_per_second"]);
    let mut speeds: Vec<f64> = speeds.iter().filter_map(Value::as_f64).collect();
    speeds.sort_by(f64::total_cmp);
    Some(f64::midpoint(*speeds.get(speeds.len() / 2)?, *speeds.get((speeds.len().max(1) - 1) / 2)?))
}

fn loading(json: &Value) -> Option<String> {
    let [cold, warm] = ["cold_seconds", "warm_seconds"].map(|field| time(json["loading"][field].as_f64()));
    let mut text = format!("Loading to the first token: {cold}, and {warm} on a device that holds the kernels.");
    if let Some(seconds) = json["first_token"]["seconds"]["median"].as_f64() {
        let _ = write!(text, " In a new process with warm caches: {}", time(Some(seconds)));
        if let Some(peak) = json["first_token"]["peak_host_bytes"].as_f64() {
            let _ = write!(text, ", with {:.1} MiB of host memory besides the mapped file", peak / f64::from(1 << 20));
        }
        text.push('.');
    }
    json["loading"].is_object().then_some(text)
}

fn checks(json: &Value) -> Option<String> {
    let check = |check: &Value| {
        let error = 100.0 * check["largest_relative_error"].as_f64().unwrap_or(f64::NAN);
        let [agreed, positions] = ["agreed", "positions"].map(|field| &check[field]);
        format!(
            "{}: argmax as on the exact path at {agreed} of {positions} positions, logits within {error:.2} %.",
            text(&check["program"])
        )
    };
    let all: Vec<String> = list(&json["checks"]).iter().map(check).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A rate: three digits, or all before the point.
fn rate(rate: Option<f64>) -> String {
    let Some(rate) = rate else { return "–".to_owned() };
    let digits = if rate < 10.0 { 2 } else { usize::from(rate < 100.0) };
    format!("{rate:.digits$}")
}

fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(seconds) if seconds >= 1.0 => format!("{seconds:.2} s"),
        Some(seconds) if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        Some(seconds) => format!("{:.1} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(date: &str, speed: f64) -> Run {
        let test = json!({
            "test": "decode", "tokens": 10, "depth": 0, "tokens_per_second": speed, "wall": { "min": 0.01, "max": 0.02 },
            "call_seconds": 0.0015, "gpu_call_seconds": 0.001, "gap_call_seconds": { "median": 0.000_25 },
        });
        let peer = json!({ "name": "cuda", "model": "m.gguf", "build": "7 (abc)", "backends": "CUDA", "gpu": null, "tests": [
            { "test": "decode", "tokens": 10, "depth": 0, "tokens_per_second": [100.0, 300.0, 200.0] },
        ] });
        let json = json!({
            "date": date, "version": "0.1.0", "optimised": true, "repeat": 3, "tuning": null,
            "adapter": { "name": "Wing", "driver": "feather 1", "backend": "vulkan" }, "program": { "name": "bird" },
            "tests": [test, { "test": "prefill", "tokens": 9, "depth": 0, "skipped": "too long" }], "peers": [peer],
            "loading": { "cold_seconds": 1.5, "warm_seconds": 0.25 },
            "first_token": { "seconds": { "median": 0.5 }, "peak_host_bytes": 3 << 20 },
            "checks": [{ "program": "bird", "agreed": 511, "positions": 512, "largest_relative_error": 0.002 }],
        });
        Run { file: format!("{date}.json"), json }
    }

    #[test]
    fn the_newest_run_of_a_program_is_shown() {
        let page = page(&[
            sample("2026-11-15T01:00:00Z", 1.0),
            sample("2026-11-16T01:00:00Z", 250.0),
            sample("2026-11-14T01:00:00Z", 2.0),
        ]);
        for part in [
            "\n## bird on Wing\n",
            "[raw figures](../../benches/runs/2026-11-16T01:00:00Z.json)",
            "| test | depth | tok/s | min … max | wall | GPU | wall − GPU | cuda | ratio |\n",
            "| tg 10 | 0 | 250 | 500 … 1000 | 1.50 ms | 1.00 ms | 250.0 µs | 200 | 1.25 |\n\n",
            "cuda: m.gguf, 7 (abc), CUDA, measured in turns.\n",
            "first token: 1.50 s, and 250.00 ms on a device that holds the kernels. In a new process with warm caches: 500.00 ms, with 3.0 MiB",
            "bird: argmax as on the exact path at 511 of 512 positions, logits within 0.20 %.\n",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
        assert!(page.starts_with(HEAD) && page.matches("## ").count() == 1 && !page.contains("too long"), "{page}");
    }

    #[test]
    fn reports_without_later_fields_are_shown() {
        let mut run = sample("2026-11-15T01:00:00Z", 50.5);
        for field in ["peers", "first_token", "checks"] {
            run.json.as_object_mut().unwrap().remove(field);
        }
        run.json["tests"][0].as_object_mut().unwrap().remove("gap_call_seconds");
        let page = page(&[run]);
        assert!(page.contains("| tg 10 | 0 | 50.5 | 500 … 1000 | 1.50 ms | 1.00 ms | 500.0 µs |\n"), "{page}");
        assert!(!page.contains("argmax") && !page.contains("new process"), "{page}");
    }

    #[test]
    fn the_page_is_the_one_that_the_runs_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = std::fs::read_to_string(root.join(PAGE)).unwrap().replace("\r\n", "\n");
        let runs = read_runs(root).unwrap();
        assert!(found == page(&runs), "{PAGE} is not current: run `cargo xtask benchmarks`");
        for run in newest(&runs) {
            let plot = std::fs::read_to_string(root.join(PLOTS).join(plot_name(run))).unwrap().replace("\r\n", "\n");
            assert!(plot == plot::svg(&run.json), "{} is not current: run `cargo xtask benchmarks`", plot_name(run));
        }
    }
}

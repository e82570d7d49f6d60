//! `pteron bench` on any adapter; on a software one the speeds are low, but every figure is present.

use serde_json::Value;

use crate::{Scratch, pteron, root};

const TINY: &str = "fixtures/llama/tiny_4w/program.pte";

/// The cells of a Markdown table, row by row, without the line under its head.
fn table(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

#[test]
fn the_bundled_model_is_measured_by_default() {
    let run = pteron("bench --pp 8 --tg 4 --depth 0,16 --repeat 1 --quiet".split(' '));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let rows = table(&run.out);
    let heads = "test depth tok/s wall GPU dispatches".split(' ');
    let column = |head: &str| rows[0].iter().position(|found| found == head).unwrap_or_else(|| panic!("no {head}"));
    let columns: Vec<usize> = heads.map(column).collect();
    let cells = |row: usize| -> Vec<&str> { columns.iter().map(|&column| rows[row][column].as_str()).collect() };
    assert_eq!(rows.len(), 4, "{}", run.out);
    for (row, (test, depth)) in [("pp 8", "0"), ("tg 4", "0"), ("tg 4", "16")].into_iter().enumerate() {
        let cells = cells(row + 1);
        assert_eq!(cells[..2], [test, depth]);
        assert!(cells[2].parse::<f64>().unwrap() > 0.0, "{cells:?}");
        assert!(cells[3].ends_with('s') && cells[5].parse::<u32>().unwrap() > 40, "{cells:?}");
    }
    assert!(run.out.starts_with("**") && run.out.contains("**the bundled model**: "), "{}", run.out);
    assert!(run.out.contains("of constants") && run.out.contains("one run after a warm-up"), "{}", run.out);
}

#[test]
fn json_plot_and_saved_runs_agree() {
    let scratch = Scratch::new("bench");
    let [plot, runs] = ["speed.svg", "kept/here"].map(|name| scratch.0.join(name).to_string_lossy().into_owned());
    let typed = "--pp 200,8 --tg 4 --depth 0,16,125 --repeat 2 --json --model";
    let run = pteron(["bench"].into_iter().chain(typed.split(' ')).chain([TINY, "--plot", &plot, "--runs", &runs]));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let tests = json["tests"].as_array().unwrap();
    let told = |test: &Value| (test["test"].as_str().unwrap().to_owned(), test["tokens"].as_u64(), test["depth"].as_u64());
    let expected = [("prefill", 200, 0), ("prefill", 8, 0), ("decode", 4, 0), ("decode", 4, 16), ("decode", 4, 125)];
    let expected = expected.map(|(test, tokens, depth)| (test.to_owned(), Some(tokens), Some(depth)));
    assert_eq!(tests.iter().map(told).collect::<Vec<_>>(), expected);
    for index in [0, 4] {
        let reason = tests[index]["skipped"].as_str().unwrap();
        assert!(reason.ends_with("the context has 128"), "{reason}");
    }
    let memory = &json["memory"];
    assert!(memory["planned_bytes"].as_u64() >= memory["state_bytes"].as_u64(), "{memory}");
    assert!(memory["reserved_bytes"].is_null() || memory["reserved_bytes"].as_u64() >= memory["allocated_bytes"].as_u64());
    for test in &tests[1..4] {
        assert_eq!(test["runs"].as_array().unwrap().len(), 2);
        assert!(test["tokens_per_second"].as_f64().unwrap() > 0.0, "{test}");
        let work = &test["work"];
        assert_eq!(work["calls"].as_u64(), Some(if test["test"] == "prefill" { 1 } else { 4 }));
        assert!(work["dispatches"].as_u64() >= work["calls"].as_u64(), "{work}");
    }
    assert!(tests[3]["read_bytes_per_token"].as_f64() > tests[2]["read_bytes_per_token"].as_f64());
    let kept: Vec<_> = std::fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].to_string_lossy().ends_with("-program.json"), "{kept:?}");
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(&kept[0]).unwrap()).unwrap(), json);
    let picture = std::fs::read_to_string(&plot).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("program.pte on "), "{picture}");
    for value in [&json, &json["memory"], &tests[3]] {
        fields_are_described(value);
    }
    assert!(json["memory"]["ratio"].as_f64().unwrap() > 0.5, "{}", json["memory"]);
}

#[test]
fn many_sequences_are_measured_at_once() {
    let typed = "bench --sequences 1,3 --prompt-length 9 --tg 6 --repeat 2 --model";
    let args = || typed.split(' ').chain([TINY]);
    let run = pteron(args().chain(["--json"]));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((json["prompt_length"].as_u64(), json["generated_length"].as_u64()), (Some(9), Some(6)));
    let tests = json["tests"].as_array().unwrap();
    for (test, sequences) in tests.iter().zip([1, 3]) {
        assert_eq!(test["sequences"].as_u64(), Some(sequences));
        assert!(test["decode_tokens_per_second"].as_f64() > Some(0.0), "{test}");
        let runs = test["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            assert!(run["decode_tokens"].as_u64() >= Some(6 * sequences), "{run}");
            assert!(run["prompt_seconds"].as_f64() > Some(0.0), "{run}");
        }
    }
    let run = pteron(args().chain(["--quiet"]));
    let rows = table(&run.out);
    assert_eq!(rows[0][..2], ["sequences", "decode tok/s"]);
    assert_eq!(rows[1..].iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["1", "3"]);
    let long = pteron(args().map(|arg| if arg == "9" { "200" } else { arg }));
    assert_eq!((long.code, long.out.as_str()), (Some(1), ""));
    assert!(long.err.contains("do not fit a context of 128"), "{}", long.err);
}

#[test]
fn the_measured_path_agrees_with_the_exact_one() {
    let shape = "layers=1,width=64,heads=2,kv=1,hidden=64,vocab=64";
    for (source, name) in [(["--model", TINY], "program.pte"), (["--synthetic", shape], shape)] {
        let run = pteron(["bench", "--check", "--json"].into_iter().chain(source));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
        let json: Value = serde_json::from_str(&run.out).unwrap();
        let check = &json["checks"][0];
        assert_eq!((check["program"].as_str(), check["positions"].as_u64()), (Some(name), Some(16 * 32)));
        assert!(check["agreed"].as_u64() > Some(506), "{check}");
        assert!(check["largest_relative_error"].as_f64().unwrap() < 1e-2, "{check}");
        assert!(check["median_lead"].as_f64().unwrap() > 1e-3, "{check}");
        assert!(check["near_ties"].as_u64() >= check["disagreed_near_ties"].as_u64(), "{check}");
        assert!(check["difference"].as_str().unwrap().starts_with("fusions"), "{check}");
        assert_eq!((json["checks"].as_array().unwrap().len(), json["tests"].as_array().unwrap().len()), (1, 0));
        fields_are_described(check);
    }
}

#[test]
fn a_length_sweep_times_every_length() {
    let scratch = Scratch::new("sweep");
    let plot = scratch.0.join("sweep.svg").to_string_lossy().into_owned();
    let run = pteron([
        "bench",
        "--model",
        TINY,
        "--length-sweep",
        "112..130",
        "--repeat",
        "1",
        "--quiet",
        "--json",
        "--plot",
        &plot,
    ]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let length_sweep = &json["length_sweep"];
    let lengths = length_sweep["lengths"].as_array().unwrap();
    // The context ends at 128.
    let tokens: Vec<u64> = lengths.iter().filter_map(|length| length["tokens"].as_u64()).collect();
    assert_eq!(tokens, (112..=128).collect::<Vec<_>>());
    for length in lengths {
        let [wall, near] = ["wall_seconds", "neighbours_seconds"].map(|field| length[field].as_f64().unwrap());
        assert!(wall > 0.0 && (length["ratio"].as_f64().unwrap() - wall / near).abs() < 1e-9, "{length}");
    }
    // Here only chance decides; the status must say what the figures do.
    let offenders = length_sweep["offenders"].as_array().unwrap().len();
    assert_eq!(
        (run.code, run.err.contains("the median of its neighbours")),
        (Some(i32::from(offenders > 0)), offenders > 0)
    );
    let picture = std::fs::read_to_string(&plot).unwrap();
    assert!(picture.contains("Length sweep: prefill") && !picture.contains("Decode"), "{picture}");
    fields_are_described(length_sweep);
    assert_eq!(&json["smoothness"], length_sweep, "the name before 0.2");
    fields_are_described(&lengths[0]);
    let run = pteron(["bench", "--model", TINY, "--smooth", "200..300", "--quiet"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.err, "error: a prompt of 200 tokens does not fit a context of 128\n");
}

#[test]
fn an_ab_comparison_measures_both_in_turns() {
    let typed = "--pp 8 --tg 4 --depth 0,16 --repeat 3 --against unfused --json --quiet --model";
    let run = pteron(["bench"].into_iter().chain(typed.split(' ')).chain([TINY]));
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["against"].as_str(), Some("unfused"));
    let mut slowest = f64::INFINITY;
    for test in json["tests"].as_array().unwrap() {
        assert_eq!([&test["runs"], &test["other_runs"]].map(|runs| runs.as_array().unwrap().len()), [3, 3]);
        let ratio = &test["ratio"];
        assert!(ratio["min"].as_f64() <= ratio["median"].as_f64(), "{ratio}");
        slowest = slowest.min(ratio["median"].as_f64().unwrap());
        fields_are_described(test);
    }
    assert_eq!(run.code, Some(i32::from(slowest < 0.97)), "{}", run.err);
}

/// A `llama-bench` that prints fixed speeds, and writes its arguments to a file beside it.
#[cfg(unix)]
const FAKE_PEER: &str = r#"#!/bin/sh
echo "$*" >> "$0.log"
row() { printf '{"build_commit":"f00","build_number":42,"backends":"Fake","gpu_info":"Wing","n_prompt":%s,"n_gen":%s,"n_depth":%s,"avg_ts":%s}' "$@"; }
case "$*" in
  *"-n 0"*) echo "[$(row 8 0 0 1e-3)]" ;;
  *) echo "[$(row 0 4 0 1e9),$(row 0 4 16 5e-4)]" ;;
esac
"#;

#[cfg(unix)]
#[test]
fn peers_run_in_turns_and_get_ratios() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("peers");
    std::fs::create_dir_all(scratch.0.join("cuda")).unwrap();
    let program = scratch.file("cuda/llama-bench", FAKE_PEER.as_bytes());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let folder = scratch.0.to_string_lossy().into_owned();
    let bench = |more: &[&str]| {
        let typed = "bench --pp 8 --tg 4 --depth 0,16,1000 --repeat 2 --quiet --model";
        pteron(typed.split(' ').chain([TINY, "--peers", &folder]).chain(more.iter().copied()))
    };
    let run = bench(&[]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.ends_with("it has no GGUF file; name one with --peer-model\n"), "{}", run.err);
    let model = scratch.file("cuda/model.gguf", b"");
    let run = bench(&["--json"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let peer = &json["peers"][0];
    let told = ["name", "model", "build", "backends", "gpu"].map(|field| peer[field].as_str().unwrap());
    assert_eq!(told, ["cuda", "model.gguf", "42 (f00)", "Fake", "Wing"]);
    assert_eq!(peer["tests"][0]["tokens_per_second"], serde_json::json!([1e-3, 1e-3]));
    assert_eq!(peer["tests"].as_array().unwrap().len(), 3);
    assert_eq!(json["tests"][1]["runs"].as_array().unwrap().len(), 2);
    fields_are_described(peer);
    fields_are_described(&peer["tests"][0]);
    let asked = std::fs::read_to_string(format!("{program}.log")).unwrap();
    let round = ["-p 8 -n 0", "-p 0 -n 4 -d 0,16"].map(|cases| format!("-m {model} -ngl 99 -fa 1 -r 1 -o json {cases}"));
    assert_eq!(asked.lines().collect::<Vec<_>>(), [&round[..], &round[..]].concat(), "without the depth that does not fit");
    let text = bench(&["--peer-model", &model]).out;
    let rows = table(text.rsplit("pteron tok/s").next().unwrap());
    assert!(rows[0].last().unwrap().parse::<f64>().unwrap() > 1.0, "{text}");
    assert_eq!(rows[1][3..], ["1000000000", "0.00"]);
    assert_eq!(rows[3][3..], ["–", "–"]);
    assert!(text.ends_with("cuda: model.gguf, 42 (f00), Fake, Wing\n"), "{text}");
    std::fs::write(&program, "#!/bin/sh\necho out of memory >&2\nexit 3\n").unwrap();
    let run = bench(&[]);
    assert!(run.code == Some(1) && run.err.contains("its last line: out of memory"), "{}", run.err);
}

#[test]
fn rows_and_first_tokens_are_measured_alone() {
    let run = pteron(["bench", "--rows", "1,3", "--first-token", "2", "--repeat", "1", "--json", "--model", TINY]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let tests = json["tests"].as_array().unwrap();
    assert_eq!(tests.iter().map(|test| test["tokens"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(3)]);
    let first = &json["first_token"];
    let runs = first["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let [whole, device, load] = ["seconds", "device_seconds", "load_seconds"].map(|field| run[field].as_f64().unwrap());
        assert!(device > 0.0 && load > 0.0 && whole > device + load, "{run}");
        fields_are_described(run);
    }
    assert_eq!(first["peak_host_bytes"].is_u64(), cfg!(target_os = "linux"), "{first}");
    fields_are_described(first);
}

/// README.md names what is in the JSON object.
fn fields_are_described(value: &Value) {
    let readme = std::fs::read_to_string(root().join("crates/pteron-cli/README.md")).unwrap();
    for field in value.as_object().unwrap().keys() {
        assert!(readme.contains(&format!("`{field}`")), "{field} is not in README.md");
    }
}

#[test]
fn a_program_that_is_not_a_language_model_is_rejected() {
    let run = pteron(["bench", "--model", "fixtures/ops/relu/program.pte"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert!(run.err.lines().last().unwrap().starts_with("error: "), "{}", run.err);
}

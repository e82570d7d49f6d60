//! Calls through the command, compared with PyTorch's outputs.

use serde_json::Value;

use super::arrays::{Array, load, named, save};
use super::{Scratch, pteron, read};

const LLAMA: &str = "fixtures/llama/tiny_4w";

fn manifest(folder: &str) -> Value {
    serde_json::from_slice(&read(&format!("{folder}/manifest.json"))).unwrap()
}

/// The calls of a sequence: the inputs' files, written to the scratch directory.
pub(super) fn inputs(scratch: &Scratch, folder: &str, calls: &[&Value]) -> Vec<String> {
    let file = |(index, call): (usize, &&Value)| {
        let inputs = call["inputs"].as_array().unwrap();
        let arrays: Vec<Array> = inputs.iter().map(|input| Array::of_fixture(folder, input)).collect();
        ["--in".to_owned(), scratch.file(&format!("in{index}.npz"), &save(&arrays))]
    };
    calls.iter().enumerate().flat_map(file).collect()
}

/// The calls of a named sequence of the tiny model.
pub(super) fn sequence<'a>(manifest: &'a Value, name: &str) -> Vec<&'a Value> {
    let sequences = manifest["sequences"].as_array().unwrap();
    let sequence = sequences.iter().find(|sequence| sequence["name"] == name).expect(name);
    sequence["calls"].as_array().unwrap().iter().collect()
}

fn expect_close(place: &str, got: &Array, want: &Array, case: &Value) {
    assert_eq!((&got.descr, &got.shape), (&want.descr, &want.shape), "{place}");
    let (atol, rtol) = (case["atol"].as_f64().unwrap(), case["rtol"].as_f64().unwrap());
    assert_eq!(got.bytes.len(), want.bytes.len(), "{place}");
    for (index, (got, want)) in got.values().into_iter().zip(want.values()).enumerate() {
        let close =
            got == want || want.is_finite() && ((got - want).abs() <= atol || (got - want).abs() <= rtol * want.abs());
        assert!(close || (got.is_nan() && want.is_nan()), "{place}, element {index}: {got}, expected {want}");
    }
}

/// Runs the calls in one go and compares every output.
fn expect_goldens(folder: &str, program: &str, case: &Value, calls: &[&Value], more: &[String]) {
    let scratch = Scratch::new(&format!("goldens-{}", program.replace('/', "-")));
    let out = scratch.0.join("out/put").to_string_lossy().into_owned();
    let mut args =
        vec!["exec".to_owned(), format!("{folder}/{program}"), "--quiet".to_owned(), "--out".to_owned(), out.clone()];
    args.extend(inputs(&scratch, folder, calls));
    args.extend_from_slice(more);
    let run = pteron(&args);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "", ""), "{program}");
    for (index, call) in calls.iter().enumerate() {
        let outputs = load(&format!("{out}/{index}.npz"));
        for golden in call["goldens"].as_array().unwrap() {
            let at = usize::try_from(golden["output_index"].as_u64().unwrap_or(0)).unwrap();
            let place = format!("{program}, call {index}, output {at}");
            expect_close(&place, &outputs[at], &Array::of_fixture(folder, golden), case);
        }
    }
    let names = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let mut expected: Vec<String> = (0..calls.len()).map(|index| format!("{index}.npz")).collect();
    expected.sort();
    assert_eq!(names, expected, "nothing half-written is left");
}

#[test]
fn operators_match_pytorch() {
    let all = manifest("fixtures/ops");
    for name in [
        "add_same",
        "add_rank0",
        "add_int64",
        "add_dynamic",
        "float16_add",
        "embedding_dynamic",
        "sdpa_gqa",
        "mutable_buffer",
        "constants_external",
    ] {
        let case = all.as_array().unwrap().iter().find(|case| case["name"] == name).expect(name);
        let calls: Vec<&Value> = case["calls"].as_array().unwrap().iter().collect();
        let data = case["ptd"].as_array().into_iter().flatten();
        let data = data.flat_map(|path| ["--data".to_owned(), format!("fixtures/ops/{}", path.as_str().unwrap())]);
        expect_goldens("fixtures/ops", case["pte"].as_str().unwrap(), case, &calls, &data.collect::<Vec<_>>());
    }
}

#[test]
fn a_language_model_keeps_its_cache_from_call_to_call() {
    let model = manifest(LLAMA);
    for name in ["S7", "chunked"] {
        expect_goldens(LLAMA, "program.pte", &model, &sequence(&model, name), &[]);
    }
}

/// Repeating and profiling do not change the outputs.
#[test]
fn repetition_starts_afresh() {
    let model = manifest(LLAMA);
    let calls = sequence(&model, "S3");
    expect_repeated(&model, &calls);
}

fn expect_repeated(model: &Value, calls: &[&Value]) {
    let scratch = Scratch::new("repeat");
    let run = |name: &str, more: &[&str]| {
        let out = scratch.0.join(name).to_string_lossy().into_owned();
        let program = format!("{LLAMA}/program.pte");
        let files = inputs(&scratch, LLAMA, calls);
        let args = ["exec", &program, "--out", &out]
            .into_iter()
            .chain(files.iter().map(String::as_str))
            .chain(more.iter().copied());
        let run = pteron(args);
        assert_eq!(run.code, Some(0), "{}", run.err);
        (run, load(&format!("{out}/{}.npz", calls.len() - 1)))
    };
    let (once, first) = run("once", &[]);
    assert_eq!(once.out, "");
    let summary = once.err.lines().last().unwrap();
    assert!(summary.contains(&format!(": {} calls of forward in ", calls.len())), "{summary}");
    let (thrice, again) = run("thrice", &["--repeat", "3"]);
    assert_eq!(first, again, "each round starts where the file does");
    expect_close("the last call", &again[0], &Array::of_fixture(LLAMA, &calls[calls.len() - 1]["goldens"][0]), model);
    let lines: Vec<Vec<&str>> = thrice.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["call", "min", "median", "of", "input"]);
    assert_eq!(lines.len(), calls.len() + 1);
    assert_eq!((lines[1][0], lines[1][5], lines[1][6]), ("0", "3", "in0.npz"), "{}", thrice.out);
    assert!(lines[1][1].parse::<f64>().unwrap() > 0.0);
}

/// Compressed, in column order, of another version: what NumPy may write is read.
#[test]
fn every_way_numpy_saves_is_read() {
    let scratch = Scratch::new("numpy");
    let program = "fixtures/ops/add_same/program.pte";
    let a = Array::floats(&[3, 5], &std::array::from_fn::<f32, 15, _>(|i| i as f32));
    let b = Array::floats(&[3, 5], &[100.0; 15]);
    let columns: Vec<f32> = (0..15).map(|i| (i % 3 * 5 + i / 3) as f32).collect();
    let mut turned = Array::floats(&[3, 5], &columns).npy();
    let at = turned.windows(5).position(|word| word == b"False").unwrap();
    turned.splice(at..at + 5, *b"True ");
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }";
    let third = [b"\x93NUMPY\x03\x00\x3b\x00\x00\x00", header.as_bytes(), &a.bytes].concat();
    for (name, first, compressed) in
        [("stored", a.npy(), false), ("deflated", a.npy(), true), ("columns", turned, true), ("version 3", third, false)]
    {
        let file = scratch.file("call.npz", &named(&[("arr_0", first), ("arr_1", b.npy())], compressed));
        let out = scratch.0.join("out").to_string_lossy().into_owned();
        let run = pteron(["exec", program, "--in", &file, "--out", &out, "-q"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{name}");
        let sum: Vec<f32> = (0..15).map(|i| 100.0 + i as f32).collect();
        assert_eq!(load(&format!("{out}/0.npz")), [Array::floats(&[3, 5], &sum)], "{name}");
    }
}

#[test]
fn a_method_is_chosen_by_name() {
    let all = manifest("fixtures/ops");
    let case = all.as_array().unwrap().iter().find(|case| case["name"] == "two_methods").unwrap();
    let calls: Vec<&Value> = case["calls"].as_array().unwrap().iter().filter(|call| call["method"] == "encode").collect();
    assert!(!calls.is_empty());
    let more = ["--method".to_owned(), "encode".to_owned()];
    expect_goldens("fixtures/ops", case["pte"].as_str().unwrap(), case, &calls, &more);
}

#[test]
fn inputs_and_constants_follow_from_their_seeds() {
    let scratch = Scratch::new("random_seeds");
    let outputs = |constants: &str, inputs: &str, more: &[&str]| {
        let out = scratch.0.join(format!("{constants}-{inputs}-{}", more.len())).to_string_lossy().into_owned();
        let args = ["exec", "fixtures/ops/convolution_3x3/program.pte", "--quiet", "--out", &out];
        let seeds = ["--random-constants", constants, "--random-inputs", inputs];
        let args: Vec<String> = args.iter().chain(&seeds).chain(more).map(|&arg| arg.to_owned()).collect();
        let run = pteron(&args);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
        load(&format!("{out}/0.npz")).remove(0).values()
    };
    let first = outputs("1", "1", &[]);
    assert!(first.iter().any(|&value| value != first[0]) && first.iter().all(|value| value.is_finite()));
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-2);
    assert!(close(&first, &outputs("1", "1", &["--exact"])) && close(&first, &outputs("1", "1", &["--fast", "--repeat=2"])));
    assert!(!close(&first, &outputs("2", "1", &[])) && !close(&first, &outputs("1", "2", &[])));
}

//! Schemas of others, from a folder: each is compiled, texts of it are written, and the masks are timed. `conformance/json_schemas.py`
//! runs this and validates the texts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pteron_llm::Tokenizer;
use serde_json::{Value, json};

use super::walk::{Length, Vocabulary, Walk, Walker};

/// Texts of each schema: one that ends as soon as it can, and two that go on at random first.
const RANDOM: [usize; 3] = [0, 30, 150];
const MOST: usize = 4000;

#[test]
#[ignore = "takes a folder of schemas and a vocabulary: see conformance/json_schemas.py"]
fn texts_of_a_folder_of_schemas() {
    let variable = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")));
    let files = files(&variable("PTERON_SCHEMAS"));
    let count: usize = variable("PTERON_SCHEMAS_COUNT").to_str().and_then(|text| text.parse().ok()).unwrap();
    assert!(files.len() >= count, "the folder has {} schemas", files.len());
    let tokenizer = Tokenizer::open(variable("PTERON_VOCABULARY")).unwrap();
    let (end, size) = (tokenizer.eos().unwrap(), tokenizer.vocab_size());
    let mut walker = Walker::new(Vocabulary::new(tokenizer, size, end));
    let mut results = Vec::new();
    for number in 0..count {
        // Spread over the folder, so that all of its collections are among them.
        let file = &files[number * files.len() / count];
        let schema: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        for random in RANDOM {
            let (outcome, text) = match walker.write(&schema, Length { random, most: MOST }) {
                Walk::Whole(text) => ("whole", text),
                Walk::Refused(reason) => ("refused", reason),
                Walk::Failed { reason, text } => ("failed", format!("{reason}: {text}")),
                Walk::Endless => ("endless", String::new()),
            };
            results.push(json!({ "schema": file, "outcome": outcome, "text": text }));
            if outcome == "refused" {
                break;
            }
        }
    }
    let times = json!({
        "vocabulary": size,
        "masks": percentiles(walker.masks),
        "compiling": percentiles(walker.compiling),
    });
    fs::write(variable("PTERON_SCHEMAS_RESULTS"), json!({ "results": results, "times": times }).to_string()).unwrap();
}

/// All files below a folder that are JSON, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let is_json = || fs::read(&path).is_ok_and(|text| serde_json::from_slice::<Value>(&text).is_ok());
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") && is_json() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Microseconds.
fn percentiles(mut times: Vec<Duration>) -> Value {
    times.sort();
    let at = |per_mille: usize| {
        let place = (times.len() * per_mille / 1000).min(times.len().saturating_sub(1));
        times.get(place).map(|time| time.as_secs_f64() * 1e6)
    };
    json!({ "count": times.len(), "p50": at(500), "p90": at(900), "p99": at(990), "p99.9": at(999), "most": at(1000) })
}

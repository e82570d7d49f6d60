//! Totals over all runs, kept in a file.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::TARGETS;

/// Version of the file. Version 1 had no version and counted `finds`, which are counted anew after every run.
const VERSION: u64 = 2;

/// The totals of one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// Executions.
    pub(super) executions: u64,
    /// Seconds of all its processes together.
    pub(super) seconds: f64,
    /// Edges that the corpus covers.
    pub(super) edges: u64,
    /// Inputs in the corpus.
    pub(super) corpus: u64,
    /// Bytes in the corpus.
    pub(super) corpus_bytes: u64,
    /// Different findings.
    pub(super) findings: u64,
}

impl Totals {
    /// Executions per second of one process.
    pub(super) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.executions as f64 / self.seconds } else { 0.0 }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "executions": self.executions,
            "seconds": (self.seconds * 10.0).round() / 10.0,
            "executions_per_second": self.rate().round(),
            "edges": self.edges,
            "corpus": self.corpus,
            "corpus_bytes": self.corpus_bytes,
            "findings": self.findings,
        })
    }

    fn from_json(value: &Value) -> Self {
        let number = |key: &str| value[key].as_u64().unwrap_or(0);
        Self {
            executions: number("executions"),
            seconds: value["seconds"].as_f64().unwrap_or(0.0),
            edges: number("edges"),
            corpus: number("corpus"),
            corpus_bytes: number("corpus_bytes"),
            findings: number("findings"),
        }
    }
}

/// The totals of all targets, by name.
pub(super) type State = BTreeMap<String, Totals>;

/// Reads the totals; there are none if there is no file yet.
pub(super) fn load(path: &Path) -> Result<State, String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(State::new()),
        Err(error) => return Err(fault(&error)),
    };
    parse(&text).map_err(|error| fault(&error))
}

fn parse(text: &str) -> Result<State, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let version = value.get("version").map_or(Some(1), Value::as_u64);
    if version.is_none_or(|version| version > VERSION) {
        let found = &value["version"];
        return Err(format!(
            "version {found}, but this farm reads versions up to {VERSION}: choose another folder with --out"
        ));
    }
    let targets = value["targets"].as_object().into_iter().flatten();
    Ok(targets.map(|(name, totals)| (name.clone(), Totals::from_json(totals))).collect())
}

/// The totals as JSON, the targets in the order of the table.
pub(super) fn to_json(state: &State) -> Value {
    let known = TARGETS.iter().filter_map(|target| Some((target.name.to_owned(), state.get(target.name)?.to_json())));
    let targets: serde_json::Map<String, Value> = known.collect();
    let sum = |part: fn(&Totals) -> u64| state.values().map(part).sum::<u64>();
    json!({
        "version": VERSION,
        "executions": sum(|totals| totals.executions),
        "seconds": state.values().map(|totals| totals.seconds).sum::<f64>().round(),
        "findings": sum(|totals| totals.findings),
        "targets": targets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_their_file() {
        let totals = Totals { executions: 1 << 40, seconds: 12.5, edges: 3, corpus: 4, corpus_bytes: 5, findings: 6 };
        assert_eq!(Totals::from_json(&totals.to_json()), totals);
        let state = State::from([(TARGETS[0].name.to_owned(), totals)]);
        assert_eq!(parse(&to_json(&state).to_string()).unwrap(), state);
    }

    #[test]
    fn older_files_are_read_and_newer_ones_rejected() {
        let older = r#"{"targets": {"gguf": {"executions": 7, "finds": 2}}}"#;
        assert_eq!(parse(older).unwrap()["gguf"], Totals { executions: 7, ..Totals::default() });
        let error = parse(r#"{"version": 3, "targets": {}}"#).unwrap_err();
        assert!(error.contains("version 3") && error.contains("--out"), "{error}");
        assert!(parse(r#"{"version": "two"}"#).is_err());
    }
}

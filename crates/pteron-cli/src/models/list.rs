//! The table of pulled models.

use std::path::PathBuf;

use pteron_hub::PulledModel;
use serde::Serialize;

use crate::failure::Failure;
use crate::table::{Cell, Table};
use crate::terminal::{self, FAINT, NUMBER};
use crate::units;

#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    models: Vec<Entry>,
    /// Models of which some file has not arrived completely.
    partial: Vec<Partial>,
}

/// A pulled model as JSON.
#[derive(Serialize)]
pub(crate) struct Entry {
    name: String,
    revisions: Vec<String>,
    commit: String,
    endpoint: String,
    bytes: u64,
    path: PathBuf,
    files: Vec<String>,
}

#[derive(Serialize)]
struct Partial {
    name: String,
    bytes: u64,
}

impl From<PulledModel> for Entry {
    fn from(model: PulledModel) -> Self {
        let PulledModel { name, revisions, commit, endpoint, bytes, folder, files, .. } = model;
        Self { name, revisions, commit, endpoint, bytes, path: folder, files }
    }
}

pub(super) fn run(json: bool) -> Result<(), Failure> {
    let models = super::folder()?;
    let partial = models.list_partial()?.into_iter().map(|(name, bytes)| Partial { name, bytes }).collect();
    let report = Report {
        folder: models.folder().to_owned(),
        models: models.list()?.into_iter().map(Entry::from).collect(),
        partial,
    };
    if json {
        let json = serde_json::to_string(&report).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&format!("{json}\n"));
    }
    if report.models.is_empty() && report.partial.is_empty() {
        terminal::note(&format!("no models in {}; `pteron pull OWNER/NAME` fetches one", report.folder.display()));
        return Ok(());
    }
    terminal::print_styled(&table(&report))
}

fn table(report: &Report) -> String {
    let mut table = Table::default();
    let faint = |text: &str| Cell::new(text).style(FAINT);
    table.row([faint("model"), faint("revision"), faint("size").right(), faint("path")]);
    for model in &report.models {
        let commit: String = model.commit.chars().take(7).collect();
        let revision =
            if model.revisions.is_empty() { commit } else { format!("{} ({commit})", model.revisions.join(", ")) };
        table.row([
            Cell::new(model.name.clone()),
            Cell::new(revision),
            Cell::new(units::bytes(model.bytes)).style(NUMBER).right(),
            Cell::new(model.path.display().to_string()),
        ]);
    }
    for model in &report.partial {
        table.row([
            Cell::new(model.name.clone()),
            faint("incomplete"),
            Cell::new(units::bytes(model.bytes)).style(NUMBER).right(),
            faint("pull it again to continue"),
        ]);
    }
    let mut out = String::new();
    table.write(&mut out, 0, terminal::width());
    out
}

//! Coverage of the corpus per crate: replays every corpus in an instrumented build and reads the counters with LLVM's tools.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::wrapper::Instrument;
use crate::steps::stdout_of;
use crate::workspace::Workspace;

/// Covered and all lines and regions of a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Covered {
    lines: (u64, u64),
    regions: (u64, u64),
}

/// Adds the coverage of the corpus in `out` to the summary there.
pub(super) fn report(workspace: &Workspace, out: &Path) -> Result<()> {
    let Some(tools) = tools() else {
        println!("no coverage: LLVM's tools are missing; `rustup component add llvm-tools` installs them");
        return Ok(());
    };
    let target = workspace.root.join("fuzz/target/coverage");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--bin", "smoke"]);
    super::cargo(&workspace.root, &mut build, &target, Instrument::Regions)?;
    let smoke = target.join("release/smoke");
    let raw = out.join("coverage");
    let _ = std::fs::remove_dir_all(&raw);
    std::fs::create_dir_all(&raw).with_context(|| raw.display().to_string())?;
    let corpora = std::fs::read_dir(out.join("corpus")).context("there is no corpus")?;
    for corpus in corpora {
        let corpus = corpus?.path();
        let Some(name) = corpus.file_name().and_then(|name| name.to_str()) else { continue };
        let mut replay = Command::new(&smoke);
        replay.args(["--only", name, "--input"]).arg(&corpus);
        replay.env("LLVM_PROFILE_FILE", raw.join(format!("{name}.profraw")));
        // The farm reports findings; here only coverage counts.
        stdout_of(&mut replay);
    }
    let crates = summed(&export(&tools, &smoke, &raw)?, &workspace.root);
    let (text, json) = shown(&crates);
    println!("{text}");
    append(&out.join("summary.md"), &text)?;
    let path = out.join("coverage.json");
    std::fs::write(&path, format!("{json:#}\n")).with_context(|| path.display().to_string())
}

fn append(path: &Path, text: &str) -> Result<()> {
    let before = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, format!("{before}\n{text}")).with_context(|| path.display().to_string())
}

/// The folder of `llvm-profdata` and `llvm-cov`.
fn tools() -> Option<PathBuf> {
    let folder = PathBuf::from(stdout_of(Command::new("rustc").args(["--print", "target-libdir"]))?.trim());
    let folder = folder.parent()?.join("bin");
    stdout_of(Command::new(folder.join("llvm-cov")).arg("--version")).map(|_| folder)
}

/// LLVM's summary per file.
fn export(tools: &Path, program: &Path, raw: &Path) -> Result<Value> {
    let profile = raw.join("all.profdata");
    let files = std::fs::read_dir(raw)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let mut merge = Command::new(tools.join("llvm-profdata"));
    merge.args(["merge", "--sparse", "--output"]).arg(&profile);
    merge.args(files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "profraw")));
    if stdout_of(&mut merge).is_none() {
        bail!("llvm-profdata could not merge the counters in {}", raw.display());
    }
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "--summary-only", "--instr-profile"]).arg(&profile).arg(program);
    let text = stdout_of(&mut export).context("llvm-cov could not read the counters")?;
    serde_json::from_str(&text).context("llvm-cov's answer")
}

/// The files of each crate below `crates/` together; tests are not built here.
fn summed(export: &Value, root: &Path) -> BTreeMap<String, Covered> {
    let mut crates: BTreeMap<String, Covered> = BTreeMap::new();
    let files = export.pointer("/data/0/files").and_then(Value::as_array);
    for file in files.into_iter().flatten() {
        let Some(name) = crate_of(file["filename"].as_str().unwrap_or_default(), root) else { continue };
        let covered = crates.entry(name).or_default();
        for (kind, sum) in [("lines", &mut covered.lines), ("regions", &mut covered.regions)] {
            let part = |what: &str| file["summary"][kind][what].as_u64().unwrap_or(0);
            *sum = (sum.0 + part("covered"), sum.1 + part("count"));
        }
    }
    crates
}

/// The crate that a source file belongs to.
fn crate_of(file: &str, root: &Path) -> Option<String> {
    // Paths may lead out of `fuzz/` and back.
    let file = file.replace("/fuzz/../", "/");
    let below = Path::new(&file).strip_prefix(root.join("crates")).ok()?;
    let mut parts = below.iter();
    let name = parts.next()?.to_str()?.to_owned();
    (parts.next()? == "src").then_some(name)
}

fn shown(crates: &BTreeMap<String, Covered>) -> (String, Value) {
    let share = |(covered, all): (u64, u64)| covered * 1000 / all.max(1);
    let percent = |part| format!("{}.{} %", share(part) / 10, share(part) % 10);
    let mut text =
        String::from("## Coverage of the corpus\n\n| crate | lines | of | regions | of |\n|---|---:|---:|---:|---:|\n");
    let mut all = serde_json::Map::new();
    for (name, covered) in crates {
        let Covered { lines, regions } = *covered;
        let _ = writeln!(text, "| {name} | {} | {} | {} | {} |", percent(lines), lines.1, percent(regions), regions.1);
        let part = |(covered, all): (u64, u64)| json!({"covered": covered, "all": all});
        all.insert(name.clone(), json!({"lines": part(lines), "regions": part(regions)}));
    }
    (text, Value::Object(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_summed_per_crate() {
        let file = |name: &str, covered: u64| json!({"filename": name, "summary": {"lines": {"count": 10, "covered": covered}, "regions": {"count": 4, "covered": 1}}});
        let export = json!({"data": [{"files": [
            file("/r/crates/pteron/src/a.rs", 5), file("/r/fuzz/../crates/pteron/src/b/c.rs", 10),
            file("/r/crates/pteron-format/tests/common/check.rs", 1), file("/r/fuzz/src/lib.rs", 1), file("/other/x.rs", 1),
        ]}]});
        let crates = summed(&export, Path::new("/r"));
        assert_eq!(crates.keys().collect::<Vec<_>>(), ["pteron"]);
        assert_eq!(crates["pteron"], Covered { lines: (15, 20), regions: (2, 8) });
        assert!(shown(&crates).0.contains("| pteron | 75.0 % | 20 | 25.0 % | 8 |"));
    }
}

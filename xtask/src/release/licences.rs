//! The file with the licences of everything that is linked into a program, which their terms ask to be copied with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::dependencies::{Component, Linked};

/// The name of the file in archives and packages.
pub(crate) const FILE: &str = "THIRD-PARTY-LICENSES.txt";

/// The licences of Rust's standard library, which is linked into everything; a file of the toolchain.
pub(crate) const LIBRARY_FILE: &str = "RUST-LIBRARY-LICENSES.html";
const LIBRARY_SOURCE: &str = "share/doc/rust/COPYRIGHT-library.html";

/// Both files.
pub(crate) struct Notices {
    pub(crate) third_party: String,
    pub(crate) library: String,
}

impl Notices {
    /// Collects the texts; `apache` is that of the Apache licence, `sysroot` the toolchain's folder.
    pub(crate) fn collect(linked: &Linked, apache: &str, sysroot: &Path) -> Result<Self> {
        let library = sysroot.join(LIBRARY_SOURCE);
        let library = fs::read_to_string(&library).with_context(|| format!("{} could not be read", library.display()))?;
        Ok(Self { third_party: text(linked, apache)?, library })
    }

    /// Writes both files into a folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        for (name, text) in [(FILE, &self.third_party), (LIBRARY_FILE, &self.library)] {
            fs::write(folder.join(name), text).with_context(|| format!("{name} could not be written"))?;
        }
        Ok(())
    }
}

/// Crates whose package has no licence text, and that may be used under the Apache licence: its text is added, and names no holder.
static WITHOUT_TEXT: &[&str] = &["flatbuffers", "profiling", "spirv"];

/// Beginnings of the names of files that a licence asks to be copied.
const NAMES: [&str; 6] = ["license", "licence", "copying", "notice", "unlicense", "copyright"];

/// Returns the text of the file; `apache` is the text of the Apache licence.
fn text(linked: &Linked, apache: &str) -> Result<String> {
    // Many crates carry the same text.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for component in linked.third_party() {
        let found = match texts_of(component)? {
            found if !found.is_empty() => found,
            _ if may_use_apache(component) => vec![apache.trim().to_owned()],
            _ => {
                missing.push(format!("{} {} ({})", component.name, component.version, component.license));
                continue;
            }
        };
        for text in found {
            texts.entry(text).or_default().push(title(component));
        }
    }
    if !missing.is_empty() {
        bail!("these packages have no licence text: {}; xtask/src/release/licences.rs lists exceptions", missing.join(", "));
    }
    Ok(page(linked, &texts))
}

fn may_use_apache(component: &Component) -> bool {
    let alternatives = component.license.split(" OR ");
    WITHOUT_TEXT.contains(&component.name.as_str()) && alternatives.into_iter().any(|one| one == "Apache-2.0")
}

fn title(component: &Component) -> String {
    format!("{} {}, {}", component.name, component.version, component.license)
}

/// One list of all crates, then each text once with the crates it is of.
fn page(linked: &Linked, texts: &BTreeMap<String, Vec<String>>) -> String {
    let root = linked.root();
    let mut page = format!(
        "{} {} for {} contains code of others, under these licences. Those of Rust's standard library \
         are in {LIBRARY_FILE}.\n\n",
        root.name, root.version, linked.target
    );
    for component in linked.third_party() {
        page += &format!("  {}", title(component));
        if let Some(repository) = &component.repository {
            page += &format!(", {repository}");
        }
        page.push('\n');
    }
    // In the order of the first crate that has the text.
    let mut ordered: Vec<(&String, &Vec<String>)> = texts.iter().collect();
    ordered.sort_by_key(|(_, titles)| titles.first());
    for (text, titles) in ordered {
        page += &format!("\n{}\n", "=".repeat(100));
        for title in titles {
            page += &format!("{title}\n");
        }
        page += &format!("\n{text}\n");
    }
    page
}

/// The licence texts in a package.
fn texts_of(component: &Component) -> Result<Vec<String>> {
    let folder = &component.folder;
    let mut paths: Vec<_> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>())
        .with_context(|| format!("the package of {} could not be read at {}", component.name, folder.display()))?;
    paths.retain(|path| path.is_file() && is_licence(path));
    paths.sort();
    let read = |path: &Path| {
        let bytes = fs::read(path).with_context(|| format!("{} could not be read", path.display()))?;
        // With one kind of line end, equal texts are equal.
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned())
    };
    let texts = paths.iter().map(|path| read(path)).collect::<Result<Vec<String>>>()?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    NAMES.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::super::dependencies::tests::linked;
    use super::super::scratch::Scratch;
    use super::*;

    /// Packages with these files in a folder.
    fn packages(files: &[(&str, &str)]) -> (Scratch, Linked) {
        let scratch = Scratch::new("licences").unwrap();
        let mut linked = linked();
        for component in &mut linked.components {
            component.folder = scratch.path().join(&component.name);
            fs::create_dir_all(&component.folder).unwrap();
        }
        for (path, text) in files {
            fs::write(scratch.path().join(path), text).unwrap();
        }
        (scratch, linked)
    }

    #[test]
    fn equal_texts_are_printed_once_with_all_their_crates() {
        let (_scratch, linked) = packages(&[
            ("a/LICENSE-MIT", "The one text\r\nof two lines\n"),
            ("b/COPYING", "The one text\nof two lines"),
            ("b/NOTICE.md", "Notice of b"),
            ("b/README.md", "No licence"),
            ("app/LICENSE", "Our own"),
        ]);
        let text = text(&linked, "Apache").unwrap();
        assert_eq!(text.matches("The one text\nof two lines").count(), 1, "{text}");
        assert!(text.contains("\nb 2.0.0, Zlib\na 1.0.0+x, MIT OR Apache-2.0\n\nThe one text"), "{text}");
        assert!(text.contains("Notice of b") && text.contains("https://a.example/a"), "{text}");
        assert!(!text.contains("No licence") && !text.contains("Our own"), "{text}");
    }

    /// Found here, and not at the end of a release.
    #[test]
    fn everything_linked_into_the_command_has_a_licence_text_and_is_in_its_bill() {
        let workspace = crate::workspace::Workspace::load().unwrap();
        let linked = Linked::load(&workspace, "pteron-cli", "x86_64-unknown-linux-gnu").unwrap();
        let text = text(&linked, "The Apache text").unwrap();
        for name in ["wgpu-core", "rustls", "flatbuffers", "clap_mangen"] {
            assert!(text.contains(&format!("\n{name} ")), "{name}");
        }
        assert!(!text.contains("\nproptest ") && !text.contains("\nserde_derive "), "neither tests nor macros are linked");
        let bill = super::super::sbom::text(&linked, "2026-11-19T18:00:00Z").unwrap();
        assert_eq!(bill.matches("\"bom-ref\"").count(), linked.components.len());
    }

    #[test]
    fn a_package_without_a_text_is_named() {
        let (_scratch, linked) = packages(&[("a/LICENSE", "A")]);
        let error = text(&linked, "Apache").unwrap_err().to_string();
        assert!(error.starts_with("these packages have no licence text: b 2.0.0 (Zlib);"), "{error}");
    }

    #[test]
    fn an_exception_needs_the_apache_licence() {
        let (_scratch, mut linked) = packages(&[("a/LICENSE", "A")]);
        linked.components[1].name = WITHOUT_TEXT[0].to_owned();
        assert!(text(&linked, "The Apache text").is_err(), "Zlib alone");
        linked.components[1].license = "Zlib OR Apache-2.0".to_owned();
        assert!(text(&linked, "The Apache text\n").unwrap().contains("Apache-2.0\n\nThe Apache text\n"));
    }
}

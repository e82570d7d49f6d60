//! Gathers the pages of the site in one folder for mdBook: those of `docs/site/src`, generated ones, and pages that have their
//! place elsewhere in the repository, whose links are changed to fit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::links::normal;
use super::markdown::{anchor, map_links, sections};

/// The site's own folder, and its pages, from the repository's root.
pub(super) const FOLDER: &str = "docs/site";
pub(super) const PAGES: &str = "docs/site/src";
/// Documentation of the crates, on the site.
pub(super) const RUSTDOC: &str = "rustdoc";

/// Pages that have their place elsewhere: there, and on the site. A fact is written in one place.
pub(super) const BORROWED: &[(&str, &str)] = &[
    ("CHANGELOG.md", "about/changelog.md"),
    ("CONTRIBUTING.md", "about/contributing.md"),
    ("SECURITY.md", "about/security.md"),
    ("crates/pteron-cli/README.md", "reference/command-line.md"),
    ("crates/pteron-python/README.md", "reference/python-package.md"),
    ("crates/pteron-server/README.md", "reference/server.md"),
    ("docs/benchmarks/2026-11-15-attention.md", "benchmarks/attention.md"),
    ("docs/benchmarks/2026-11-15-bandwidth.md", "benchmarks/bandwidth.md"),
    ("docs/benchmarks/2026-11-15-browser.md", "benchmarks/browser.md"),
    ("docs/benchmarks/2026-11-15-open.md", "benchmarks/open.md"),
    ("docs/benchmarks/2026-11-15-speed.md", "benchmarks/peers.md"),
    ("docs/benchmarks/2026-11-19-gpu.md", "benchmarks/gpu.md"),
    ("docs/benchmarks/2026-11-19-server.md", "benchmarks/server.md"),
    ("docs/benchmarks/speed.md", "benchmarks/speed.md"),
    ("deploy/kubernetes/README.md", "guides/kubernetes.md"),
    ("deploy/ray/README.md", "guides/ray.md"),
    ("docs/operators.md", "reference/operators.md"),
    ("docs/rejected.md", "design/rejected.md"),
    ("docs/releasing.md", "about/releasing.md"),
    ("docs/stability.md", "about/stability.md"),
    ("examples/README.md", "start/gallery.md"),
    ("web/pteron/README.md", "reference/javascript.md"),
];

/// The page whose sections are pages of the site, and their folder there.
const DIVIDED: &str = "ARCHITECTURE.md";
const DIVIDED_TO: &str = "design";

/// A page: where it is in the repository (or would be), where on the site, and its Markdown.
struct Page {
    from: String,
    to: String,
    text: String,
}

/// Where pages are, to find them by their path in the repository.
struct Map<'a> {
    root: &'a Path,
    repository: String,
    /// Site path by repository path.
    pages: BTreeMap<String, String>,
    /// Site path by anchor in [`DIVIDED`].
    divided: BTreeMap<String, String>,
    /// Pictures to be copied: site path by repository path.
    pictures: BTreeMap<String, String>,
}

/// Writes the sources of the site into an empty folder. `generated` are site paths and texts, Markdown or not.
pub(super) fn stage(root: &Path, into: &Path, generated: Vec<(String, String)>) -> Result<()> {
    let mut pages = own_pages(root)?;
    pages.extend(generated.into_iter().map(|(to, text)| Page { from: format!("{PAGES}/{to}"), to, text }));
    for (from, to) in BORROWED {
        pages.push(Page { from: (*from).to_owned(), to: (*to).to_owned(), text: read(&root.join(from))? });
    }
    let mut map = Map {
        root,
        repository: repository(root)?,
        pages: pages.iter().map(|page| (page.from.clone(), page.to.clone())).collect(),
        divided: BTreeMap::new(),
        pictures: BTreeMap::new(),
    };
    for (heading, text) in sections(&read(&root.join(DIVIDED))?) {
        let name = if heading.is_empty() { "index".to_owned() } else { anchor(heading) };
        let to = format!("{DIVIDED_TO}/{name}.md");
        map.divided.insert(anchor(heading), to.clone());
        // Its heading becomes the page's.
        let text = text.strip_prefix("##").map_or_else(|| text.to_owned(), |rest| format!("#{rest}"));
        pages.push(Page { from: DIVIDED.to_owned(), to, text });
    }
    check_summary(&pages)?;
    let (markdown, others): (Vec<&Page>, Vec<&Page>) = pages.iter().partition(|page| page.to.ends_with(".md"));
    for page in others {
        write(&into.join("src").join(&page.to), page.text.as_bytes())?;
    }
    for page in markdown {
        let text = map_links(&page.text, |line, target| {
            map.link(page, target).with_context(|| format!("{}:{line}: the link {target}", page.from))
        })?;
        write(&into.join("src").join(&page.to), text.as_bytes())?;
    }
    for (from, to) in &map.pictures {
        let bytes = fs::read(root.join(from)).with_context(|| format!("{from} could not be read"))?;
        write(&into.join("src").join(to), &bytes)?;
    }
    let book = read(&root.join(FOLDER).join("book.toml"))?.replace("{repository}", &map.repository);
    write(&into.join("book.toml"), book.as_bytes())
}

/// Markdown of the site's own pages.
fn own_pages(root: &Path) -> Result<Vec<Page>> {
    let folder = root.join(PAGES);
    let page = |path: PathBuf| -> Result<Page> {
        let to = path.strip_prefix(&folder)?.to_string_lossy().replace('\\', "/");
        Ok(Page { from: format!("{PAGES}/{to}"), to, text: read(&path)? })
    };
    markdown_files(&folder)?.into_iter().map(page).collect()
}

/// The Markdown files below a folder, in order.
pub(super) fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} could not be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(markdown_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Every page is in the table of contents: mdBook leaves out the others.
fn check_summary(pages: &[Page]) -> Result<()> {
    let summary = pages.iter().find(|page| page.to == "SUMMARY.md").context("SUMMARY.md is missing")?;
    let listed = |page: &&Page| summary.text.contains(&format!("({})", page.to));
    let is_page = |page: &&Page| page.to.ends_with(".md") && page.to != "SUMMARY.md";
    let missing: Vec<&str> =
        pages.iter().filter(|page| is_page(page) && !listed(page)).map(|page| page.to.as_str()).collect();
    if missing.is_empty() { Ok(()) } else { bail!("{PAGES}/SUMMARY.md does not list {}", missing.join(", ")) }
}

impl Map<'_> {
    /// The target of a link of a page, as the site has it.
    fn link(&mut self, page: &Page, target: &str) -> Result<String> {
        let scheme = target.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()));
        if scheme {
            return Ok(target.to_owned());
        }
        let (path, fragment) = target.split_once('#').map_or((target, ""), |(path, fragment)| (path, fragment));
        let suffix = if fragment.is_empty() { String::new() } else { format!("#{fragment}") };
        let path = if path.is_empty() { page.from.clone() } else { resolve(&page.from, path)? };
        if path == DIVIDED {
            let to = self.divided.get(fragment).with_context(|| format!("{DIVIDED} has no section #{fragment}"))?;
            return Ok(relative(&page.to, to));
        }
        let readme = format!("{path}/README.md");
        if let Some(to) = self.pages.get(&path).or_else(|| self.pages.get(&readme)) {
            return Ok(relative(&page.to, to) + &suffix);
        }
        // The site's own pages may name any page by its place on the site.
        let on_site =
            |to: &&str| to.starts_with(RUSTDOC) || self.pages.values().chain(self.divided.values()).any(|page| page == to);
        if let Some(to) = path.strip_prefix(&format!("{PAGES}/")).filter(on_site) {
            return Ok(relative(&page.to, to) + &suffix);
        }
        let full = self.root.join(&path);
        let is_picture = full.extension().is_some_and(|extension| extension == "svg" || extension == "png");
        if full.is_file() && is_picture {
            let to = format!("pictures/{}", path.replace('/', "-"));
            let link = relative(&page.to, &to);
            self.pictures.insert(path, to);
            return Ok(link);
        }
        let kind = match full.metadata() {
            Ok(found) if found.is_dir() => "tree",
            Ok(_) => "blob",
            Err(_) => bail!("leads to {path}, which is neither a page nor a file"),
        };
        Ok(format!("{}/{kind}/main/{path}{suffix}", self.repository))
    }
}

/// The path in the repository that a link of a file leads to.
fn resolve(from: &str, path: &str) -> Result<String> {
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let path = normal(&folder.join(path)).with_context(|| format!("{path} leads out of the repository"))?;
    Ok(path.to_string_lossy().replace('\\', "/"))
}

/// The link from one page of the site to another.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let folders = &from[..from.len() - 1];
    let shared = folders.iter().zip(&to[..to.len() - 1]).take_while(|(a, b)| a == b).count();
    let up = folders.len() - shared;
    "../".repeat(up) + &to[shared..].join("/")
}

/// The address that the workspace's manifest states.
fn repository(root: &Path) -> Result<String> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let line =
        manifest.lines().find_map(|line| line.strip_prefix("repository = \"")).context("Cargo.toml has no repository")?;
    Ok(line.trim_end().trim_end_matches('"').to_owned())
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("{} could not be read", path.display()))?;
    Ok(text.replace("\r\n", "\n"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    fs::write(path, bytes).with_context(|| format!("{} could not be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(root: &Path) -> Map<'_> {
        let pages = [
            ("docs/site/src/a/b.md", "a/b.md"),
            ("docs/operators.md", "reference/operators.md"),
            ("web/x/README.md", "x.md"),
        ];
        Map {
            root,
            repository: "https://r.example".to_owned(),
            pages: pages.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect(),
            divided: [("".to_owned(), "design/index.md".to_owned()), ("serving".to_owned(), "design/serving.md".to_owned())]
                .into(),
            pictures: BTreeMap::new(),
        }
    }

    #[test]
    fn links_lead_to_the_page_on_the_site_or_to_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut map = map(root);
        let own = Page { from: "docs/site/src/a/b.md".to_owned(), to: "a/b.md".to_owned(), text: String::new() };
        let mut link = |target: &str| map.link(&own, target).map_err(|error| error.to_string());
        assert_eq!(link("../../../operators.md#x").unwrap(), "../reference/operators.md#x");
        assert_eq!(link("../../../../web/x").unwrap(), "../x.md");
        assert_eq!(link("../../../../ARCHITECTURE.md#serving").unwrap(), "../design/serving.md");
        assert_eq!(link("../../../../xtask/Cargo.toml").unwrap(), "https://r.example/blob/main/xtask/Cargo.toml");
        assert_eq!(link("../../../../xtask").unwrap(), "https://r.example/tree/main/xtask");
        assert_eq!(link("../../../architecture.svg").unwrap(), "../pictures/docs-architecture.svg");
        assert_eq!(link("../rustdoc/pteron/index.html").unwrap(), "../rustdoc/pteron/index.html");
        assert_eq!(link("../design/serving.md").unwrap(), "../design/serving.md");
        assert_eq!(link("https://a.example/b.md").unwrap(), "https://a.example/b.md");
        assert_eq!(link("#here").unwrap(), "b.md#here");
        assert_eq!(link("gone.md").unwrap_err(), "leads to docs/site/src/a/gone.md, which is neither a page nor a file");
        assert_eq!(link("../../../../ARCHITECTURE.md#gone").unwrap_err(), "ARCHITECTURE.md has no section #gone");
        assert_eq!(map.pictures.len(), 1);
    }

    #[test]
    fn a_page_outside_the_table_of_contents_is_an_error() {
        let page = |to: &str, text: &str| Page { from: String::new(), to: to.to_owned(), text: text.to_owned() };
        let error = check_summary(&[page("SUMMARY.md", "[A](a.md)"), page("a.md", ""), page("b.md", "")]).unwrap_err();
        assert_eq!(error.to_string(), "docs/site/src/SUMMARY.md does not list b.md");
    }

    #[test]
    fn links_between_pages_are_relative() {
        assert_eq!(relative("index.md", "a/b.md"), "a/b.md");
        assert_eq!(relative("a/b.md", "a/c.md"), "c.md");
        assert_eq!(relative("a/b/c.md", "a/d.md"), "../d.md");
    }
}

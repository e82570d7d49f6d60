//! Checks every link of the built site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// What a built page contains.
#[derive(Default)]
struct Html {
    anchors: BTreeSet<String>,
    links: BTreeSet<String>,
}

/// Number of links that were checked, and those that lead nowhere.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) internal: usize,
    pub(super) external: usize,
    pub(super) broken: Vec<String>,
}

/// Checks the pages below a folder. Those in `unchecked` may be linked to; their own links are checked by who made them.
pub(super) fn check(site: &Path, unchecked: &str) -> Result<Checked> {
    let mut pages = BTreeMap::new();
    read_folder(site, Path::new(""), unchecked, &mut pages)?;
    let mut checked = Checked::default();
    for (page, html) in &pages {
        for link in &html.links {
            let result = if is_external(link) {
                checked.external += 1;
                external(link)
            } else {
                checked.internal += 1;
                internal(site, page, link, &pages)
            };
            if let Err(problem) = result {
                checked.broken.push(format!("{}: {link}: {problem}", page.display()));
            }
        }
    }
    Ok(checked)
}

fn read_folder(site: &Path, folder: &Path, unchecked: &str, pages: &mut BTreeMap<PathBuf, Html>) -> Result<()> {
    let full = site.join(folder);
    for entry in fs::read_dir(&full).with_context(|| format!("{} could not be read", full.display()))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if path != Path::new(unchecked) {
                read_folder(site, &path, unchecked, pages)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("{} is not text", path.display()))?;
            pages.insert(path, parse(&text));
        }
    }
    Ok(())
}

/// Finds attributes. mdBook's output is regular: every attribute has its value in double quotes, and text has none.
fn parse(text: &str) -> Html {
    let mut html = Html::default();
    // Scripts contain HTML of their own, which they put together.
    let text = without(text, "<script", "</script>");
    for tag in text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        for name in ["id", "name"] {
            html.anchors.extend(attribute(tag, name));
        }
        for name in ["href", "src"] {
            html.links.extend(attribute(tag, name));
        }
    }
    html
}

fn without(text: &str, start: &str, end: &str) -> String {
    let mut parts = text.split(start);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The tag itself names a file.
        let (tag, body) = part.split_once('>').unwrap_or((part, ""));
        out += &format!("{start}{tag}>");
        out += body.split_once(end).map_or("", |(_, rest)| rest);
    }
    out
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
    Some(value.replace("&amp;", "&").replace("&quot;", "\"").replace("&#x27;", "'"))
}

fn is_external(link: &str) -> bool {
    link.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// A link to elsewhere is checked for its form: nothing is fetched.
fn external(link: &str) -> Result<(), String> {
    let Some(rest) = link.strip_prefix("https://") else {
        return Err("a link to another site begins with https://".to_owned());
    };
    let host = rest.split(['/', '#', '?']).next().unwrap_or_default();
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
    };
    if labels.len() < 2 || !labels.iter().all(is_label) {
        return Err(format!("{host:?} is not the name of a host"));
    }
    let printable = rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"{}|\\^`".contains(&byte));
    if printable { Ok(()) } else { Err("it has characters that an address does not have".to_owned()) }
}

fn internal(site: &Path, page: &Path, link: &str, pages: &BTreeMap<PathBuf, Html>) -> Result<(), String> {
    let (path, fragment) = link.split_once('#').map_or((link, None), |(path, fragment)| (path, Some(fragment)));
    let path = path.split('?').next().unwrap_or_default();
    let target = if path.is_empty() {
        page.to_owned()
    } else {
        let folder = page.parent().unwrap_or(Path::new(""));
        normal(&folder.join(path)).ok_or("it leads out of the site")?
    };
    let mut full = site.join(&target);
    if full.is_dir() {
        full = full.join("index.html");
    }
    if !full.is_file() {
        return Err("there is no such page".to_owned());
    }
    // The first element of a page is its top.
    let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) else { return Ok(()) };
    match pages.get(&target) {
        Some(html) if !html.anchors.contains(fragment) => Err("the page has no such heading".to_owned()),
        _ => Ok(()),
    }
}

/// A relative path without `.` and `..`.
pub(super) fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let site = std::env::temp_dir().join(format!("pteron-site-links-{}", std::process::id()));
        fs::create_dir_all(site.join("sub/api")).unwrap();
        let index = "<a href=\"sub/b.html#there\">b</a><a href=\"sub/b.html#not\">b</a><img src=\"gone.png\" alt=\"\">\
                     <a href=\"#top\" id=\"top\"></a><a href=\"../up.html\"></a><a href=\"https://a.example/b?c&amp;d\"></a>\
                     <a href=\"http://a.example\"></a><a href=\"https://a b\"></a><a href=\"sub/api\"></a>\
                     <script>x = '<a href=\"no.html\">'</script><a href=\"last.html\"></a>";
        fs::write(site.join("index.html"), index).unwrap();
        fs::write(site.join("sub/b.html"), "<h2 id=\"there\"></h2><a href=\"../index.html\"></a>").unwrap();
        fs::write(site.join("sub/api/index.html"), "<a href=\"wrong.html\"></a>").unwrap();
        let checked = check(&site, "sub/api").unwrap();
        fs::remove_dir_all(&site).unwrap();
        assert_eq!((checked.internal, checked.external), (8, 3));
        assert_eq!(
            checked.broken,
            [
                "index.html: ../up.html: it leads out of the site",
                "index.html: gone.png: there is no such page",
                "index.html: http://a.example: a link to another site begins with https://",
                "index.html: https://a b: \"a b\" is not the name of a host",
                "index.html: last.html: there is no such page",
                "index.html: sub/b.html#not: the page has no such heading",
            ]
        );
    }
}

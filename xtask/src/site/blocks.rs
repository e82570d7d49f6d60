//! Code blocks of a Markdown file, with what the comments before them say about running them.
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- files: NAME=PATH … -->` | once per page: the folder in which its blocks run has these files of the repository |
//! | `<!-- page not run: REASON -->` | blocks without a comment of their own are not run |
//! | `<!-- not run: REASON -->` | the next block is not run, for a reason that is counted |
//! | `<!-- output -->` | the next block is what the one before it prints |
//! | `<!-- from: PATH -->` | the next block is a quotation of a file |
//! | `<!-- serves: URL -->` | the next block's command runs until the end of the page; the URL answers when it is ready |

use anyhow::{Context, Result, bail};

/// A page with its blocks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    /// Its path in the repository.
    pub(super) path: String,
    /// Name in the folder of its blocks, and path in the repository.
    pub(super) files: Vec<(String, String)>,
    /// Why blocks without a comment are not run.
    pub(super) not_run: Option<String>,
    pub(super) blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    /// The line of its fence.
    pub(super) line: usize,
    /// The first word after the fence.
    pub(super) language: String,
    /// The words after it, as rustdoc has them: `no_run`.
    pub(super) attributes: Vec<String>,
    pub(super) text: String,
    pub(super) marker: Marker,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Marker {
    /// The block is run as its language says.
    #[default]
    None,
    NotRun(String),
    Output,
    From(String),
    Serves(String),
}

/// Reads the blocks of a page.
pub(super) fn read(path: &str, text: &str) -> Result<Page> {
    let mut page = Page { path: path.to_owned(), ..Page::default() };
    let mut marker = Marker::None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line_number = index + 1;
        if let Some(comment) = comment(line) {
            match read_comment(comment, &mut page).with_context(|| format!("{path}:{line_number}"))? {
                Some(_) if marker != Marker::None => bail!("{path}:{line_number}: a block has one comment of this kind"),
                Some(found) => marker = found,
                None => {}
            }
        } else if let Some(fence) = Fence::opening(line) {
            let mut content = String::new();
            loop {
                let Some((_, line)) = lines.next() else { bail!("{path}:{line_number}: this block has no end") };
                if fence.closes(line) {
                    break;
                }
                content += line.strip_prefix(fence.indent).unwrap_or_else(|| line.trim_start());
                content.push('\n');
            }
            let mut words = fence.info.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned);
            let language = words.next().unwrap_or_default();
            let marker = std::mem::take(&mut marker);
            page.blocks.push(Block { line: line_number, language, attributes: words.collect(), text: content, marker });
        } else if !line.trim().is_empty() && marker != Marker::None {
            bail!("{path}:{line_number}: the comment before this line belongs to a block, which should follow it");
        }
    }
    Ok(page)
}

/// The beginning of a block.
pub(super) struct Fence<'a> {
    indent: &'a str,
    ticks: usize,
    pub(super) info: &'a str,
}

impl<'a> Fence<'a> {
    pub(super) fn opening(line: &'a str) -> Option<Self> {
        let body = line.trim_start();
        let ticks = body.bytes().take_while(|byte| *byte == b'`').count();
        let info = body[ticks..].trim();
        let indent = &line[..line.len() - body.len()];
        (ticks >= 3 && !info.contains('`')).then_some(Self { indent, ticks, info })
    }

    pub(super) fn closes(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.ticks && line.bytes().all(|byte| byte == b'`')
    }
}

/// The text of a line that is a comment.
pub(super) fn comment(line: &str) -> Option<&str> {
    line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")
}

/// Reads a comment: one about a block is returned, one about the page is applied.
fn read_comment(comment: &str, page: &mut Page) -> Result<Option<Marker>> {
    if comment == "output" {
        return Ok(Some(Marker::Output));
    }
    let Some((name, value)) = comment.split_once(": ") else { return Ok(None) };
    let value = value.trim();
    Ok(Some(match name {
        "not run" => Marker::NotRun(value.to_owned()),
        "from" => Marker::From(value.to_owned()),
        "serves" => Marker::Serves(value.to_owned()),
        "page not run" => {
            page.not_run = Some(value.to_owned());
            return Ok(None);
        }
        "files" => {
            for pair in value.split_whitespace() {
                let (name, path) = pair.split_once('=').with_context(|| format!("{pair:?} is not NAME=PATH"))?;
                page.files.push((name.to_owned(), path.to_owned()));
            }
            return Ok(None);
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title

<!-- files: llama=models/demo x.pte=fixtures/x.pte -->

```console
$ pteron --version
```

<!-- output -->

```text
pteron
```

1. A list:

   ```rust,no_run
   fn main() {
       let x = 1;
   }
   ```

<!-- not run: needs the network -->
````
```
````
";

    #[test]
    fn blocks_have_their_comments_and_lines() {
        let page = read("a.md", PAGE).unwrap();
        assert_eq!(page.files[1], ("x.pte".to_owned(), "fixtures/x.pte".to_owned()));
        let found: Vec<_> =
            page.blocks.iter().map(|block| (block.line, block.language.as_str(), block.text.as_str())).collect();
        let rust = "fn main() {\n    let x = 1;\n}\n";
        assert_eq!(
            found,
            [(5, "console", "$ pteron --version\n"), (11, "text", "pteron\n"), (17, "rust", rust), (24, "", "```\n")]
        );
        assert_eq!(page.blocks[0].marker, Marker::None);
        assert_eq!(page.blocks[1].marker, Marker::Output);
        assert_eq!(page.blocks[2].attributes, ["no_run"]);
        assert_eq!(page.blocks[3].marker, Marker::NotRun("needs the network".to_owned()));
    }

    #[test]
    fn a_page_may_say_why_its_blocks_are_not_run() {
        let page = read("a.md", "<!-- page not run: excerpts -->\n").unwrap();
        assert_eq!(page.not_run.as_deref(), Some("excerpts"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let error = |text: &str| format!("{:#}", read("a.md", text).unwrap_err());
        assert_eq!(error("text\n```sh\n"), "a.md:2: this block has no end");
        assert!(error("<!-- output -->\nText\n").starts_with("a.md:2: the comment before this line belongs to a block"));
        assert!(error("<!-- output -->\n<!-- from: x -->\n").starts_with("a.md:2: a block has one comment"));
        assert_eq!(error("<!-- files: x -->\n"), "a.md:1: \"x\" is not NAME=PATH");
    }

    #[test]
    fn other_comments_are_left_alone() {
        let page = read("a.md", "<!-- A note. -->\n<!-- note: one -->\n\nText\n").unwrap();
        assert_eq!(page, Page { path: "a.md".to_owned(), ..Page::default() });
    }
}

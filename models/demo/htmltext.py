"""Readable Markdown from the pages of mdBook and rustdoc, with nothing but the standard library.

A page becomes a list of blocks (headings, paragraphs, list items, fenced code). What a reader skips is left out:
navigation, buttons, stability badges, links to source listings, hidden lines of examples.
"""

import re
from dataclasses import dataclass
from html.parser import HTMLParser

VOID = {"br", "img", "input", "hr", "wbr", "link", "meta", "source", "col", "area", "embed"}
SKIPPED_TAGS = {"nav", "script", "style", "button", "svg", "rustdoc-toolbar", "rustdoc-topbar", "noscript", "iframe"}
SKIPPED_CLASSES = {
    # rustdoc
    *["rightside", "src", "anchor", "doc-anchor", "test-arrow", "tooltip", "since", "stab", "item-info", "hideme"],
    *["out-of-band", "sub-heading", "sidebar", "rustdoc-breadcrumbs", "rust-logo", "logo-container"],
    # mdBook
    *["rule", "rule-link", "buttons", "footnote-reference", "railroad-production", "nav-wrapper", "test-link"],
    *["grammar-railroad", "hidden", "grammar-hidden", "ferris", "type-contents-toggle"],
}
BLOCKS = {
    "p",
    "div",
    "section",
    "figure",
    "figcaption",
    "blockquote",
    "main",
    "details",
    "summary",
    "article",
    "header",
}
QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "\u200b": "", "…": "...", "§": "", "⚠": ""})
HIDDEN = "\0"  # stands around the hidden lines of an example until its end is seen


@dataclass
class Block:
    kind: str  # "h", "sig" (a heading that is code), "p", "li", "code", "row"
    text: str
    level: int = 0

    def markdown(self) -> str:
        if self.kind == "h":
            return "#" * self.level + " " + self.text
        if self.kind == "sig":
            return "#" * self.level + " `" + self.text + "`"
        return self.text


class Page(HTMLParser):
    skipped_classes = SKIPPED_CLASSES

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._open: list[tuple[str, bool]] = []  # tag, whether it started a skipped part
        self._skipping = 0
        self._text: list[str] = []
        self._pre: str | None = None  # the fence's language while inside one
        self._pre_depth = 0
        self._hidden = 0  # how deep the hidden lines of an example began
        self._lists: list[int | None] = []  # None for bullets, else the next number
        self._marker = ""
        self._heading = ""
        self._code = 0
        self._cells: list[str] | None = None

    # Tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = set((dict(attrs).get("class") or "").split())
        if tag in VOID:
            if tag == "br" and not self._skipping:
                self._text.append("\n" if self._pre is not None else " ")
            return
        skip = tag in SKIPPED_TAGS or bool(classes & self.skipped_classes)
        self._open.append((tag, skip))
        self._skipping += skip
        if self._skipping:
            return
        if "where" in classes and tag == "div":
            # rustdoc breaks the line with a style sheet.
            self._text.append("\n")
        if self._pre is not None:
            self._start_in_pre(classes)
            return
        if tag == "pre" or "grammar-container" in classes:
            self._flush()
            self._pre = "grammar" if tag != "pre" else _language(classes)
            self._pre_depth = len(self._open)
        elif tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self._flush()
            self._heading = "sig" if "code-header" in classes else "h"
        elif tag in ("ul", "ol"):
            self._flush()
            self._lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            self._flush()
            number = self._lists[-1] if self._lists else None
            self._marker = "- " if number is None else f"{number}. "
            if number is not None:
                self._lists[-1] = number + 1
        elif tag == "dt":
            self._flush()
            self._marker = "- "
        elif tag == "dd":
            # rustdoc's tables of items read best on one line: "- `name`: what it does".
            self._text.append(": " if "".join(self._text).strip() else "")
        elif tag == "tr":
            self._flush()
            self._cells = []
        elif tag in BLOCKS:
            self._flush()
        self._mark(tag)

    def _start_in_pre(self, classes: set[str]) -> None:
        if "boring" in classes and not self._hidden:
            self._hidden = len(self._open)
        for name in classes:
            if name.startswith("language-") and self._pre == "":
                self._pre = _language({name})

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or not any(name == tag for name, _ in self._open):
            return
        while self._open:
            name, skipped = self._open.pop()
            was_skipping = self._skipping > 0
            self._skipping -= skipped
            if not was_skipping:
                self._end(name)
            if name == tag:
                return

    def _end(self, tag: str) -> None:
        if self._pre is not None:
            if len(self._open) < self._hidden:
                self._hidden = 0
            if len(self._open) < self._pre_depth:
                self._end_pre()
            elif self._pre == "grammar" and tag == "p":
                self._text.append("\n\n")
            return
        self._mark(tag)
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            text = _spaces("".join(self._text))
            self._text = []
            if self._heading == "sig":
                text = text.replace("`", "").replace("( ", "(").replace(", )", ")")
            if text:
                self.blocks.append(Block(self._heading, text, int(tag[1])))
            self._heading = ""
        elif tag in ("ul", "ol"):
            self._flush()
            if self._lists:
                self._lists.pop()
        elif tag in ("td", "th") and self._cells is not None:
            self._cells.append(_spaces("".join(self._text)))
            self._text = []
        elif tag == "tr" and self._cells is not None:
            if any(self._cells):
                self.blocks.append(Block("row", "| " + " | ".join(self._cells) + " |"))
            self._cells = None
        elif tag in BLOCKS or tag in ("li", "dd"):
            self._flush()

    def _mark(self, tag: str) -> None:
        """Markdown for what stands inside a line."""
        if self._heading == "sig":
            return
        if tag == "code":
            self._text.append("`")
        elif tag in ("em", "i"):
            self._text.append("*")
        elif tag in ("strong", "b"):
            self._text.append("**")

    # Text

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(HIDDEN + data + HIDDEN if self._hidden else data)

    def _end_pre(self) -> None:
        parts = "".join(self._text).translate(QUOTES).split(HIDDEN)
        seen = "".join(parts[::2])
        # Hidden lines are noise, except where the shown ones alone leave a brace open.
        whole = seen if _balanced(seen) else "".join(parts)
        lines = [line.rstrip() for line in whole.split("\n")]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n").replace(",{ /*", ",\n{ /*")
        language, self._pre, self._text = self._pre, None, []
        if text.strip():
            self.blocks.append(Block("code", f"```{language}\n{text}\n```"))

    def _flush(self) -> None:
        if self._pre is not None or self._cells is not None:
            return
        text = _spaces("".join(self._text)).removesuffix(" :").removesuffix(":" if self._marker else "")
        self._text = []
        if not text.strip("*` :"):
            return
        marker, self._marker = self._marker, ""
        indent = "  " * max(0, len(self._lists) - 1)
        if marker:
            self.blocks.append(Block("li", indent + marker + text))
        else:
            self.blocks.append(Block("p", ("  " + indent if self._lists else "") + text))


def _balanced(code: str) -> bool:
    return all(code.count(a) == code.count(b) for a, b in ("{}", "()", "[]"))


def _language(classes: set[str]) -> str:
    if "rust" in classes:
        return "rust"
    named = [name.removeprefix("language-") for name in classes if name.startswith("language-")]
    return (
        {"ignore": "rust", "rs": "rust", "bash": "console", "sh": "console", "shell": "console", "plain": "text"}.get(
            named[0], named[0]
        )
        if named
        else ""
    )


def _spaces(text: str) -> str:
    return re.sub(r"\s+", " ", text.translate(QUOTES)).strip()


def blocks_of(html: str) -> list[Block]:
    page = Page()
    page.feed(html)
    page.close()
    page._flush()
    return page.blocks


def join(blocks: list[Block]) -> str:
    out: list[str] = []
    before = ""
    for block in blocks:
        tight = block.kind == before and block.kind in ("li", "row")
        out.append(("" if not out else "\n" if tight else "\n\n") + block.markdown())
        before = block.kind
    return "".join(out)

"""Documentation comments and code of published crates, in the same Markdown as the documentation's pages.

The crates are those of `crates.txt` and `more-crates.txt`, pinned by version and SHA-256: from Cargo's cache where they
are there, else downloaded.
"""

import hashlib
import io
import os
import re
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from htmltext import Block

LIST = Path(__file__).with_name("crates.txt")
MORE = Path(__file__).with_name("more-crates.txt")
DOC = re.compile(r"^\s*//(?P<kind>[/!])(?!/)(?: (?P<text>.*)|(?P<bare>\S.*)?)$")
ITEM = re.compile(
    r"^\s*(?:pub\b|(?:async |unsafe |const |extern )*fn |struct |enum |trait |type |impl\b|macro_rules!|mod |static )"
)
FENCE = re.compile(r"^\s*(?:```+|~~~+)\s*(.*)$")
OTHER_MARKDOWN = re.compile(r"change|history|release|news|licen[cs]e|conduct|security|notice|todo|/tests?/|^tests?/|/snap", re.I)
BULLET = re.compile(r"^(\s*)(?:[-*+]|(\d+)[.)])\s+(.*)$")
LINKS = [
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?:[^()]|\([^()]*\))*\)"), r"\1"),
    (re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\[[^\]]*\]"), r"\1"),
    (re.compile(r"(?<![\w\])`])\[(`[^`\]]+`)\]"), r"\1"),
    (re.compile(r"<(https?://[^>]+)>"), r"\1"),
    (re.compile(r"</?(?:div|span|br|p|a|img|b|i|sup|sub|center|details|summary)\b[^>]*>"), ""),
]


def pinned(crates: Path) -> Iterator[tuple[str, str, str]]:
    for line in crates.read_text().splitlines():
        if line and not line.startswith("#"):
            name, version, digest, _licence = line.split(None, 3)
            yield name, version, digest


def files(name: str, version: str, digest: str, downloads: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every Rust source and every Markdown file of a crate that is worth reading."""
    with tarfile.open(fileobj=io.BytesIO(_archive(name, version, digest, downloads)), mode="r:gz") as archive:
        members = {member.name.split("/", 1)[-1]: member for member in archive.getmembers() if member.isfile()}
        for path in sorted(members):
            source = path.endswith(".rs") and path.split("/")[0] in ("src", "examples")
            if (source or _is_prose(path)) and members[path].size < 250_000:
                text = archive.extractfile(members[path]).read().decode("utf-8", "replace").replace("\r\n", "\n")
                if _is_written_by_hand(text) if source else text.isascii() or _is_english(text):
                    yield path, text


def _is_prose(path: str) -> bool:
    return path.endswith(".md") and not OTHER_MARKDOWN.search(path)


def _is_english(text: str) -> bool:
    """Translated read-me files are common: signs outside ASCII beyond a few symbols."""
    return sum(character > "\u007f" for character in text) < 0.02 * len(text)


def _archive(name: str, version: str, digest: str, downloads: Path) -> bytes:
    file = f"{name}-{version}.crate"
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry" / "cache"
    found = next((path for path in [*cargo.glob(f"*/{file}"), downloads / file] if path.exists()), None)
    if found:
        data = found.read_bytes()
    else:
        with urllib.request.urlopen(f"https://static.crates.io/crates/{name}/{file}", timeout=60) as answer:
            data = answer.read()
        downloads.mkdir(parents=True, exist_ok=True)
        (downloads / file).write_bytes(data)
    if hashlib.sha256(data).hexdigest() != digest:
        raise SystemExit(f"{file} is not the pinned one: its SHA-256 differs from the pinned one")
    return data


def _is_written_by_hand(text: str) -> bool:
    """Not a generated table or binding."""
    head = text[:2000].lower()
    figures = sum(character.isdigit() for character in text)
    longest = max((len(line) for line in text.split("\n")), default=0)
    return "generated" not in head and figures < 0.08 * len(text) and longest < 400


# Code


def code_of(name: str, path: str, text: str) -> list[Block]:
    """The file without its documentation comments (they are documents of their own) and without its licence's notice."""
    lines = [line.rstrip() for line in text.split("\n") if not DOC.match(line)]
    code = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    code = re.sub(r"\A(?:\s*//[^\n]*(?:[Cc]opyright|[Ll]icen[cs]e)[^\n]*\n(?:\s*//[^\n]*\n)*)+", "", code).strip("\n")
    if code.count("\n") < 4:
        return []
    return [Block("h", f"File {name}/{path}", 1), Block("code", f"```rust\n{code}\n```")]


# Documentation comments and other prose


def markdown_of(name: str, path: str, text: str) -> list[Block]:
    blocks = markdown(re.sub(r"<!--.*?-->", "", text, flags=re.S).split("\n"))
    # Badges and pictures leave nothing, and a text without a title gets the crate's name.
    blocks = [block for block in blocks if block.kind == "code" or re.search(r"[A-Za-z]{2}", block.text)]
    return blocks if blocks and blocks[0].kind == "h" else [Block("h", name, 1), *blocks]


def documentation_of(name: str, path: str, text: str) -> list[Block]:
    lines = text.split("\n")
    blocks = [Block("h", _title(name, path), 1)]
    at = 0
    while at < len(lines):
        found = DOC.match(lines[at])
        if not found:
            at += 1
            continue
        run: list[str] = []
        while at < len(lines) and (match := DOC.match(lines[at])) and match["kind"] == found["kind"]:
            run.append((match["text"] or match["bare"] or "").rstrip())
            at += 1
        signature = _signature(lines, at) if found["kind"] == "/" else ""
        inner = markdown(run)
        if found["kind"] == "/" and not (signature and inner):
            continue
        if signature:
            blocks.append(Block("sig", signature, 3))
        for block in inner:
            if block.kind == "h":
                block.level = 4 if signature else min(block.level + 1, 4)
        blocks += inner
    return blocks if len(blocks) > 1 else []


def _title(name: str, path: str) -> str:
    parts = [part for part in path.removesuffix(".rs").split("/")[1:] if part not in ("lib", "mod", "main")]
    crate = name.replace("-", "_")
    return f"Module {'::'.join([crate, *parts])}" if parts else f"Crate {crate}"


def _signature(lines: list[str], at: int) -> str:
    """The declaration that follows a comment, up to its body."""
    text = ""
    for line in lines[at : at + 12]:
        stripped = line.strip()
        if not text and (not stripped or stripped.startswith(("#[", "//", "///", ")]"))):
            continue
        if not text and not ITEM.match(line):
            return ""  # a field, a variant, something inside a macro: its comment says too little alone
        text += " " + stripped
        if "{" in stripped or stripped.endswith((";", "}")):
            break
    text = re.split(r"\{|;\s*$|(?<!=)=(?![=>])", text)[0]
    text = re.sub(r"\s+", " ", text).strip(" ;").replace("( ", "(").replace(", )", ")")
    return text if 0 < len(text) < 240 and "`" not in text else ""


def markdown(lines: list[str]) -> list[Block]:
    """Blocks of a Markdown text, paragraphs and list items each on one line."""
    blocks: list[Block] = []
    text: list[str] = []
    marker = ""

    def flush() -> None:
        nonlocal text, marker
        joined = re.sub(r"\s+", " ", " ".join(text)).strip()
        for pattern, replacement in LINKS:
            joined = pattern.sub(replacement, joined)
        if joined:
            blocks.append(Block("li" if marker else "p", marker + joined))
        text, marker = [], ""

    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if fence := FENCE.match(line):
            flush()
            code: list[str] = []
            while at < len(lines) and not FENCE.match(lines[at]):
                code.append(lines[at])
                at += 1
            at += 1
            blocks += _fenced(fence[1], code, len(line) - len(line.lstrip()))
        elif re.match(r"^\s*\[[^\]]+\]:\s", line) or re.match(r"^\s*<[^>]+>\s*$", line):
            flush()
        elif heading := re.match(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*$", line):
            flush()
            blocks.append(Block("h", heading[2], len(heading[1])))
        elif re.match(r"^\s*\|.*\|\s*$", line):
            flush()
            if not re.match(r"^\s*\|[\s:|-]+\|\s*$", line):
                blocks.append(Block("row", "| " + " | ".join(c.strip() for c in line.strip().strip("|").split("|")) + " |"))
        elif bullet := BULLET.match(line):
            flush()
            marker = " " * (len(bullet[1]) // 2 * 2) + (f"{bullet[2]}. " if bullet[2] else "- ")
            text = [bullet[3]]
        elif not line.strip() or re.match(r"^\s*(?:---+|===+|\*\*\*+)\s*$", line):
            flush()
        else:
            text.append(line.strip().removeprefix("> "))
    flush()
    return blocks


def _fenced(info: str, lines: list[str], indent: int) -> list[Block]:
    words = [word for word in re.split(r"[\s,{}]+", info) if word]
    rust = not words or any(word in ("rust", "no_run", "ignore", "should_panic", "compile_fail") for word in words)
    rust = rust or words[0].startswith(("edition", "rust"))
    lines = [line[indent:] if not line[:indent].strip() else line for line in lines]
    if rust:
        shown = [line[1:] if line.lstrip().startswith("##") else line for line in lines if not re.match(r"^\s*#(?: |$)", line)]
        whole = [re.sub(r"^(\s*)# ?", r"\1", line) if re.match(r"^\s*#(?: |$)", line) else line for line in lines]
        joined = "\n".join(shown)
        balanced = all(joined.count(a) == joined.count(b) for a, b in ("{}", "()", "[]"))
        lines = shown if balanced else whole
    code = "\n".join(line.rstrip() for line in lines).strip("\n")
    language = "rust" if rust else {"sh": "console", "bash": "console", "shell": "console"}.get(words[0], words[0])
    return [Block("code", f"```{language}\n{code}\n```")] if code.strip() else []

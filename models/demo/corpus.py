"""Documents: the pages of the Rust documentation, then comments and code of crates, without what they repeat."""

import hashlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cratetext
from htmltext import Block, blocks_of, join

# Books first: where a paragraph stands on several pages, the first page keeps it.
BOOKS = [
    *["book", "rust-by-example", "reference", "nomicon", "cargo", "edition-guide", "rustc", "rustdoc", "clippy"],
    *["embedded-book", "style-guide", "error_codes", "unstable-book"],
]
CRATES = ["std", "alloc", "core", "proc_macro", "test"]

# Whole books on one page, tables of contents, translations, old editions that only redirect.
NOT_PAGES = {"print.html", "toc.html", "404.html", "all.html", "SUMMARY.html"}
UNWANTED = {
    *["rust-by-example/es", "rust-by-example/ja", "rust-by-example/ko", "rust-by-example/zh"],
    # Lists of pull requests, not prose.
    *["cargo/CHANGELOG.html", "reference/test-summary.html"],
    *["book/first-edition", "book/second-edition", "book/2018-edition"],
    # Tens of thousands of pages with one line each about a vendor's instructions.
    *["core/arch", "core/core_arch", "core/core_simd", "core/simd", "std/arch", "std/simd", "core/intrinsics/simd"],
}
# Where a rustdoc page stops being about its own item: methods of other types, lists of implementations.
FOREIGN = re.compile(
    r'<h2 id="(?:deref-methods|trait-implementations|synthetic-implementations|blanket-implementations|foreign-impls'
    r"|implementors|synthetic-implementors|dyn-compatibility|auto-implementors)"
)
KINDS = {
    **{"fn": "Function", "struct": "Struct", "enum": "Enum", "trait": "Trait", "macro": "Macro", "type": "Type alias"},
    **{
        "constant": "Constant",
        "primitive": "Primitive type",
        "keyword": "Keyword",
        "union": "Union",
        "static": "Static",
    },
    **{"attr": "Attribute macro", "derive": "Derive macro", "traitalias": "Trait alias", "index": "Module"},
}
# Numbers and the names of number types: the pages of i8 to u128 differ in nothing else.
NUMBERS = re.compile(
    r"\b(?:Atomic|NonZero)?[iuf](?:8|16|32|64|128|size)\b|\b[IUF](?:8|16|32|64|128|size)\b|[0-9][0-9a-fA-F_xob.]*", re.I
)


# Of one crate's code no more than this, in bytes: a few large crates would be most of what the model reads.
CODE_OF_A_CRATE = 300_000


@dataclass
class Document:
    part: str  # "docs", "crates" (their documentation comments) or "code" (the rest of their files)
    source: str
    path: str
    text: str


def documentation() -> Path:
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    return Path(sysroot) / "share" / "doc" / "rust" / "html"


def documents(root: Path, downloads: Path) -> Iterator[Document]:
    seen = Seen()
    for source in [*BOOKS, *CRATES]:
        for file in sorted((root / source).rglob("*.html")):
            path = file.relative_to(root).as_posix()
            if _is_page(path):
                blocks = seen.only_new(_blocks(source, path, file.read_text(encoding="utf-8")))
                if _says_something(blocks):
                    yield Document("docs", source, path, join(blocks))
    taken: dict[str, int] = {}
    # By hash, so that the part of a large crate that is taken is not the one early in the alphabet.
    for name, path, text in sorted(cratetext.files(downloads), key=lambda file: (file[0], digest(file[1]))):
        blocks = seen.only_new(cratetext.documentation_of(name, path, text))
        if _says_something(blocks):
            yield Document("crates", name, f"{name}/{path}", join(blocks))
        code = join(seen.only_new(cratetext.code_of(name, path, text)))
        if "```" in code and taken.get(name, 0) < CODE_OF_A_CRATE:
            taken[name] = taken.get(name, 0) + len(code)
            yield Document("code", name, f"{name}/{path}", code)


def digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _says_something(blocks: list[Block]) -> bool:
    """What is left of a page that only repeated others is a title and a signature."""
    return sum(len(block.text) for block in blocks if block.kind in ("p", "li", "row")) >= 40


def _is_page(path: str) -> bool:
    parts = path.split("/")
    # A book's own page may be called print.html (Rust by Example has one): only the top level is the whole book.
    if parts[-1] in NOT_PAGES and len(parts) == 2:
        return False
    return not any("/".join(parts[:n]) in UNWANTED for n in (2, 3)) and not parts[-1].endswith("!.html")


def _blocks(source: str, path: str, html: str) -> list[Block]:
    if source in CRATES:
        start = html.find('<section id="main-content"')
        end = FOREIGN.search(html, max(start, 0))
        blocks = blocks_of(html[start : end.start() if end else html.find("</body>")]) if start >= 0 else []
        if blocks and blocks[0].kind == "h":
            blocks[0].text = _item(path)
        return _with_levels(blocks)
    start, end = html.find("<main>"), html.rfind("</main>")
    return blocks_of(html[start:end]) if start >= 0 else []


def _item(path: str) -> str:
    """`std/vec/struct.Vec.html` is titled `Struct std::vec::Vec`."""
    *modules, file = path.removesuffix(".html").split("/")
    if file == "index":
        return f"{'Crate' if len(modules) == 1 else 'Module'} {'::'.join(modules)}"
    kind, _, name = file.partition(".")
    if kind in ("primitive", "keyword"):
        return f"{KINDS[kind]} {name}"
    return f"{KINDS.get(kind, kind.capitalize())} {'::'.join([*modules, name])}" + ("!" if kind == "macro" else "")


def _with_levels(blocks: list[Block]) -> list[Block]:
    """rustdoc numbers headings by nesting; inside a method, "Examples" is level 5 everywhere."""
    for block in blocks[1:]:
        if block.kind == "sig":
            block.level = 2 if block.text.startswith("impl") else 3
        elif block.kind == "h" and block.level > 4:
            block.level = 4
    return blocks


class Seen:
    """Remembers paragraphs, examples and whole methods, and drops what it has met before."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()

    def only_new(self, blocks: list[Block]) -> list[Block]:
        kept: list[Block] = []
        for unit in _units(blocks):
            # A method is judged as one: half of its text would be nonsense.
            if unit[0].kind == "sig" and len(unit) > 1 and not self._is_new(" ".join(b.text for b in unit[1:])):
                continue
            kept += [unit[0]] + [b for b in unit[1:] if b.kind == "h" or len(b.text) < 60 or self._is_new(b.text)]
        return _without_empty_headings(kept)

    def _is_new(self, text: str) -> bool:
        key = hashlib.blake2b(NUMBERS.sub("0", re.sub(r"\s+", " ", text)).encode(), digest_size=12).digest()
        if key in self._keys:
            return False
        self._keys.add(key)
        return True


def _units(blocks: list[Block]) -> Iterator[list[Block]]:
    """Runs of blocks, each from one signature to the next."""
    unit: list[Block] = []
    for block in blocks:
        if unit and (block.kind == "sig" or (block.kind == "h" and block.level <= 2)):
            yield unit
            unit = []
        unit.append(block)
    if unit:
        yield unit


def _without_empty_headings(blocks: list[Block]) -> list[Block]:
    kept: list[Block] = []
    for block in reversed(blocks):
        following = kept[-1] if kept else None
        empty = following is None or (following.kind in ("h", "sig") and following.level <= block.level)
        if block.kind in ("h", "sig") and empty and block is not blocks[0]:
            continue
        kept.append(block)
    return kept[::-1]

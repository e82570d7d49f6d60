"""Documents: the Rust documentation, comments and code of crates, manuals of other software, without what they repeat."""

import hashlib
import multiprocessing
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cratetext
import manuals
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


# Of one source no more than this, in bytes: a few large ones would be most of what the model reads.
CODE_OF_A_CRATE = 300_000
CODE_OF_A_FURTHER_CRATE = 45_000
COMMENTS_OF_A_FURTHER_CRATE = 600_000
PROSE_OF_A_MANUAL = 4_000_000
PARTS = ("docs", "crates", "code", "manuals")


@dataclass
class Document:
    part: str  # "docs", "crates" (their documentation comments and read-me files), "code" (the rest of them) or "manuals"
    source: str
    path: str
    text: str
    only_train: bool = False


def documentation() -> Path:
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    return Path(sysroot) / "share" / "doc" / "rust" / "html"


def documents(root: Path, downloads: Path) -> Iterator[Document]:
    """The order matters: what occurs twice stays where it came first, so whatever is added here comes last.

    The first two sources alone were the text of an earlier training; what was held out then is held out now, to the byte.
    """
    seen = Seen()
    with multiprocessing.Pool() as pool:
        yield from _rust_documentation(root, seen, pool.imap)
        crates = list(cratetext.pinned(cratetext.LIST))
        for crate in crates:
            yield from _crate(crate, downloads / "crates", seen, pool.imap)
        for crate in crates:
            yield from _read_me(crate, downloads / "crates", seen)
        for crate in cratetext.pinned(cratetext.MORE):
            yield from _crate(crate, downloads / "crates", seen, pool.imap, further=True)
            yield from _read_me(crate, downloads / "crates", seen)
        for name, path, checksum in manuals.pinned():
            yield from _manual(name, manuals.pages(path, checksum, downloads / "debian"), seen, pool.imap)


Mapper = Callable[..., Iterable[list[Block]]]


def _rust_documentation(root: Path, seen: "Seen", parallel: Mapper) -> Iterator[Document]:
    found = [(source, file) for source in [*BOOKS, *CRATES] for file in sorted((root / source).rglob("*.html"))]
    pages = [(source, file.relative_to(root).as_posix(), file) for source, file in found]
    pages = [page for page in pages if _is_page(page[1])]
    for (source, path, _), blocks in zip(pages, parallel(_page, pages, 16), strict=True):
        blocks = seen.only_new(blocks)
        if _says_something(blocks):
            yield Document("docs", source, path, join(blocks))


def _page(page: tuple[str, str, Path]) -> list[Block]:
    return _blocks(page[0], page[1], page[2].read_text(encoding="utf-8"))


def _crate(
    crate: tuple[str, str, str], downloads: Path, seen: "Seen", parallel: Mapper, further: bool = False
) -> Iterator[Document]:
    name = crate[0]
    comments, code = 0, 0
    # By hash, so that the part of a large crate that is taken is not the one early in the alphabet.
    files = [(name, *file) for file in cratetext.files(*crate, downloads) if file[0].endswith(".rs")]
    files.sort(key=lambda file: digest(file[1]))
    for (_, path, _), (said, written) in zip(files, parallel(_rust_file, files, 16), strict=True):
        blocks = seen.only_new(said)
        if _says_something(blocks) and not (further and comments >= COMMENTS_OF_A_FURTHER_CRATE):
            text = join(blocks)
            comments += len(text)
            yield Document("crates", name, f"{name}/{path}", text, further)
        text = join(seen.only_new(written))
        if "```" in text and code < (CODE_OF_A_FURTHER_CRATE if further else CODE_OF_A_CRATE):
            code += len(text)
            yield Document("code", name, f"{name}/{path}", text, further)


def _rust_file(file: tuple[str, str, str]) -> tuple[list[Block], list[Block]]:
    return cratetext.documentation_of(*file), cratetext.code_of(*file)


def _read_me(crate: tuple[str, str, str], downloads: Path, seen: "Seen") -> Iterator[Document]:
    for path, text in cratetext.files(*crate, downloads):
        if path.endswith(".md"):
            blocks = seen.only_new(cratetext.markdown_of(crate[0], path, text))
            # Cargo's own book is among the documentation already, in other clothes; held-out pages would be here again.
            if manuals.is_prose(blocks) and crate[0] != "cargo":
                yield Document("crates", crate[0], f"{crate[0]}/{path}", join(blocks), True)


def _manual(name: str, found: Iterable[tuple[str, str]], seen: "Seen", parallel: Mapper) -> Iterator[Document]:
    pages = sorted(found, key=lambda page: digest(page[0]))
    taken = 0
    for (path, _), blocks in zip(pages, parallel(manuals.blocks_of, (html for _, html in pages), 4), strict=True):
        blocks = seen.only_new(blocks)
        if taken < PROSE_OF_A_MANUAL and manuals.is_prose(blocks):
            text = join(blocks)
            taken += len(text)
            # Without Debian's version in it: the split should outlast an update.
            yield Document("manuals", name, f"{name}/{path.removeprefix('usr/share/')}", text)


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

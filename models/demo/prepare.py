#!/usr/bin/env python3
"""Text for the model: reads the Rust documentation, crates and manuals, writes train, dev and test documents.

    python prepare.py                 # documentation of the toolchain that `rustc` names, into build/

A page or file belongs to one split for good: the hash of its path says to which. Crates of `more-crates.txt` and read-me files
are training text only, so that the held-out text stays the same when some are added.
"""

import argparse
import collections
import hashlib
import json
import subprocess
from pathlib import Path

from corpus import PARTS, Document, digest, documentation, documents

HERE = Path(__file__).parent


def split_of(path: str) -> str:
    """1.5 % to look at while training (when to stop), 2 % to report on, looked at once."""
    place = digest(path) % 200
    return "dev" if place < 3 else "test" if place < 7 else "train"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, help="folder with the documentation's HTML (default: ask rustc)")
    parser.add_argument("--out", type=Path, default=HERE / "build")
    args = parser.parse_args()
    root = args.docs or documentation()
    if not (root / "book").is_dir():
        raise SystemExit(f"no Rust documentation in {root}; `rustup component add rust-docs` brings it")
    args.out.mkdir(parents=True, exist_ok=True)

    pages: collections.Counter[tuple[str, str, str]] = collections.Counter()
    sizes: collections.Counter[tuple[str, str, str]] = collections.Counter()
    checksum = hashlib.sha256()
    with (args.out / "documents.jsonl").open("w", encoding="utf-8") as out:
        for document in documents(root, args.out):
            split = "train" if document.only_train else split_of(document.path)
            line = _line(document, split)
            out.write(line)
            checksum.update(line.encode())
            key = (document.part, split, document.source)
            pages[key] += 1
            sizes[key] += len(document.text.encode())

    summary = {
        "rustc": subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip(),
        "documents_sha256": checksum.hexdigest(),
        "bytes": {part: {split: _sum(sizes, part, split) for split in ("train", "dev", "test")} for part in PARTS},
        "documents": {part: {split: _sum(pages, part, split) for split in ("train", "dev", "test")} for part in PARTS},
        "docs_bytes_by_source": _by_source(sizes, "docs"),
        "manuals_bytes_by_source": _by_source(sizes, "manuals"),
    }
    (args.out / "corpus.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps(summary, indent=2))


def _line(document: Document, split: str) -> str:
    fields = {"part": document.part, "split": split, "path": document.path, "text": document.text}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _sum(counts: collections.Counter[tuple[str, str, str]], part: str, split: str) -> int:
    return sum(count for key, count in counts.items() if key[:2] == (part, split))


def _by_source(counts: collections.Counter[tuple[str, str, str]], part: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (its_part, _, source), count in counts.items():
        if its_part == part:
            totals[source] = totals.get(source, 0) + count
    return totals


if __name__ == "__main__":
    main()

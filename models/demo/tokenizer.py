#!/usr/bin/env python3
"""The model's own byte-level BPE: learns it from the training text, and turns all text into numbers.

    python tokenizer.py               # reads build/documents.jsonl, writes tokenizer.json and build/tokens.npz

`tokenizer.json` is the usual file of the `tokenizers` library, in Rust, Python or the browser. `tokens.npz` is all that training
needs: no other package than NumPy and PyTorch, no text.
"""

import argparse
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from corpus import PARTS

HERE = Path(__file__).parent
VOCABULARY = 6144
DOCUMENTATION_COUNTS = 4
END = "<|endoftext|>"  # id 0; stands between documents, so it begins one as well as it ends one

# What may become one token. A word takes the sign or the space before it along (`.push`, `'static`, ` let`); signs stay with
# signs; a line break keeps the indentation that follows, up to the space that the next word takes.
PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\n+(?=\S)|\s+(?!\S)|\s+"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--keep", action="store_true", help="use the tokenizer that is there")
    args = parser.parse_args()
    documents = [json.loads(line) for line in (args.build / "documents.jsonl").open(encoding="utf-8")]
    if args.keep:
        tokenizer = Tokenizer.from_file(str(args.tokenizer))
    else:
        tokenizer = learn(_weighted(documents), args.vocabulary)
        tokenizer.save(str(args.tokenizer))
    arrays = pack(tokenizer, documents)
    save(args.build / "tokens.npz", arrays)
    for name, array in arrays.items():
        print(f"{name:20} {array.dtype} {array.shape}")


def _weighted(documents: list[dict[str, str]]) -> Iterator[str]:
    """The Rust documentation counts more, as it does in training: its words should be whole tokens."""
    for document in documents:
        if document["split"] == "train":
            yield from [document["text"]] * (DOCUMENTATION_COUNTS if document["part"] == "docs" else 1)


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes the format of `np.savez_compressed`, but packed with LZMA: a quarter smaller on the way to a GPU."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array)


def learn(texts: Iterator[str], vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocabulary or tokenizer.token_to_id(END) != 0:
        raise SystemExit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens instead of {vocabulary}: too little text?")
    return tokenizer


def pack(tokenizer: Tokenizer, documents: list[dict[str, str]]) -> dict[str, np.ndarray]:
    """Each part and split as one run of tokens, every document followed by `END`."""
    arrays: dict[str, np.ndarray] = {}
    for part in PARTS:
        for split in ("train", "dev", "test"):
            texts = [d["text"] for d in documents if (d["part"], d["split"]) == (part, split)]
            ids: list[int] = []
            starts: list[int] = []
            ends: list[int] = []
            # A thousand at a time: what the library returns takes far more memory than the numbers in it.
            for first in range(0, len(texts), 1000):
                some = texts[first : first + 1000]
                for text, encoding in zip(some, tokenizer.encode_batch(some, add_special_tokens=False), strict=True):
                    if split == "train":
                        wanted = set(beginnings(text))
                        starts += [len(ids) + i for i, (begin, _) in enumerate(encoding.offsets) if begin in wanted]
                    ids += [*encoding.ids, 0]
                    ends.append(len(ids))
            arrays[f"{part}_{split}"] = np.array(ids, dtype=np.uint16)
            if split == "train":
                arrays[f"{part}_starts"] = np.array(starts, dtype=np.uint32)
            else:
                arrays[f"{part}_{split}_ends"] = np.array(ends, dtype=np.uint32)
                arrays[f"{part}_{split}_bytes"] = np.array([len(text.encode()) for text in texts], dtype=np.uint32)
    arrays |= _bytes_of_tokens(tokenizer)
    prompts = json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))
    encoded = [tokenizer.encode(prompt, add_special_tokens=False).ids for prompt in prompts]
    arrays["prompts"] = np.array([i for ids in encoded for i in ids], dtype=np.uint16)
    arrays["prompts_ends"] = np.cumsum([len(ids) for ids in encoded]).astype(np.uint32)
    return arrays


def beginnings(text: str) -> Iterator[int]:
    """Where a passage can begin: a document, a paragraph, a fence; in code what stands at the margin after an empty line."""
    yield 0
    fenced = text.startswith("```")
    code_only = text.startswith("# File ")
    for match in re.finditer(r"\n(\n?)(```)?(?=\S)", text):
        if match[2]:
            fenced = not fenced
            if match[1] and fenced:
                yield match.start(2)
        elif match[1] and (not fenced or code_only):
            yield match.end()


def _bytes_of_tokens(tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    """The text of each token, so that samples can be read where `tokenizers` is not installed."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    pieces = [token.encode() if token == END else bytes(byte_of[c] for c in token) for token in tokens]
    return {
        "token_bytes": np.frombuffer(b"".join(pieces), dtype=np.uint8),
        "token_ends": np.cumsum([len(piece) for piece in pieces]).astype(np.uint32),
    }


if __name__ == "__main__":
    main()

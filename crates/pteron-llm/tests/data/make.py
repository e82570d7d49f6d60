"""Makes the tokenizers in this folder and what their own libraries say about some texts.

    pip install sentencepiece==0.2.2 tiktoken==0.14.0 tokenizers==0.23.3
    python make.py [--random N] [FOLDER]

The same versions give the same files. `--random` adds N random texts, for a comparison that is too large to keep.
"""

import argparse
import base64
import contextlib
import json
import pathlib
import random
import tempfile

import sentencepiece
import tiktoken
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = """
A wing is a surface that makes lift when air moves over it. Birds have wings, and so do bats, insects and aeroplanes.
The air above a wing moves faster than the air below it, and the pressure there is lower. What is left over carries the bird.
A feather is light because it is mostly air: a stem, barbs, and barbules that hook into each other like the teeth of a zip.
When a feather is torn, the bird pulls it through its beak, and the hooks close again. It's a repair that takes a second.
Swifts sleep while they fly. Albatrosses cross an ocean without moving their wings; they take the wind's energy instead.
In 1903 the first aeroplane flew 36 metres in 12 seconds. By 1969 people had been to the moon, which has no air at all.
fn lift(density: f64, speed: f64, area: f64) -> f64 { 0.5 * density * speed * speed * area }
let wings = vec![1, 2, 3]; // two of them would be enough
Ein Flügel trägt, weil Luft träge ist. Une aile porte parce que l'air est lent. 翼は空気を押し下げる。鳥は飛ぶ。
"""

TEXTS = [
    "",
    " ",
    "The air above a wing",
    "  two  spaces,   and\tmore \n\n lines  ",
    "Flügel naïve ﬁnd Ａｂｃ…",
    "翼は空気を押し下げる。龍",
    "emoji 🪽🦅 family 👩‍👩‍👧 flag 🇬🇷",
    "It's 12345 metres; WE'LL see: {0.5 * x}\r\n",
    "<|user|>hello<s> x </s><|eot_id|><|begin_of_text|>",
    "▁under▁score \u00a0nbsp e\u0301 \u3000wide",
    "wwwwwwwwwwwwwwwwwwww        wings",
    "\u0000\u0001\u007f\ufffd",
]

# Llama 3's pattern, from its published tokenizer.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def lines():
    return [line for line in TEXT.splitlines() if line]


def sentencepiece_model(path, rules=(), **options):
    """Trains in a folder of its own, since names of files get into the model."""
    path = path.absolute()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if rules:
            codes = [[" ".join(f"{ord(c):X}" for c in side) for side in rule] for rule in rules]
            pathlib.Path("rules.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in codes))
            options["normalization_rule_tsv"] = "rules.tsv"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines()), model_prefix="model", num_threads=1, minloglevel=2,
            shuffle_input_sentence=False, hard_vocab_limit=False, **options,
        )
        path.write_bytes(pathlib.Path("model.model").read_bytes())


def make_sentencepiece(folder):
    sentencepiece_model(
        folder / "bpe.model", model_type="bpe", vocab_size=420, byte_fallback=True, character_coverage=0.995,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        user_defined_symbols=["<|user|>", "        "],
    )
    rules = [("\t", " "), ("\n", " "), ("\u00a0", " "), ("ﬁ", "fi"), ("…", "..."), ("Ａ", "A"), ("e\u0301", "\u00e9"),
             ("\u0001", "")]
    sentencepiece_model(
        folder / "unigram.model", rules, model_type="unigram", vocab_size=200, character_coverage=0.99,
        control_symbols=["<|eot_id|>"], user_defined_symbols=["<|user|>", "wing"],
    )
    sentencepiece_model(
        folder / "suffix.model", model_type="unigram", vocab_size=360, byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", treat_whitespace_as_suffix=True,
    )


def make_tiktoken(folder):
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    trained.train_from_iterator(lines(), trainer)
    letters = byte_letters()
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in json.loads(trained.to_str())["model"]["merges"]:
        tokens.append(bytes(letters[c] for c in left + right))
    (folder / "tiktoken.model").write_text(
        "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))


def byte_letters():
    """The byte of each letter of byte-level tokens."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + n): byte for n, byte in enumerate(others)}


def make_hugging_face(folder):
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<s>", "</s>"])
    trained.train_from_iterator(lines(), trainer)
    trained.add_special_tokens(["<|eot_id|>"])
    trained.add_tokens(["<|user|>"])
    trained.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    write(folder / "byte_level.json", trained)

    # As Llama 2 has it: spaces are visible, and unknown characters are spelled in bytes.
    alphabet = sorted({c for c in TEXT if c.isascii() and c not in " \n"} | {"▁", "ü"})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *alphabet]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("i", "n"), ("in", "g"), ("▁", "w"), ("▁w", "ing"), ("a", "i"),
              ("ai", "r"), ("▁", "air"), ("▁", "▁")]
    tokens += [left + right for left, right in merges]
    model = models.BPE(
        vocab={token: id for id, token in enumerate(tokens)}, merges=merges, unk_token="<unk>", fuse_unk=True,
        byte_fallback=True)
    fallback = tokenizers.Tokenizer(model)
    fallback.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    fallback.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    fallback.add_special_tokens(["<unk>", "<s>", "</s>"])
    write(folder / "fallback.json", fallback)


def write(path, tokenizer):
    value = json.loads(tokenizer.to_str())
    # Old files have merges on one line each; both are in use.
    if path.name.startswith("byte"):
        value["model"]["merges"] = [" ".join(pair) for pair in value["model"]["merges"]]
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def libraries(folder):
    """Encoders and decoders by file: name, encode, decode, size."""
    for name in ["bpe.model", "unigram.model", "suffix.model"]:
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
        yield name, model.encode, model.decode, model.get_piece_size()
    ranks = {}
    for line in (folder / "tiktoken.model").read_text().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    model = tiktoken.Encoding("test", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    yield "tiktoken.model", model.encode_ordinary, model.decode, len(ranks)
    for name in ["byte_level.json", "fallback.json"]:
        model = tokenizers.Tokenizer.from_file(str(folder / name))

        def encode(text, model=model):
            return model.encode(text, add_special_tokens=False).ids

        yield name, encode, model.decode, model.get_vocab_size()


def random_text(rng):
    parts = ["the ", "wing", " ", "  ", "\n", "\t", "é", "ü", "翼", "龍", "🪽", "👩‍👩‍👧", "ﬁ", "…", "Ａ", "'ll", "123", "▁", "<|user|>",
             "<s>", "\u00a0", "\u3000", "e\u0301", ".", ";", "air", "\r\n", "W", "\u0001"]
    return "".join(rng.choice(parts) if rng.random() < 0.8 else chr(rng.randrange(1, 0x800)) for _ in range(rng.randrange(1, 40)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).parent)
    arguments = parser.parse_args()
    folder = arguments.folder
    make_sentencepiece(folder)
    make_tiktoken(folder)
    make_hugging_face(folder)
    rng = random.Random(1)
    texts = TEXTS + [random_text(rng) for _ in range(arguments.random)]
    expected = []
    for name, encode, decode, size in libraries(folder):
        encoded = [[text, encode(text), decode(encode(text))] for text in texts]
        ids = [[rng.randrange(size) for _ in range(rng.randrange(1, 16))] for _ in range(6 + arguments.random)]
        if name == "fallback.json":
            # Broken characters are replaced byte by byte here, and run by run there.
            ids = [[id for id in list if not 3 <= id < 259] for list in ids]
        expected.append({"file": name, "encoded": encoded, "decoded": [[list, decode(list)] for list in ids]})
    rows = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in expected)
    (folder / "expected.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()

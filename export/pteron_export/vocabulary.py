"""Small vocabularies of two kinds, and the token ids that their reference libraries give for some texts."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from .fixture import Json

# With spaces of all kinds, digits, other scripts, bytes that are in no text's vocabulary, and special tokens.
TEXTS = [
    "",
    "the rain in Spain",
    "  two  spaces, and there\n\nlines\r\n",
    "it's 12345 o'clock; I'LL wait",
    "naïve Straße 東京 🦀",
    "\ttabs\tand trailing \n ",
]

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n{{ message['content'] }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)

# How texts are cut before bytes are merged: by GGUF's names for it.
SPLITS = {
    "llama-bpe": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    ),
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    ),
}

# Ġ is a space, as byte-level vocabularies write it.
BYTE_MERGES = (
    "Ġ t|h e|Ġt he|i n|Ġ a|e r|a n|Ġ in|l i|n e|Ġa n|Ġan d|1 2|12 3|r e|Ġ s|a i|ai n|Ġthe re|' s|Ċ Ċ|Ġ Ġ|p a|Ã ¯"
).split("|")
SPECIAL = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|reserved_0|>",
    "<|reserved_1|>",
    "<|reserved_2|>",
]

# The best first. ▁ is a space, as SentencePiece writes it.
PIECES = (
    "▁t he ▁the in ▁a er an ▁in li ne ▁an ▁and re ▁s ai ain ▁there ▁▁ pa ▁ e t a o i n s h r d l u c m w f g y p b v k "
    "S 1 2 3 4 5 , . ' ; ï"
).split()


@dataclass(frozen=True)
class ByteLevel:
    """Bytes, merged in an order: GPT-2's kind, which GGUF calls `gpt2`."""

    # A key of `SPLITS`.
    split: str
    # Whether texts begin with the first special token.
    begins: bool

    @cached_property
    def tokens(self) -> list[str]:
        return [*_byte_letters(), *(merge.replace(" ", "") for merge in BYTE_MERGES), *SPECIAL]

    def id(self, token: str) -> int:
        return self.tokens.index(token)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        plain = {token: number for number, token in enumerate(self.tokens) if token not in SPECIAL}
        merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in BYTE_MERGES)]
        tokenizer = Tokenizer(models.BPE(plain, merges))
        cut = pre_tokenizers.Split(Regex(SPLITS[self.split]), "isolated")
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, letters])
        tokenizer.decoder = decoders.ByteLevel()
        if self.begins:
            begin = (SPECIAL[0], self.id(SPECIAL[0]))
            tokenizer.post_processor = processors.TemplateProcessing(f"{begin[0]} $A", special_tokens=[begin])
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
        return tokenizer

    def files(self) -> dict[str, Any]:
        """Files beside a checkpoint."""
        config = {
            "bos_token": SPECIAL[0] if self.begins else None,
            "eos_token": SPECIAL[4],
            "chat_template": CHAT_TEMPLATE,
            "tokenizer_class": "PreTrainedTokenizerFast",
        }
        return {"tokenizer.json": json.loads(self.tokenizer.to_str()), "tokenizer_config.json": config}

    def texts(self) -> list[Json]:
        more = f"{SPECIAL[2]}user{SPECIAL[3]}\n\nthe end{SPECIAL[4]}"
        return [
            {"text": text, "ids": self.tokenizer.encode(text, add_special_tokens=False).ids} for text in [*TEXTS, more]
        ]


@dataclass(frozen=True)
class Pieces:
    """Pieces of text with scores, and bytes for all else: SentencePiece's kind, which GGUF calls `llama`."""

    # Whether a text gets a space before it.
    space: bool = True

    @cached_property
    def model(self) -> Any:
        """SentencePiece's `ModelProto`."""
        model = sentencepiece_model_pb2.ModelProto()
        kinds = model.SentencePiece
        for token, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
            model.pieces.add(piece=token, score=0.0, type=kind)
        for byte in range(256):
            model.pieces.add(piece=f"<0x{byte:02X}>", score=0.0, type=kinds.BYTE)
        for rank, piece in enumerate(PIECES):
            model.pieces.add(piece=piece, score=-float(rank), type=kinds.NORMAL)
        model.trainer_spec.model_type = model.trainer_spec.BPE
        model.trainer_spec.byte_fallback = True
        model.trainer_spec.vocab_size = len(model.pieces)
        model.normalizer_spec.name = "identity"
        model.normalizer_spec.add_dummy_prefix = self.space
        model.normalizer_spec.remove_extra_whitespaces = False
        return model

    def texts(self) -> list[Json]:
        processor = SentencePieceProcessor(model_proto=self.model.SerializeToString())
        return [{"text": text, "ids": processor.encode(text)} for text in TEXTS]


def _byte_letters() -> list[str]:
    """A letter for each byte: itself where it shows, one from beyond Latin-1 where it does not."""
    showing = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in showing]
    return [*map(chr, showing), *(chr(256 + number) for number in range(len(hidden)))]

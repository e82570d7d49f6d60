"""Tiny models as GGUF files, written by the format's own library, with the logits of their dequantised weights."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, TokenType
from torch import Tensor

from .checkpoint import Checkpoint, Config, head_width, llama3_scaling, meta_name, neighbours, rotary, tiny_config
from .conversions import FLOAT32, FOUR_BITS, WORDS, WORDS_FACTS
from .convert import Choices, Facts, to_export
from .exporter import eager_model
from .fixture import Json, write_json, write_tensor
from .gguf_types import finish
from .sequences import Lengths, Questions, write_sequences
from .vocabulary import BYTE_MERGES, CHAT_TEMPLATE, SPECIAL, ByteLevel, Pieces

SEQUENCES: Lengths = {"S7": [7, 1, 1], "chunked": [5, 16, 1, 4]}

PIECES = Pieces()
QWEN = ByteLevel("qwen2", begins=False)


@dataclass(frozen=True)
class Stored:
    """A tensor as stored, and its dequantised values."""

    kind: Kind
    data: numpy.ndarray
    values: numpy.ndarray


@dataclass(frozen=True)
class GgufModel:
    # Where it goes, below the folder of checkpoints.
    name: str
    # As Hugging Face says it.
    config: Config
    matrices: Kind
    embedding: Kind
    choices: Choices
    facts: Facts
    # Whether the converter has to round: then the expected outputs are those of weights that the exporter rounded.
    # Otherwise the numbers of the file arrive as they are.
    rounds: bool = False
    files: int = 1
    # Whether all dequantised tensors are written out.
    tensors: bool = False
    atol: float = 1e-3
    rtol: float = 1e-3
    sequences: Lengths = field(default_factory=lambda: SEQUENCES)

    def stored(self) -> dict[str, Stored]:
        """By Hugging Face's names."""
        weights = Checkpoint(self.config, torch.float32).weights(f"convert/{self.name}")
        return {name: self._store(name, tensor) for name, tensor in weights.items()}

    def _store(self, name: str, tensor: Tensor) -> Stored:
        if self.config["model_type"] == "llama":
            # Of all architectures, this one has its rows in Meta's order.
            tensor = neighbours(self.config, name, tensor)
        kind = self._kind(name, tensor)
        data = gguf.quantize(tensor.numpy(), kind)
        return Stored(kind, data, gguf.dequantize(data, kind))

    def _kind(self, name: str, tensor: Tensor) -> Kind:
        if tensor.dim() == 1:
            return Kind.F32
        return self.embedding if name == "model.embed_tokens.weight" else self.matrices


GGUF_MODELS: list[GgufModel] = [
    GgufModel(
        "gguf/llama",
        tiny_config(
            "llama",
            intermediate_size=64,
            vocab_size=len(WORDS.tokens),
            max_position_embeddings=131072,
            rope_theta=500000.0,
            rope_scaling=llama3_scaling(32.0),
            tie_word_embeddings=True,
        ),
        matrices=Kind.Q4_0,
        embedding=Kind.Q4_0,
        choices=FOUR_BITS,
        facts=WORDS_FACTS,
        tensors=True,
    ),
    GgufModel(
        "gguf/pieces",
        tiny_config("llama", num_key_value_heads=4, vocab_size=len(PIECES.model.pieces), rope_theta=10000.0),
        matrices=Kind.Q4_0,
        embedding=Kind.Q8_0,
        choices=Choices(linear_group=32, embedding_group=None),
        facts=Facts(begin=1, ends=(2,), vocabulary=PIECES),
    ),
    GgufModel(
        "gguf/qwen2",
        tiny_config("qwen2", vocab_size=len(QWEN.tokens), num_hidden_layers=1, rope_theta=1000000.0),
        matrices=Kind.F16,
        embedding=Kind.BF16,
        choices=FLOAT32,
        facts=Facts(begin=None, ends=(QWEN.id("<|eot_id|>"),), vocabulary=QWEN),
    ),
    GgufModel(
        "gguf/qwen3",
        tiny_config(
            "qwen3",
            head_dim=32,
            rms_norm_eps=1e-6,
            vocab_size=len(QWEN.tokens),
            rope_theta=1000000.0,
            tie_word_embeddings=True,
        ),
        matrices=Kind.Q8_0,
        embedding=Kind.Q8_0,
        choices=FOUR_BITS,
        facts=Facts(begin=None, ends=(QWEN.id("<|eot_id|>"),), vocabulary=QWEN),
        rounds=True,
        files=2,
    ),
]


def write_gguf_model(root: Path, model: GgufModel) -> None:
    folder = root / model.name
    folder.mkdir(parents=True)
    stored = model.stored()
    write_json(
        folder / "expected.json",
        {
            "checkpoint": _write_file(folder, model, stored),
            "options": model.choices.json(),
            **model.facts.json(),
            **({"tensors": _write_tensors(folder, model, stored)} if model.tensors else {}),
            "atol": model.atol,
            "rtol": model.rtol,
            **_expected(folder, model, stored),
        },
    )


def _expected(folder: Path, model: GgufModel, stored: Mapping[str, Stored]) -> Json:
    choices = model.choices if model.rounds else FLOAT32
    export = to_export(model.config, _meta_weights(model.config, stored), choices, model.facts)
    questions = Questions(model.sequences, model.config["vocab_size"], model.atol)
    return {"params": dict(export.params), "sequences": write_sequences(folder, eager_model(export), questions)}


def _meta_weights(config: Config, stored: Mapping[str, Stored]) -> dict[str, Tensor]:
    weights = {name: torch.from_numpy(tensor.values.copy()) for name, tensor in stored.items()}
    if config["model_type"] != "llama":
        weights = {name: neighbours(config, name, tensor) for name, tensor in weights.items()}
    found = {meta_name(name): tensor for name, tensor in weights.items()}
    if config["tie_word_embeddings"]:
        found["output.weight"] = found["tok_embeddings.weight"]
    return found


def _write_tensors(folder: Path, model: GgufModel, stored: Mapping[str, Stored]) -> list[Json]:
    entries = []
    for name, tensor in stored.items():
        own = _tensor_name(model.config, name)
        entries.append({"name": own, **write_tensor(folder, f"{own}.bin", torch.from_numpy(tensor.values.copy()))})
    return entries


def _write_file(folder: Path, model: GgufModel, stored: Mapping[str, Stored]) -> str:
    """Returns the name of the first file."""
    most = -(-len(stored) // model.files) if model.files > 1 else 0
    writer = GGUFWriter(folder / "model.gguf", model.config["model_type"], split_max_tensors=most)
    _add_shape(writer, model)
    _add_vocabulary(writer, model.facts)
    for name, tensor in _all_tensors(model.config, stored):
        writer.add_tensor(name, tensor.data, raw_dtype=tensor.kind)
    finish(writer)
    return min(path.name for path in folder.glob("*.gguf"))


def _all_tensors(config: Config, stored: Mapping[str, Stored]) -> Iterator[tuple[str, Stored]]:
    if rotary(config).get("rope_type") == "llama3":
        divisors = numpy.array(list(_divisors(config)), dtype=numpy.float32)
        yield "rope_freqs.weight", Stored(Kind.F32, divisors, divisors)
    for name, tensor in stored.items():
        yield _tensor_name(config, name), tensor


def _tensor_name(config: Config, name: str) -> str:
    architectures = {own: number for number, own in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(architectures[config["model_type"]], config["num_hidden_layers"])
    found = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if found is None:
        raise ValueError(f"GGUF has no name for {name}")
    return found


def _divisors(config: Config) -> Iterator[float]:
    """Divisors of Llama 3's frequencies: not a key of the format, but a tensor."""
    rope, width = rotary(config), head_width(config)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    for pair in range(width // 2):
        # How often it turns within the context of pre-training.
        turns = rope["original_max_position_embeddings"] / (2 * math.pi * rope["rope_theta"] ** (2 * pair / width))
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        yield 1.0 / ((1.0 - smooth) / rope["factor"] + smooth)


def _add_shape(writer: GGUFWriter, model: GgufModel) -> None:
    config = model.config
    writer.add_name(f"tiny {config['model_type']}")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rotary(config)["rope_theta"])
    if config["model_type"] == "llama":
        writer.add_rope_dimension_count(head_width(config))
        writer.add_vocab_size(config["vocab_size"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{model.matrices.name}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _add_vocabulary(writer: GGUFWriter, facts: Facts) -> None:
    if isinstance(facts.vocabulary, ByteLevel):
        _add_byte_level(writer, facts.vocabulary)
    elif isinstance(facts.vocabulary, Pieces):
        _add_pieces(writer, facts.vocabulary)
    if facts.begin is not None:
        writer.add_bos_token_id(facts.begin)
    writer.add_add_bos_token(facts.begin is not None)
    writer.add_eos_token_id(facts.ends[0])
    for end in facts.ends[1:]:
        writer.add_eot_token_id(end)


def _add_byte_level(writer: GGUFWriter, vocabulary: ByteLevel) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.split)
    writer.add_token_list(vocabulary.tokens)
    kinds = [TokenType.CONTROL if token in SPECIAL else TokenType.NORMAL for token in vocabulary.tokens]
    writer.add_token_types(kinds)
    writer.add_token_merges(BYTE_MERGES)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_pieces(writer: GGUFWriter, vocabulary: Pieces) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece for piece in vocabulary.model.pieces])
    writer.add_token_scores([piece.score for piece in vocabulary.model.pieces])
    # Both number the kinds of tokens alike.
    writer.add_token_types([piece.type for piece in vocabulary.model.pieces])
    writer.add_add_space_prefix(vocabulary.space)

"""Tiny checkpoints in Hugging Face's format, and the programs ExecuTorch's exporter writes for the same weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from .checkpoint import SCALING, Checkpoint, Config, meta_weights, params, rotary
from .exporter import CONTEXT, Export, eager_model, export_program
from .fixture import Json, operators, write_json
from .read import read_pte
from .sequences import Lengths, Questions, write_sequences
from .vocabulary import ByteLevel, Pieces

# The exporter derives the RoPE scaling from the model's name.
STRETCHES = {8.0: "llama3_1", 32.0: "llama3_2"}

SEQUENCES: Lengths = {"S7": [7, 1, 1], "chunked": [5, 16, 1, 4, 1], "S127_full": [127, 1]}


@dataclass(frozen=True)
class Choices:
    """Options of a conversion."""

    # Quantisation group size; `None` for float32.
    linear_group: int | None
    embedding_group: int | None
    full_logits: bool = False
    context: int = CONTEXT
    # As the exporter counts: a call has at most one token less.
    longest_call: int = CONTEXT

    def json(self) -> Json:
        return {
            "context": self.context,
            "longest_call": self.longest_call,
            "linear_group": self.linear_group,
            "embedding_group": self.embedding_group,
            "full_logits": self.full_logits,
        }

    def exporter_options(self) -> list[str]:
        linears = ["-qmode", "4w", "-G", str(self.linear_group)] if self.linear_group else []
        embedding = ["--embedding-quantize", f"4,{self.embedding_group}"] if self.embedding_group else []
        return [*linears, *embedding, *(["--generate_full_logits"] if self.full_logits else [])]


@dataclass(frozen=True)
class Facts:
    """Files beside the weights."""

    begin: int | None = 1
    ends: tuple[int, ...] = (2,)
    vocabulary: ByteLevel | Pieces | None = None

    def json(self) -> Json:
        texts = {"texts": self.vocabulary.texts()} if self.vocabulary else {}
        return {"begin": self.begin, "ends": list(self.ends), **texts}

    def metadata(self) -> dict[str, Any]:
        begin = {} if self.begin is None else {"get_bos_id": self.begin}
        return {"append_eos_to_prompt": 0, **begin, "get_eos_ids": list(self.ends)}


@dataclass(frozen=True)
class Conversion:
    name: str
    checkpoint: Checkpoint
    choices: Choices
    facts: Facts = field(default_factory=Facts)
    sequences: Lengths = field(default_factory=lambda: SEQUENCES)
    atol: float = 1e-3
    rtol: float = 1e-3

    def weights(self) -> dict[str, Tensor]:
        return self.checkpoint.weights(f"convert/{self.name}")

    def export(self) -> Export:
        config = self.checkpoint.config
        return to_export(config, meta_weights(config, self.weights()), self.choices, self.facts)


def to_export(config: Config, weights: Mapping[str, Tensor], choices: Choices, facts: Facts) -> Export:
    return Export(
        params(config),
        weights,
        choices.exporter_options(),
        model=_exporter_name(config),
        context=choices.context,
        longest_call=choices.longest_call,
        metadata=facts.metadata(),
    )


def _exporter_name(config: Config) -> str:
    rope = rotary(config)
    if rope.get("rope_type") != "llama3":
        return "llama2"
    if {key: rope[key] for key in SCALING} != SCALING:
        raise ValueError(f"the exporter has no such scaling: {rope}")
    return STRETCHES[rope["factor"]]


def write_conversion(root: Path, conversion: Conversion) -> None:
    folder = root / conversion.name
    conversion.checkpoint.write(folder / "checkpoint", conversion.weights())
    export = conversion.export()
    program = export_program(export)
    (folder / "program.pte").write_bytes(program)
    questions = Questions(conversion.sequences, export.params["vocab_size"], conversion.atol)
    write_json(
        folder / "manifest.json",
        {
            "program": "program.pte",
            "checkpoint": "checkpoint",
            "options": conversion.choices.json(),
            **conversion.facts.json(),
            "atol": conversion.atol,
            "rtol": conversion.rtol,
            **operators(read_pte(program)),
            "params": dict(export.params),
            "sequences": write_sequences(folder, eager_model(export), questions),
        },
    )

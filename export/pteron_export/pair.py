"""One set of weights as two programs: a checkpoint for `pteron convert`, and an XNNPACK export with 8da4w linears."""

from pathlib import Path

import torch

from .checkpoint import Checkpoint, meta_weights, params, tiny_config
from .exporter import Export, export_program

# Large enough that a step is more than its dispatches, small enough for a software adapter.
CONFIG = tiny_config(
    "llama",
    hidden_size=512,
    intermediate_size=1024,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=2048,
)
OPTIONS = ("-qmode", "8da4w", "-G", "32", "--embedding-quantize", "4,32")
CONTEXT = 512


def write_pair(folder: Path) -> None:
    """Writes `checkpoint/` and `exported.pte`."""
    checkpoint = Checkpoint(CONFIG, torch.float32)
    weights = checkpoint.weights("pair")
    checkpoint.write(folder / "checkpoint", weights)
    export = Export(
        params(CONFIG),
        meta_weights(CONFIG, weights),
        OPTIONS,
        backend="-X",
        context=CONTEXT,
        longest_call=CONTEXT,
    )
    (folder / "exported.pte").write_bytes(export_program(export))

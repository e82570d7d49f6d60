"""Makes what lies beside this file with the `gguf` package.

- blocks.json: rows of every type of tensors, and what their numbers are
- written.gguf: a small model

    pip install gguf==0.19.0
    python make.py

The same versions give the same files.
"""

import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

# Where in a block float16 numbers are: those get values that a checkpoint could have.
HALVES = {
    Type.F16: [0], Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2],
    Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
TYPES = [*HALVES, Type.F32, Type.BF16]
BLOCKS = 2


def row(kind, rng):
    """Bytes of some blocks."""
    length, size = GGML_QUANT_SIZES[kind]
    count = BLOCKS if length > 1 else BLOCKS * 8
    if kind in (Type.F32, Type.BF16):
        numbers = rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(count, 4)
        return numbers[:, 4 - size:].copy()
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[kind]:
        blocks[:, at:at + 2] = (rng.standard_normal(count) / 16).astype(np.float16).view(np.uint8).reshape(count, 2)
    return blocks


def make_blocks(path):
    rng = np.random.default_rng(7)
    rows = []
    for kind in TYPES:
        blocks = row(kind, rng)
        numbers = dequantize(blocks.reshape(1, -1), kind).astype(np.float32).reshape(-1)
        rows.append({"name": kind.name, "id": int(kind), "bytes": blocks.tobytes().hex(), "numbers": numbers.tolist()})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f"[\n{lines}\n]\n")


def make_model(path):
    """A Qwen 3 of one layer. Each tensor counts up from its number in the file, in eighths."""
    file = GGUFWriter(path, "qwen3")
    file.add_name("written")
    file.add_block_count(1)
    file.add_context_length(64)
    file.add_embedding_length(8)
    file.add_feed_forward_length(12)
    file.add_head_count(2)
    file.add_head_count_kv(1)
    file.add_key_length(6)
    file.add_value_length(6)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_rope_freq_base(1e6)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("qwen2")
    file.add_token_list(["a", "b", "ab", "<|im_end|>", "[PAD4]"])
    file.add_token_types([1, 1, 1, 3, 5])
    file.add_token_merges(["a b"])
    file.add_eos_token_id(3)
    file.add_add_bos_token(False)
    file.add_chat_template("{{ messages[0].content }}")
    layer = {
        "attn_norm": (8,), "attn_q": (12, 8), "attn_k": (6, 8), "attn_v": (6, 8), "attn_q_norm": (6,), "attn_k_norm": (6,),
        "attn_output": (8, 12), "ffn_norm": (8,), "ffn_gate": (12, 8), "ffn_up": (12, 8), "ffn_down": (8, 12),
    }
    shapes = {"token_embd": (5, 8), "output_norm": (8,)} | {f"blk.0.{name}": shape for name, shape in layer.items()}
    for number, (name, shape) in enumerate(shapes.items()):
        numbers = (number + np.arange(np.prod(shape)) / 8).reshape(shape)
        # Matrices as float16: their ends are not where the next tensor may begin.
        file.add_tensor(f"{name}.weight", numbers.astype(np.float16 if len(shape) == 2 else np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def main():
    folder = pathlib.Path(__file__).parent
    make_blocks(folder / "blocks.json")
    make_model(folder / "written.gguf")


if __name__ == "__main__":
    main()

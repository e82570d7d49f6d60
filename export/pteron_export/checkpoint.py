"""Checkpoints in Hugging Face's format, and the same weights as ExecuTorch's Llama exporter takes them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from .case import random_tensor
from .fixture import write_json

Config = Mapping[str, Any]

ARCHITECTURES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}

# The exporter knows no others.
SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}

# Hugging Face's name of a weight, and Meta's.
OUTSIDE = {
    "model.embed_tokens.weight": "tok_embeddings.weight",
    "model.norm.weight": "norm.weight",
    "lm_head.weight": "output.weight",
}
INSIDE = {
    "input_layernorm.weight": "attention_norm.weight",
    "self_attn.q_proj.weight": "attention.wq.weight",
    "self_attn.q_proj.bias": "attention.wq.bias",
    "self_attn.k_proj.weight": "attention.wk.weight",
    "self_attn.k_proj.bias": "attention.wk.bias",
    "self_attn.v_proj.weight": "attention.wv.weight",
    "self_attn.v_proj.bias": "attention.wv.bias",
    "self_attn.q_norm.weight": "attention.q_norm_fn.weight",
    "self_attn.k_norm.weight": "attention.k_norm_fn.weight",
    "self_attn.o_proj.weight": "attention.wo.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "feed_forward.w1.weight",
    "mlp.up_proj.weight": "feed_forward.w3.weight",
    "mlp.down_proj.weight": "feed_forward.w2.weight",
}
# Their rows belong to numbers that are rotated together: Hugging Face takes them from the two halves of a head,
# Meta takes neighbours.
ROTATED = ("q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "q_norm.weight", "k_norm.weight")


@dataclass(frozen=True)
class Checkpoint:
    """A folder as it lies on Hugging Face."""

    # `config.json`; everything about the model follows from it.
    config: Config
    dtype: torch.dtype
    # Norms are often kept wider than the rest.
    norm_dtype: torch.dtype | None = None
    shards: int = 1
    # Whether the unused tensors of old Llama 2 files are included.
    frequencies: bool = False
    # More files, by name: `generation_config.json`, the tokenizer.
    files: Mapping[str, Any] | None = None

    def weights(self, seed: str) -> dict[str, Tensor]:
        """All tensors by Hugging Face's names, random, but such that activations and logits stay near 1."""
        return {name: self._weight(seed, name, shape) for name, shape in shapes(self.config).items()}

    def _weight(self, seed: str, name: str, shape: tuple[int, ...]) -> Tensor:
        # As fine as float32 has them between 1/8 and 1/4, so that narrower types have to round.
        values = random_tensor(shape, torch.float32, f"{seed}/{name}", steps=1 << 20) / 8.0
        if not name.endswith("norm.weight"):
            return values.to(self.dtype)
        return (1.0 + values).to(self.norm_dtype or self.dtype)

    def write(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        folder.mkdir(parents=True)
        write_json(folder / "config.json", dict(self.config))
        for name, content in (self.files or {}).items():
            write_json(folder / name, content)
        tensors = dict(weights)
        if self.frequencies:
            tensors |= _frequencies(self.config)
        _write_safetensors(folder, tensors, self.shards)


def tiny_config(model_type: str, **more: Any) -> dict[str, Any]:
    """Common configuration; entries of `more` take precedence."""
    return {
        "architectures": [f"{ARCHITECTURES[model_type]}ForCausalLM"],
        "model_type": model_type,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "max_position_embeddings": 4096,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "use_cache": True,
        **more,
    }


def llama3_scaling(factor: float) -> dict[str, Any]:
    return {"factor": factor, **SCALING, "rope_type": "llama3"}


def head_width(config: Config) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every tensor of a checkpoint that is read, in the order a forward pass uses them."""
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, width)}
    for layer in range(config["num_hidden_layers"]):
        found |= {f"model.layers.{layer}.{name}": shape for name, shape in _layer_shapes(config)}
    found["model.norm.weight"] = (width,)
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (vocabulary, width)
    return found


def _layer_shapes(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, head, hidden = config["hidden_size"], head_width(config), config["intermediate_size"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "input_layernorm.weight", (width,)
    for name, rows in (("q", queries), ("k", keys), ("v", keys)):
        yield f"self_attn.{name}_proj.weight", (rows, width)
        if config["model_type"] == "qwen2":
            yield f"self_attn.{name}_proj.bias", (rows,)
    if config["model_type"] == "qwen3":
        yield "self_attn.q_norm.weight", (head,)
        yield "self_attn.k_norm.weight", (head,)
    yield "self_attn.o_proj.weight", (width, queries)
    yield "post_attention_layernorm.weight", (width,)
    yield "mlp.gate_proj.weight", (hidden, width)
    yield "mlp.up_proj.weight", (hidden, width)
    yield "mlp.down_proj.weight", (width, hidden)


def params(config: Config) -> dict[str, Any]:
    """The exporter's `params.json` for the same model, rotating neighbours."""
    rope = rotary(config)
    found = {
        "dim": config["hidden_size"],
        "n_layers": config["num_hidden_layers"],
        "n_heads": config["num_attention_heads"],
        "n_kv_heads": config["num_key_value_heads"],
        "vocab_size": config["vocab_size"],
        "hidden_dim": config["intermediate_size"],
        "head_dim": head_width(config),
        "norm_eps": config["rms_norm_eps"],
        "rope_theta": rope["rope_theta"],
    }
    if rope.get("rope_type") == "llama3":
        found["use_scaled_rope"] = True
    if config["model_type"] == "qwen2":
        found["attention_qkv_bias"] = True
    if config["model_type"] == "qwen3":
        found |= {"use_qk_norm": True, "qk_norm_before_rope": True}
    return found


def rotary(config: Config) -> dict[str, Any]:
    """Newer configurations have in one place what older ones have in two."""
    if "rope_parameters" in config:
        return dict(config["rope_parameters"])
    return {"rope_theta": config.get("rope_theta", 10000.0), **(config.get("rope_scaling") or {})}


def meta_weights(config: Config, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As ExecuTorch's converters give them to the exporter: other names, float32, neighbours rotated."""
    found = {meta_name(name): neighbours(config, name, tensor.float()) for name, tensor in weights.items()}
    if config["tie_word_embeddings"]:
        found["output.weight"] = found["tok_embeddings.weight"]
    return found


def meta_name(name: str) -> str:
    if name in OUTSIDE:
        return OUTSIDE[name]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    return f"layers.{layer}.{INSIDE[rest]}"


def neighbours(config: Config, name: str, tensor: Tensor) -> Tensor:
    """The rows in Meta's order."""
    if not name.endswith(ROTATED):
        return tensor
    half = head_width(config) // 2
    return tensor.unflatten(0, (-1, 2, half)).transpose(1, 2).flatten(0, 2).contiguous()


def _frequencies(config: Config) -> dict[str, Tensor]:
    values = torch.arange(head_width(config) // 2, dtype=torch.float32)
    names = [f"model.layers.{layer}.self_attn.rotary_emb.inv_freq" for layer in range(config["num_hidden_layers"])]
    return {name: values.clone() for name in names}


def _write_safetensors(folder: Path, tensors: Mapping[str, Tensor], shards: int) -> None:
    if shards == 1:
        (folder / "model.safetensors").write_bytes(save(dict(tensors), {"format": "pt"}))
        return
    names = list(tensors)
    each = -(-len(names) // shards)
    files: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard * each : (shard + 1) * each]
        (folder / file).write_bytes(save({name: tensors[name] for name in part}, {"format": "pt"}))
        files |= dict.fromkeys(part, file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(files.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")

"""The language model: a Llama with the names, shapes and arithmetic of ExecuTorch's, so that its exporter takes the checkpoint.

What only inference needs (caches) is not here; what only training needs (dropout, the loss) is.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """`params.json`, in the words of ExecuTorch's `ModelArgs`."""

    dim: int = 384
    n_layers: int = 8
    n_heads: int = 6
    n_kv_heads: int = 2
    head_dim: int = 64
    hidden_dim: int = 1024
    vocab_size: int = 6144
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    def params(self) -> dict[str, object]:
        return {**asdict(self), "use_scaled_rope": False}


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight.type_as(x)


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.wq = nn.Linear(c.dim, c.n_heads * c.head_dim, bias=False)
        self.wk = nn.Linear(c.dim, c.n_kv_heads * c.head_dim, bias=False)
        self.wv = nn.Linear(c.dim, c.n_kv_heads * c.head_dim, bias=False)
        self.wo = nn.Linear(c.n_heads * c.head_dim, c.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = rotate(self.wq(x).view(batch, length, self.c.n_heads, self.c.head_dim), cos, sin)
        k = rotate(self.wk(x).view(batch, length, self.c.n_kv_heads, self.c.head_dim), cos, sin)
        v = self.wv(x).view(batch, length, self.c.n_kv_heads, self.c.head_dim)
        # Heads that share keys are written out: every attention kernel takes that, not every one takes groups.
        groups = self.c.n_heads // self.c.n_kv_heads
        k, v = (t.repeat_interleave(groups, dim=2).transpose(1, 2) for t in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of interleaved pairs, as in Meta's checkpoints."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).type_as(x)


class FeedForward(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.w1 = nn.Linear(c.dim, c.hidden_dim, bias=False)
        self.w2 = nn.Linear(c.hidden_dim, c.dim, bias=False)
        self.w3 = nn.Linear(c.dim, c.hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, c: Config, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(c)
        self.feed_forward = FeedForward(c)
        self.attention_norm = RMSNorm(c.dim, c.norm_eps)
        self.ffn_norm = RMSNorm(c.dim, c.norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), cos, sin))
        return x + self.dropout(self.feed_forward(self.ffn_norm(x)))


class Llama(nn.Module):
    """One matrix is both the embedding and the output layer; the checkpoint holds it twice, under both names."""

    cos: Tensor
    sin: Tensor

    def __init__(self, c: Config, context: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(c.vocab_size, c.dim)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Block(c, dropout) for _ in range(c.n_layers))
        self.norm = RMSNorm(c.dim, c.norm_eps)
        turns = 1.0 / c.rope_theta ** (torch.arange(0, c.head_dim, 2).float() / c.head_dim)
        angles = torch.outer(torch.arange(context).float(), turns)[:, None, :]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # Branches start small where they join the residual stream, the deeper the model the smaller.
                joins = name.endswith(("wo.weight", "w2.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * c.n_layers) ** 0.5 if joins else 0.02)

    def forward(self, tokens: Tensor, targets: Tensor | None = None, reduction: str = "mean") -> Tensor:
        """Logits of every position, or with targets the loss in nats; a target of -1 does not count."""
        length = tokens.shape[1]
        x = self.dropout(self.tok_embeddings(tokens))
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        logits = F.linear(self.norm(x), self.tok_embeddings.weight)
        if targets is None:
            return logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-1, reduction=reduction)


def checkpoint(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The checkpoint in the format of ExecuTorch's exporter."""
    return {**weights, "output.weight": weights["tok_embeddings.weight"]}

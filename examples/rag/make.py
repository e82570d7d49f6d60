"""Writes the encoder of this example, `encoder.pte`.

    pip install torch executorch numpy pteron
    python examples/rag/make.py

The encoder is a bag of words: a vector counts how often each token of the bundled model's vocabulary occurs in a text, and weighs
rare tokens more, those that few paragraphs of this repository contain. The cosine of two texts then tells how many rare words
they share. Nothing is trained; with an encoder that is, the rest of the example stays as it is.
"""

import math
from collections import Counter
from pathlib import Path

import pteron
import torch
from torch import nn

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: The most tokens of a text.
LONGEST = 256


class Encoder(nn.Module):
    """Takes the tokens of a text, `[1, S]`, and returns its vector, `[1, vocabulary]`, of length one."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.register_buffer("vocabulary", torch.arange(len(weights)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Counts and weighs the tokens."""
        counts = (tokens.unsqueeze(2) == self.vocabulary).to(torch.float32).sum(dim=1)
        vector = counts * self.weights
        return vector / (vector * vector).sum(dim=1, keepdim=True).sqrt()


def rarity(llm: pteron.LLM) -> torch.Tensor:
    """How rare each token is: the logarithm of one over its share of the repository's paragraphs."""
    files = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(ROOT.glob("crates/*/README.md")), HERE / "notes.md"]
    paragraphs = [paragraph for file in files for paragraph in file.read_text(encoding="utf-8").split("\n\n")]
    counts = Counter(token for paragraph in paragraphs for token in set(llm.encode(f" {paragraph.lower()}")))
    shares = [(1 + counts[token]) / (1 + len(paragraphs)) for token in range(llm.vocab_size)]
    return torch.tensor([-math.log(share) for share in shares])


def main() -> None:
    """Counts the paragraphs and exports the encoder."""
    encoder = Encoder(rarity(pteron.LLM())).eval()
    length = torch.export.Dim("length", min=1, max=LONGEST)
    tokens = torch.arange(7).unsqueeze(0)
    pteron.export(encoder, (tokens,), HERE / "encoder.pte", dynamic_shapes={"tokens": {1: length}})


if __name__ == "__main__":
    main()

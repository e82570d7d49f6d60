"""Trains the network of this example, exports it, and draws the picture of digits that it never saw.

    pip install torch executorch scikit-learn pillow pteron
    python examples/classify/make.py

The digits are those of scikit-learn: 1,797 of eight by eight pixels, from the UCI repository (CC BY 4.0, doi 10.24432/C50P49).
Training takes seconds on one core.
"""

from pathlib import Path

import pteron
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

HERE = Path(__file__).parent
#: The digits of the picture, and how many pixels each pixel becomes.
SHOWN, SCALE = 10, 8


def network() -> nn.Module:
    """Two convolutions and a linear layer: 9,930 parameters, ten probabilities."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
        nn.Softmax(dim=1),
    )


def train(net: nn.Module, pictures: torch.Tensor, digits: torch.Tensor) -> None:
    """Trains for a hundred epochs."""
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(100):
        for batch in torch.randperm(len(pictures)).split(64):
            optimiser.zero_grad()
            probabilities = net(pictures[batch]).clamp_min(1e-9)
            nn.functional.nll_loss(probabilities.log(), digits[batch]).backward()
            optimiser.step()


def draw(pictures: torch.Tensor, digits: torch.Tensor) -> None:
    """Draws one picture of each digit in a row."""
    row = torch.cat([pictures[digits == digit][0, 0] for digit in range(SHOWN)], dim=1)
    image = Image.fromarray((row * 255).round().to(torch.uint8).numpy())
    image.resize((image.width * SCALE, image.height * SCALE), Image.Resampling.NEAREST).save(HERE / "digits.png")


def main() -> None:
    """Trains, says how often the network is right on digits that it was not trained with, and exports it."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = load_digits()
    pictures = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    digits = torch.tensor(data.target)
    order = torch.randperm(len(pictures))
    unseen, seen = order[:360], order[360:]
    net = network()
    train(net, pictures[seen], digits[seen])
    net.eval()
    right = (net(pictures[unseen]).argmax(dim=1) == digits[unseen]).float().mean().item()
    print(f"right: {right:.1%} of {len(unseen)} digits")
    pteron.export(net, (pictures[unseen[:1]],), HERE / "digits.pte", partitioner=VulkanPartitioner())
    draw(pictures[unseen], digits[unseen])


if __name__ == "__main__":
    main()

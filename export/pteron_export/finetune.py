"""A program that fine-tunes a layer below a frozen 4-bit one, and the losses of the same training in PyTorch.

A call is one step.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from .case import Case, f32, ints, lowered, random_tensor
from .lower import lower

NAME = "finetune"
ROWS, INPUTS, HIDDEN, CLASSES, GROUP, STEPS = 16, 24, 32, 10, 32, 20
# Learning rate, decay of both moments, eps and weight decay. The bias corrections are those of a long training.
NUMBERS = (0.02, 0.9, 0.99, 1e-8, 0.01)
CORRECTIONS = (1.0, 1.0)
OPERATOR = "et_vk.adamw_step.default"
KEPT = [OPERATOR, *(f"et_vk.{name}.default" for name in ("linear_q4gsw", "linear_q4gsw_backward", "q4gsw_requant"))]


class Step(nn.Module):
    """Takes a batch, the layer's weights and their moments.

    Returns the loss, all three updated, and the weights in 4 bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frozen", random_tensor([CLASSES, HIDDEN // 2], torch.uint8, "finetune/frozen", below=256))
        self.register_buffer("scales", random_tensor([1, CLASSES], torch.float32, "finetune/scales").abs() / 8 + 0.05)

    def forward(self, x: Tensor, labels: Tensor, w: Tensor, m: Tensor, v: Tensor, steps: Tensor) -> tuple[Tensor, ...]:
        ops = torch.ops.et_vk
        before = torch.mm(x, w.t())
        hidden = functional.relu(before)
        logits = ops.linear_q4gsw(hidden, self.frozen, self.scales, GROUP)
        loss, d_logits = ops.fused_ce(logits, labels, float(ROWS))
        d_hidden = ops.linear_q4gsw_backward(d_logits, self.frozen, self.scales, GROUP)
        d_before = d_hidden * (before > 0).to(torch.float32)
        gradient = ops.linear_dW(d_before, x)
        w, m, v = torch.ops.pteron_export.adamw_step(w, m, v, gradient, *NUMBERS, *CORRECTIONS)
        return loss, w, m, v, ops.q4gsw_requant(w, steps, 8)


def batch() -> dict[str, Tensor]:
    """Inputs whose class is the largest of some of their elements, and weights to start from."""
    x = random_tensor([ROWS, INPUTS], torch.float32, "finetune/x")
    return {
        "x": x,
        "labels": x[:, :CLASSES].argmax(dim=1),
        "weights": random_tensor([HIDDEN, INPUTS], torch.float32, "finetune/weights") / 8,
        "steps": random_tensor([INPUTS // 8, HIDDEN], torch.float32, "finetune/steps").abs() / 16 + 0.01,
    }


def trained(given: dict[str, Tensor]) -> list[float]:
    """The losses of training with PyTorch's own gradients."""
    step = Step()
    eye = torch.eye(HIDDEN)
    frozen = torch.ops.et_vk.linear_q4gsw(eye, step.frozen, step.scales, GROUP)
    rate, beta1, beta2, eps, decay = NUMBERS
    w = given["weights"].clone().requires_grad_()
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    losses = []
    for _ in range(STEPS):
        loss = functional.cross_entropy(functional.relu(given["x"] @ w.t()) @ frozen, given["labels"])
        (gradient,) = torch.autograd.grad(loss, w)
        losses.append(loss.item())
        with torch.no_grad():
            m.mul_(beta1).add_(gradient, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            w.mul_(1 - rate * decay).addcdiv_(m, v.sqrt() + eps, value=-rate)
    return losses


def case() -> Case:
    layer = f32(HIDDEN, INPUTS)
    call = [f32(ROWS, INPUTS), ints(torch.int64, ROWS, below=CLASSES), layer, layer, layer, f32(INPUTS // 8, HIDDEN)]
    return lowered(NAME, OPERATOR, Step, call, kept=KEPT)


def write_finetune(root: Path) -> None:
    """Writes `root/finetune/`: the program, the batch, the weights to start from, and the losses of 20 steps."""
    row, given = case(), batch()
    zeros = torch.zeros_like(given["weights"])
    inputs = (given["x"], given["labels"], given["weights"], zeros, zeros.clone(), given["steps"])
    program = lower(row, {"forward": Step().eval()}, {"forward": [inputs]})
    folder = root / NAME
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.pte").write_bytes(program.pte)
    losses = torch.tensor(trained(given))
    for name, tensor in {**given, "losses": losses}.items():
        (folder / f"{name}.bin").write_bytes(tensor.contiguous().numpy().tobytes())

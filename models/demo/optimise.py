"""The optimiser: Muon for the matrices inside the layers, AdamW for the embedding and the norms.

It owns float32 masters. The model's parameters are what a forward pass sees: copies of the masters, or in the last part of the
training the masters quantised to 4 bits. The gradient with respect to a copy moves its master, which is all that
"straight-through estimation" says.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import quantise


@dataclass(frozen=True)
class Rates:
    matrices: float = 4e-3
    embedding: float = 2e-3
    norms: float = 2e-3
    decay: float = 0.2  # per step and unit of rate, towards zero
    clip: float = 1.0


class Optimiser:
    def __init__(self, model: nn.Module, rates: Rates) -> None:
        self.rates = rates
        self._step = 0
        self._parameters = dict(model.named_parameters())
        # Matrices of one shape are one stack: one batched update instead of many small ones.
        shapes: dict[tuple[int, ...], list[str]] = {}
        for name, parameter in self._parameters.items():
            if parameter.dim() == 2 and name != "tok_embeddings.weight":
                shapes.setdefault(tuple(parameter.shape), []).append(name)
        self._stacks = [(names, self._stack(names)) for names in shapes.values()]
        single = [name for name in self._parameters if not any(name in names for names in shapes.values())]
        self._singles = {name: self._parameters[name].detach().clone() for name in single}
        self.masters: dict[str, Tensor] = dict(self._singles)
        for names, stack in self._stacks:
            self.masters |= dict(zip(names, stack.unbind(), strict=True))
        self._momenta = [torch.zeros_like(stack) for _, stack in self._stacks]
        self._moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in self._singles.items()}
        self.fake_quantise = quantise.fake_quantised

    def _stack(self, names: list[str]) -> Tensor:
        return torch.stack([self._parameters[name].detach() for name in names])

    @torch.no_grad()
    def show(self, quantised: bool) -> None:
        """Gives the model the weights it computes with."""
        for names, stack in self._stacks:
            values = self.fake_quantise(stack) if quantised else stack
            for name, value in zip(names, values.unbind(), strict=True):
                self._parameters[name].copy_(value)
        for name, weight in self._singles.items():
            self._parameters[name].copy_(self.fake_quantise(weight) if quantised and weight.dim() == 2 else weight)

    @torch.no_grad()
    def step(self, scale: float) -> None:
        """One update with all rates times `scale`, from the gradients that the parameters hold."""
        self._step += 1
        nn.utils.clip_grad_norm_(list(self._parameters.values()), self.rates.clip)
        for (names, stack), momentum in zip(self._stacks, self._momenta, strict=True):
            gradient = torch.stack([self._parameters[name].grad for name in names])
            momentum.lerp_(gradient, 0.05)
            update = orthogonal(gradient.lerp(momentum, 0.95))
            rate = self.rates.matrices * scale
            # An orthogonal update's elements are 1/sqrt(longer side); 0.2 is about an AdamW update's size.
            stack.mul_(1 - rate * self.rates.decay).add_(update, alpha=-rate * 0.2 * max(stack.shape[1:]) ** 0.5)
        for name, weight in self._singles.items():
            self._adam(name, weight, scale)

    def _adam(self, name: str, weight: Tensor, scale: float) -> None:
        gradient = self._parameters[name].grad
        first, second = self._moments[name]
        first.lerp_(gradient, 0.1)
        second.lerp_(gradient * gradient, 0.05)
        mean, spread = first / (1 - 0.9**self._step), second / (1 - 0.95**self._step)
        is_matrix = weight.dim() == 2
        rate = scale * (self.rates.embedding if is_matrix else self.rates.norms)
        # Norms are left alone by the decay: their neutral value is one.
        weight.mul_(1 - rate * (self.rates.decay if is_matrix else 0.0)).sub_(rate * mean / (spread.sqrt() + 1e-8))

    # A training run can be taken up again from here.

    def state(self) -> dict[str, object]:
        return {
            "step": self._step,
            "stacks": [stack.clone() for _, stack in self._stacks],
            "momenta": [momentum.clone() for momentum in self._momenta],
            "singles": {name: weight.clone() for name, weight in self._singles.items()},
            "moments": {name: (a.clone(), b.clone()) for name, (a, b) in self._moments.items()},
        }

    def restore(self, state: dict) -> None:
        self._step = state["step"]
        for (_, stack), saved in zip(self._stacks, state["stacks"], strict=True):
            stack.copy_(saved)
        for momentum, saved in zip(self._momenta, state["momenta"], strict=True):
            momentum.copy_(saved)
        for name, weight in self._singles.items():
            weight.copy_(state["singles"][name])
            for moment, saved in zip(self._moments[name], state["moments"][name], strict=True):
                moment.copy_(saved)


def orthogonal(matrices: Tensor) -> Tensor:
    """About the nearest orthogonal matrix to each, by five Newton-Schulz steps with the coefficients of Muon.

    They push singular values into about 0.7 to 1.2 fast instead of to 1 slowly, which does for an update.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).to(matrices.dtype)

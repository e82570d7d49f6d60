"""Programs chosen for their structure around and between the delegates."""

import torch
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import Tensor, nn
from torch.export import Dim

from ..case import Case, Method, case, exactly, f32, fill_parameters
from .function import fn

LENGTH = Dim("length", min=1, max=16)


class TwoLayers(nn.Module):
    """Big enough weights that they are worth a file of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 24)
        self.second = nn.Linear(24, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.sigmoid(self.first(x)))


class Between(nn.Module):
    """A sort, which nothing lowers, between two lowered parts."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        values, order = torch.sort(torch.sigmoid(x * y), dim=-1)
        return values * y + x, order


class MutatesInput(nn.Module):
    def forward(self, total: Tensor, x: Tensor) -> Tensor:
        total.add_(x)
        return total * 2.0


class Counter(nn.Module):
    """State in a buffer: the second call sees the first one's state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2.0


class StartedCounter(Counter):
    """A buffer whose first value is not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.total.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))


class Vision(nn.Module):
    """A vision transformer of one layer: its attention stays outside, as kernel calls between delegates."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.positions = nn.Parameter(torch.zeros(1, 4, 8))
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        q, k, v = self.qkv(self.norm(x)).reshape(1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        attention = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attention.transpose(1, 2).reshape(1, 4, 8))
        return self.head(x.mean(1))


class Branch(nn.Module):
    """Control flow: both branches are in the program, one runs."""

    def forward(self, choose: Tensor, x: Tensor) -> Tensor:
        return torch.cond(choose, lambda a: a + a, lambda a: a * a * a, [x])


class BranchAfterDelegate(Branch):
    def forward(self, choose: Tensor, x: Tensor) -> Tensor:
        return torch.sigmoid(super().forward(choose, x * x))


class Scores(nn.Module):
    """The second method of a two-method program; it shares the first one's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.body = fill_parameters(TwoLayers(), "two_methods")

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.body(x)) * 2.0


class ManyInOut(nn.Module):
    """Inputs in another order than they are used; an output that is an input; one given twice."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
        first = d - a
        return first, b, c * a, first


def two_layers() -> nn.Module:
    return fill_parameters(TwoLayers(), "two_layers")


def two_methods() -> nn.Module:
    return fill_parameters(TwoLayers(), "two_methods")


CASES: list[Case] = [
    case("two_delegates", "structure", Between, [f32(3, 9), f32(3, 9)]),
    # The first partitioner takes one operator, the second the rest: delegates and nothing between.
    case(
        "two_delegates_only",
        "structure",
        fn(lambda x, y: torch.sigmoid(x * y) + x),
        [f32(3, 9), f32(3, 9)],
        [f32(3, 9), f32(3, 9)],
        first=("aten.sigmoid.default",),
    ),
    case(
        "vision_transformer",
        "structure",
        lambda: fill_parameters(Vision(), "vision"),
        [f32(1, 3, 8, 8)],
        [f32(1, 3, 8, 8)],
    ),
    Case(
        "two_methods",
        "structure",
        {
            "encode": Method(two_methods, [[f32(2, 16)], [f32(9, 16)]], ({0: LENGTH},)),
            "score": Method(Scores, [[f32(3, 16)]]),
        },
    ),
    case("mutates_input", "structure", MutatesInput, [f32(4), f32(4)], [f32(4), f32(4)]),
    case("mutable_buffer", "structure", Counter, [f32(4)], [f32(4)], [f32(4)], vulkan={"alias_buffer_mutations": True}),
    # Without that option the exporter drops the new state: the delegate has an output that its
    # call has no argument for. Such a program is refused, so there is no case of it.
    case("mutable_buffer_portable", "structure", Counter, [f32(4)], [f32(4)], delegate=False),
    case(
        "mutable_buffer_names",
        "structure",
        Counter,
        [f32(4)],
        [f32(4)],
        delegate=False,
        backend={"emit_mutable_buffer_names": True},
    ),
    case(
        "mutable_buffer_started",
        "structure",
        StartedCounter,
        [f32(4)],
        [f32(4)],
        delegate=False,
        backend={"passes": [InitializedMutableBufferPass(["total"])]},
    ),
    case("many_in_out", "structure", ManyInOut, [f32(3, 5), f32(2), f32(3, 5), f32(3, 5)]),
    case("identity_output", "structure", fn(lambda a, b: (a, b + 1.0)), [f32(3, 5), f32(7)]),
    case(
        "constant_methods",
        "structure",
        fn(torch.relu),
        [f32(5)],
        constant_methods={
            "get_max_seq_len": 128,
            "get_eos_ids": [2, 3],
            "use_kv_cache": True,
            "get_temperature": 0.75,
            "get_name": "pteron",
        },
    ),
    case(
        "inline_delegate",
        "structure",
        fn(lambda a, b: a * b),
        [f32(3), f32(3)],
        backend={"extract_delegate_segments": False},
    ),
    case("segment_alignment_4096", "structure", two_layers, [f32(3, 16)], backend={"segment_alignment": 4096}),
    case(
        "compile_options",
        "structure",
        two_layers,
        [f32(3, 16)],
        vulkan={
            "small_texture_limits": True,
            "texture_limits": (2048, 2048, 2048),
            "skip_memory_planning": True,
            "downcast_64_bit": True,
        },
    ),
    case(
        "constants_external", "structure", two_layers, [f32(3, 16)], vulkan={"external_constants_max_data_bytes": 1700}
    ),
    case(
        "constants_external_portable",
        "structure",
        two_layers,
        [f32(3, 16)],
        delegate=False,
        backend={"external_constants": True},
    ),
    case(
        "branch",
        "structure",
        BranchAfterDelegate,
        [exactly(torch.bool, [], 1), f32(5)],
        [exactly(torch.bool, [], 0), f32(5)],
    ),
    case(
        "branch_portable",
        "structure",
        Branch,
        [exactly(torch.bool, [], 1), f32(5)],
        [exactly(torch.bool, [], 0), f32(5)],
        delegate=False,
    ),
]

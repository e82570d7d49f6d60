"""ExecuTorch's own runtime must give the goldens of the programs that it can run without a GPU."""

import json
import unittest
from pathlib import Path
from typing import Any

import numpy
import torch
from executorch.runtime import Runtime

from pteron_export.build import ROWS
from pteron_export.cases import ALL
from pteron_export.xnnpack import XNNPACK_CASES

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
OPS = FIXTURES / "ops"


def tensor(entry: dict[str, Any]) -> torch.Tensor:
    values = numpy.fromfile(OPS / entry["path"], dtype=numpy.uint8)
    return torch.from_numpy(values).view(getattr(torch, entry["dtype"])).reshape(entry["shape"])


# Where ExecuTorch's kernels are not PyTorch's: a remainder of a negative integer has its sign, gradients are added to
# whatever the memory of the output holds, and adaptive pooling is missing.
DIFFERENT = {
    "portable_arithmetic",
    "portable_images",
    "portable_pool_backward",
    "portable_pool_backward_overlap",
}


class Tables(unittest.TestCase):
    def test_no_name_is_used_twice(self) -> None:
        names = [row.name for row in ROWS]
        self.assertEqual(len(names), len(set(names)))

    def test_every_row_is_written(self) -> None:
        written = [case["name"] for case in json.loads((OPS / "manifest.json").read_text())]
        self.assertEqual(written, [case.name for case in ALL])
        written = [case["name"] for case in json.loads((FIXTURES / "xnnpack/manifest.json").read_text())]
        self.assertEqual(written, [case.name for case in XNNPACK_CASES])


class Portable(unittest.TestCase):
    def test_goldens(self) -> None:
        cases = json.loads((OPS / "manifest.json").read_text())
        # Its Python binding takes no `.ptd` beside a program.
        portable = [case for case in cases if not case["vk_ops"] and case["portable_ops"] and "ptd" not in case]
        self.assertGreater(len(portable), 10)
        for case in portable:
            if case["name"] not in DIFFERENT:
                with self.subTest(case["name"]):
                    self.run_case(case)

    def run_case(self, case: dict[str, Any]) -> None:
        program = Runtime.get().load_program((OPS / case["pte"]).read_bytes())
        method = program.load_method("forward")
        for number, call in enumerate(case["calls"]):
            outputs = method.execute([tensor(entry) for entry in call["inputs"]])
            self.assertEqual(len(outputs), len(call["goldens"]))
            for golden in call["goldens"]:
                found, expected = outputs[golden["output_index"]], tensor(golden)
                close = torch.isclose(found, expected, atol=case["atol"], rtol=case["rtol"])
                self.assertEqual(found.shape, expected.shape)
                self.assertTrue(bool(close.all()), f"call {number}: {found} is not {expected}")


if __name__ == "__main__":
    unittest.main()

"""The README's example with the wheel and nothing else: neither torch nor numpy.

    python check.py README.md

In the current folder, model.pte adds two tensors and llama is a language model.
"""

import array
import importlib.util
import math
import sys

for name in ("torch", "numpy", "executorch"):
    assert importlib.util.find_spec(name) is None, f"{name} is installed here"


def ones(*shape):
    """Anything with the buffer protocol is an input."""
    return memoryview(array.array("f", [1.0] * math.prod(shape))).cast("B").cast("f", shape)


with open(sys.argv[1], encoding="utf-8") as file:
    blocks = [block.split("```")[0] for block in file.read().split("```python\n")[1:]]
assert blocks, "the README has no example in Python"
names = {"x": ones(2, 3, 5), "y": ones(3, 1)}
for block in blocks:
    exec(compile(block, sys.argv[1], "exec"), names)
print()
[output] = names["outputs"]
assert output.tolist() == [[[2.0] * 5] * 3] * 2, output.tolist()
print(f"{len(blocks)} examples of the README run, the sum of ones is right")

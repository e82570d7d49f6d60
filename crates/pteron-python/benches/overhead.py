"""Measures what a call from Python costs besides the same call in Rust.

The native library times the Rust call itself, inputs converted and the GIL released. The rest of `Method.execute` is the
overhead: Python's own calls, the conversion of inputs and outputs, and the GIL.

    python benches/overhead.py ../../fixtures/ops/add_broadcast/program.pte
"""

import statistics
import sys
import time

import numpy as np
from pteron.runtime import Runtime

TYPES = {6: np.float32, 4: np.int64, 3: np.int32, 11: np.bool_}


def overhead(path, calls, convert=lambda array: array):
    """Seconds that each call of `forward` takes besides the call in Rust, with ones as inputs."""
    method = Runtime.get().load_program(path).load_method("forward")
    native = method._method._method
    meta = method.metadata
    infos = [meta.input_tensor_meta(index) for index in range(meta.num_inputs())]
    inputs = [convert(np.ones(info.sizes(), TYPES[info.dtype()])) for info in infos]
    for _ in range(10):
        method.execute(inputs)
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        method.execute(inputs)
        seconds.append(time.perf_counter() - start - native.seconds_in_rust())
    return seconds


def report(name, seconds):
    """Prints the median and the spread."""
    ordered = [one * 1e6 for one in sorted(seconds)]
    tenth, ninetieth = ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]
    print(f"{name}: median {statistics.median(ordered):.1f} µs; 10 % are below {tenth:.1f}, 10 % above {ninetieth:.1f}")


def main():
    """Measures with numpy, and with torch where it is installed."""
    path = sys.argv[1]
    report("numpy", overhead(path, 2000))
    try:
        import torch
    except ImportError:
        return
    report("torch", overhead(path, 2000, torch.from_numpy))


if __name__ == "__main__":
    main()

"""Threads, children of a process, and the time that a call and an import take."""

import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pteron.errors import ForkError
from pteron.runtime import Runtime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benches"))

from overhead import overhead


@pytest.fixture(scope="module")
def method(fixtures):
    return Runtime.get().load_program(fixtures / "ops/add_broadcast/program.pte").load_method("forward")


def call(path):
    """Runs in a child."""
    method = Runtime.get().load_program(path).load_method("forward")
    return float(method.execute([np.ones((2, 3, 5), np.float32), np.ones((3, 1), np.float32)])[0].sum())


def test_1000_calls_of_16_threads_agree(method):
    errors = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(1000 // 16 + 1):
            left = generator.random((2, 3, 5), np.float32)
            right = generator.random((3, 1), np.float32)
            if not np.array_equal(method.execute([left, right])[0], left + right):
                errors.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_spawned_children_compute(method, fixtures):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(call, (str(fixtures / "ops/add_broadcast/program.pte"),)) == 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_use_after_fork_raises(method, fixtures):
    inputs = [np.ones((2, 3, 5), np.float32), np.ones((3, 1), np.float32)]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                method.execute(inputs)
            except ForkError as error:
                assert "spawn" in str(error)
                program = Runtime.get().load_program(fixtures / "ops/add_broadcast/program.pte")
                try:
                    program.load_method("forward")
                except ForkError:
                    status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert method.execute(inputs)


def test_the_gil_is_released_while_the_gpu_works(llm):
    counted, done = 0, threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before, start = counted, time.perf_counter()
    llm.session().logits("A thread is a unit of execution. " * 40)
    seconds, counted_meanwhile = time.perf_counter() - start, counted - before
    done.set()
    thread.join()
    # With the GIL held, the other thread would have counted once or twice.
    assert counted_meanwhile > min(20, seconds * 50), f"{counted_meanwhile} in {seconds:.3f} s"


def test_importing_opens_nothing_and_is_quick():
    script = """
import sys, time
start = time.perf_counter()
import pteron, pteron.runtime
seconds = time.perf_counter() - start
assert not {"numpy", "torch", "asyncio", "ctypes"} & set(sys.modules), "imports too much"
print(seconds)
"""
    run = lambda: subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60).stdout  # noqa: E731
    assert min(float(run()) for _ in range(3)) < 1


def test_a_call_adds_microseconds_to_that_of_rust(fixtures):
    seconds = overhead(fixtures / "ops/add_broadcast/program.pte", 200)
    # A release build on an idle machine takes less than 20 µs, see benches/overhead.py. This one is neither.
    assert statistics.median(seconds) < 1e-3

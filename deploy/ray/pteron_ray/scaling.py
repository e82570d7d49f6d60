"""Scaling by the queues of the engines, as `/metrics` shows them."""

import math
import re

from ray.serve.config import AutoscalingContext

METRICS = {
    "waiting": "vllm:num_requests_waiting",
    "running": "vllm:num_requests_running",
}


def queue(metrics: str) -> dict[str, float]:
    """Requests that wait and run in a replica, of all its models, from the text of its metrics."""
    sums = dict.fromkeys(METRICS, 0.0)
    for short, name in METRICS.items():
        for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", metrics, re.MULTILINE):
            sums[short] += float(value)
    return sums


class QueuePolicy:
    """As many replicas as it takes for each to have `target` requests, running or waiting."""

    def __init__(self, target: float):
        self.target = target

    def __call__(self, context: AutoscalingContext) -> tuple[float, dict]:
        metrics = context.aggregated_metrics or {}
        inside = sum(sum(metrics.get(name, {}).values()) for name in METRICS)
        # Those that no replica takes, because each has what it can run, wait at the gateway.
        wanted = (inside + context.total_queued_requests) / self.target
        return math.ceil(wanted), {}

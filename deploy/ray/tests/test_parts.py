"""Routing and scaling, without a cluster."""

import json
from types import SimpleNamespace

import pytest
from pteron_ray.prefix import BLOCK, MOST_BLOCKS, Owners, blocks, text_of
from pteron_ray.replica import without_connection
from pteron_ray.scaling import QueuePolicy, queue


def test_beginnings_are_shared_as_far_as_texts_are() -> None:
    same, other = "a" * BLOCK, "b" * BLOCK
    first, second = blocks(same + same + other), blocks(same + same + same)
    assert len(first) == len(second) == 3
    assert first[:2] == second[:2] and first[2] != second[2]
    assert blocks("a" * (BLOCK - 1)) == []
    assert len(blocks("a" * BLOCK * 2 * MOST_BLOCKS)) == MOST_BLOCKS


@pytest.mark.parametrize(
    "request_body",
    [
        {"messages": [{"role": "user", "content": "x" * 999}]},
        {"prompt": "x" * 999},
        {"input": "x" * 999},
        {"system": "x" * 999, "messages": []},
    ],
)
def test_every_api_has_a_text_to_route_by(request_body: dict) -> None:
    options = {"temperature": 0.5, "max_tokens": 3, "stream": True}
    found = blocks(text_of(json.dumps(request_body).encode()))
    assert found
    assert found == blocks(text_of(json.dumps(options | request_body).encode()))


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"[1]", b"3", b"{}", b'{"messages": 3}']
)
def test_requests_of_any_form_are_routed(body: bytes) -> None:
    assert blocks(text_of(body)) == []


def test_the_owner_of_the_longest_beginning_is_found_while_it_lives() -> None:
    owners = Owners(most=3)
    owners.note(["a", "ab"], "one")
    owners.note(["a", "ac"], "two")
    assert owners.find(["a", "ab", "abc"], ["one", "two"]) == "one"
    assert owners.find(["a", "ad"], ["one", "two"]) == "two"
    assert owners.find(["a", "ab"], ["two"]) == "two"
    assert owners.find(["x"], ["one", "two"]) is None
    owners.note(["n"], "one")
    assert owners.find(["ab"], ["one"]) is None, "the oldest is forgotten"


METRICS = """# HELP vllm:num_requests_waiting As pteron_requests_waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="a"} 3
vllm:num_requests_waiting{model_name="b \\" } 9"} 2
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="a"} 4
vllm:num_requests_running_total{model_name="a"} 400
"""


def test_the_queue_is_that_of_all_models() -> None:
    assert queue(METRICS) == {"waiting": 5, "running": 4}
    assert queue("") == {"waiting": 0, "running": 0}


@pytest.mark.parametrize(
    ("waiting", "running", "outside", "replicas"),
    [(0, 0, 0, 0), (0, 4, 0, 1), (1, 4, 0, 2), (0, 4, 9, 4)],
)
def test_replicas_follow_the_queue(
    waiting: int, running: int, outside: int, replicas: int
) -> None:
    metrics = {"waiting": {"r1": waiting, "r2": 0}, "running": {"r1": running}}
    context = SimpleNamespace(aggregated_metrics=metrics, total_queued_requests=outside)
    assert QueuePolicy(4)(context) == (replicas, {})
    context = SimpleNamespace(aggregated_metrics=None, total_queued_requests=outside)
    assert QueuePolicy(4)(context)[0] == -(-outside // 4)


def test_headers_of_connections_stay_behind() -> None:
    headers = [("Connection", "close"), ("Content-Type", "a"), ("X-Request-Id", "b")]
    assert without_connection(headers) == headers[1:]

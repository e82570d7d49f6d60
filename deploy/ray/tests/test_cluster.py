"""A local Ray cluster with replicas of the bundled model."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

WAIT = 120
COMPLETION = {"prompt": "A thread is", "max_tokens": 8, "temperature": 0}
LONG = {"prompt": "A thread is", "max_tokens": 300, "ignore_eos": True}


def wait_for(what: str, condition: Callable[[], bool], seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.2)


def complete(url: str, **more: object) -> requests.Response:
    return requests.post(f"{url}/v1/completions", json=COMPLETION | more, timeout=WAIT)


def stream(url: str, **more: object) -> requests.Response:
    body = LONG | {"stream": True} | more
    return requests.post(f"{url}/v1/completions", json=body, stream=True, timeout=WAIT)


def events(answer: requests.Response) -> Iterator[dict | str]:
    for line in answer.iter_lines(decode_unicode=True):
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else json.loads(data)


def processes(app: str, count: int) -> set[int]:
    """The processes of all replicas. Each question goes to one of them."""
    from ray import serve
    from ray.exceptions import RayError

    handle = serve.get_deployment_handle("Pteron", app).options(method_name="process")
    found: set[int] = set()

    def all_found() -> bool:
        try:
            found.add(handle.remote().result(timeout_s=5))
        except (RayError, TimeoutError):
            found.clear()
        return len(found) >= count

    wait_for(f"{count} replicas", all_found)
    return found


def running(app: str) -> int:
    from ray import serve

    deployment = serve.status().applications[app].deployments["Pteron"]
    states = {
        str(getattr(state, "value", state)): n
        for state, n in deployment.replica_states.items()
    }
    return states.get("RUNNING", 0)


@pytest.fixture(scope="module")
def pair(cluster: Callable[..., str]) -> Iterator[str]:
    from ray import serve

    url = cluster("pair", min_replicas=2, max_replicas=2, max_sequences=4)
    yield url
    serve.delete("pair")


def test_answers_and_streams_are_those_of_the_server(pair: str) -> None:
    whole = complete(pair)
    assert whole.status_code == 200 and whole.json()["usage"]["completion_tokens"] == 8
    assert whole.headers["content-type"] == "application/json"
    assert whole.headers["x-request-id"].startswith("req_")
    answer = stream(pair, max_tokens=8, temperature=0)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *chunks, done = events(answer)
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    assert (text, done) == (whole.json()["choices"][0]["text"], "[DONE]")
    refused = complete(pair, temperature=9)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "temperature"
    assert (
        requests.get(f"{pair}/v1/models", timeout=WAIT).json()["data"][0]["id"]
        == "bundled"
    )


def test_tokens_arrive_one_after_another(pair: str) -> None:
    times = [time.monotonic() for _ in events(stream(pair, max_tokens=60))]
    assert len(times) > 30 and times[len(times) // 2] < times[-1] - 0.02


def cancelled(url: str) -> int:
    """The largest count of any replica that answers."""
    texts = [requests.get(f"{url}/metrics", timeout=WAIT).text for _ in range(6)]
    found = [
        re.findall(r"^pteron_texts_cancelled_total\{.*\} (\d+)", text, re.MULTILINE)
        for text in texts
    ]
    return max(int(number) for numbers in found for number in numbers)


def test_a_client_that_leaves_cancels_its_request(pair: str) -> None:
    before = cancelled(pair)
    answer = stream(pair)
    next(events(answer))
    answer.close()
    wait_for("the cancellation", lambda: cancelled(pair) > before, 30)


def test_requests_with_the_same_beginning_meet_the_same_cache(pair: str) -> None:
    for number in range(6):
        prompt = f"Chapter {number}. " + f"Word {number} of many. " * 17
        first, second = (
            complete(pair, prompt=prompt + end).json() for end in ("A", "B")
        )
        cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached >= 32, (number, first["usage"], second["usage"])


def test_one_of_two_replicas_is_killed_and_requests_go_on(pair: str) -> None:
    before = processes("pair", 2)
    stop, statuses = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            statuses.append(complete(pair).status_code)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    wait_for("requests", lambda: len(statuses) > 8)
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    asked = len(statuses)
    wait_for("requests after the kill", lambda: len(statuses) > asked + 20)
    wait_for("a new replica", lambda: len(processes("pair", 2) - {killed}) == 2)
    stop.set()
    for asker in askers:
        asker.join()
    assert set(statuses) == {200}


def test_replicas_are_added_and_removed_with_the_queue(
    cluster: Callable[..., str], pair: str
) -> None:
    from ray import serve

    serve.delete("pair")
    delays = {"upscale_delay_s": 1, "downscale_delay_s": 3, "look_back_period_s": 3}
    url = cluster("scaled", max_replicas=2, max_sequences=4, target=3, **delays)
    assert running("scaled") == 1
    with ThreadPoolExecutor(12) as clients:
        stop = threading.Event()

        def ask() -> set[int]:
            found = set()
            while not stop.is_set():
                found.add(complete(url, max_tokens=100, ignore_eos=True).status_code)
            return found

        asked = [clients.submit(ask) for _ in range(12)]
        wait_for("a second replica", lambda: running("scaled") == 2)
        stop.set()
        assert {status for result in asked for status in result.result()} == {200}

    # A stream runs while one of the two is removed, and on until the application itself is.
    answer = stream(url)
    found = events(answer)
    next(found)
    wait_for("one replica", lambda: running("scaled") == 1)
    assert list(found)[-1] == "[DONE]"
    answer = stream(url)
    found = events(answer)
    next(found)
    removal = threading.Thread(target=serve.delete, args=["scaled"])
    removal.start()
    assert list(found)[-1] == "[DONE]"
    removal.join()

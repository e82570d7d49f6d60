"""`python -m pytest deploy/ray/tests --pteron path/to/pteron`"""

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parents[1])
sys.path.insert(0, FOLDER)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pteron", help="path of the command, for the tests with a cluster"
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Starts a local cluster, and returns what deploys an application with these options and returns its URL."""
    pteron = request.config.getoption("--pteron")
    assert pteron, "the tests with a cluster need --pteron path/to/pteron"
    import ray
    from pteron_ray.app import Options, build
    from ray import serve

    environment = {"env_vars": {"PYTHONPATH": FOLDER}}
    ray.init(num_cpus=8, include_dashboard=False, runtime_env=environment)
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})

    def deploy(name: str, **options: object) -> str:
        path = str(Path(pteron).resolve())
        options = {"gpus": 0, "cpus": 0.5, "pteron": path} | options
        serve.run(build(Options(**options)), name=name, route_prefix="/")
        return f"http://127.0.0.1:{port}"

    yield deploy
    serve.shutdown()
    ray.shutdown()

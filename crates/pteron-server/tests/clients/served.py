"""`pteron serve`, started and stopped for a check."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KEY = "secret"


@contextmanager
def served(pteron: str, *options: str, env: dict | None = None) -> Iterator[str]:
    """Serves the bundled model on a free port, with a key. The server must end well after SIGTERM."""
    command = [pteron, "serve", "--port", "0", "--api-key", KEY, *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    try:
        lines = iter(server.stderr.readline, "")
        address = next(
            line.split("http://")[1].split(": ")[0]
            for line in lines
            if "http://" in line
        )
        assert any("model loaded" in line for line in lines)
        # Nobody reads the events from here on, but a full pipe would stop the server.
        threading.Thread(target=lambda: list(lines), daemon=True).start()
        yield f"http://{address}"
        server.send_signal(signal.SIGTERM)
        status = server.wait(60)
        assert status == 0, f"the server ended with status {status}"
    finally:
        server.kill()

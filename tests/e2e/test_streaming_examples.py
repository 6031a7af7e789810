"""The streaming programs that PySpark's package ships run under capture as they are, and print what they print without it."""

from __future__ import annotations

import os
import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.same.shipped import PROGRAMS, SETTINGS
from tests.support.job_runs import CLI, applications, process, run_captured, traced_items, verify
from tests.support.writer_process import wait_until

pytestmark = pytest.mark.e2e

LINES = "apple pear apple\nfig pear apple\n"
SQL, RDDS = "sql/streaming/structured_network_wordcount", "streaming"
HOST_PORT = ("HOST", "PORT")
COUNTED = {
    # Rows of tables, in which the session of all words is the last thing that is printed.
    f"{SQL}.py": (HOST_PORT, r"\|\s*apple\|\s*3\|"),
    f"{SQL}_windowed.py": ((*HOST_PORT, "10", "5"), r"\|\s*apple\|\s*3\|"),
    f"{SQL}_session_window.py": (HOST_PORT, r"\|\s*apple\|\s*3\|"),
    "sql/streaming/structured_sessionization.py": (HOST_PORT, r"\|\s*apple\|.*\|\s*3\|"),
    f"{RDDS}/network_wordcount.py": (HOST_PORT, r"\('apple', 3\)"),
    f"{RDDS}/stateful_network_wordcount.py": (HOST_PORT, r"\('apple', 3\)"),
    f"{RDDS}/sql_network_wordcount.py": (HOST_PORT, r"\|\s*apple\|\s*3\|"),
    f"{RDDS}/recoverable_network_wordcount.py": (
        (*HOST_PORT, "checkpoint", "out"),
        r"\('apple', 3\)",
    ),
}


class _Lines(socketserver.BaseRequestHandler):
    """Sends the lines to each who connects, and keeps the connection."""

    def handle(self) -> None:
        self.request.sendall(LINES.encode())
        self.request.recv(1)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def lines_served() -> Iterator[int]:
    """A port that has the lines."""
    with _Server(("127.0.0.1", 0), _Lines) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def program_in(folder: Path, name: str) -> str:
    """A copy: what lies in PySpark's own folder is not taken for a program of the user's."""
    path = folder / Path(name).name
    path.write_bytes((PROGRAMS / name).read_bytes())
    return path.name


def settings() -> dict[str, str]:
    submit = " ".join(f"--conf {setting}" for setting in SETTINGS)
    return {"PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell", "PYTHONUNBUFFERED": "1"}


def printed(folder: Path, name: str, launcher: list[str]) -> str:
    """What a program has printed once it has counted all words."""
    folder.mkdir()
    arguments, pattern = COUNTED[name]
    log = folder / "log"
    with lines_served() as port:
        given = {"HOST": "127.0.0.1", "PORT": str(port)}
        words = [given.get(word, word) for word in arguments]
        command = [*launcher, program_in(folder, name), *words]
        with process(command, log, settings() | {"PYSPARK_PYTHON": sys.executable}):
            wait_until(lambda: bool(re.search(pattern, log.read_text())), pattern, 240)
    found = re.search(pattern, log.read_text())
    assert found is not None
    return re.sub(r"\d{4}-[-\d: .]+|\s+", " ", found[0])


@pytest.mark.long
@pytest.mark.parametrize("name", list(COUNTED))
def test_programs_print_what_they_print_without_capture(name: str, tmp_path: Path) -> None:
    if not (PROGRAMS / name).exists():
        pytest.skip("this version of PySpark does not ship it")
    plain = printed(tmp_path / "plain", name, [sys.executable])
    captured = printed(tmp_path / "captured", name, [*CLI, "run", "--quiet", "--no-session"])
    assert re.sub(r"\d+ \|", "|", captured) == re.sub(r"\d+ \|", "|", plain)


@pytest.mark.long
def test_streams_of_rdds_are_captured(tmp_path: Path) -> None:
    name = "streaming/queue_stream.py"
    done = run_captured(tmp_path, program_in(tmp_path, name), env=dict(os.environ) | settings())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(0, 100)") == done.stdout.count("(9, 100)") >= 1
    verdict = verify(tmp_path)
    assert verdict["complete"], verdict["reasons"]
    (app,) = (one["app"] for one in applications(tmp_path))
    # The first batch has the numbers from 1 to 1,000, by what is left when they are divided by ten.
    assert len(traced_items(tmp_path, app, "take#0#0")) == 100

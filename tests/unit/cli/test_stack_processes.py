import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lineage.stack import processes
from lineage.stack.processes import Process

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)",
]

pytestmark = pytest.mark.unit

Start = Callable[[list[str]], Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program, and waits until it says that it is up."""
    started: list[Process] = []

    def start_one(command: list[str]) -> Process:
        log = tmp_path / f"{len(started)}.log"
        process = processes.start(command, environment={}, folder=tmp_path, log=log)
        started.append(process)
        wait_for(lambda: "up" in log.read_text())
        return process

    yield start_one
    for process in started:
        process.kill()


def wait_for(condition: Callable[[], bool], limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_is_found_again_by_its_pid_file(start: Start, tmp_path: Path) -> None:
    process = start(SLEEP)
    processes.save(process, tmp_path / "pid")
    found = processes.load(tmp_path / "pid")
    assert found == process
    assert found.is_running()
    assert found.stop(limit_s=60)
    assert not process.is_running()
    assert [file.name for file in tmp_path.glob("pid*")] == ["pid"]


def test_a_recycled_pid_is_left_alone(start: Start) -> None:
    stranger = start(SLEEP)
    earlier = Process(stranger.pid, "another boot:1")
    assert not earlier.is_running()
    assert not earlier.send(signal.SIGKILL)
    assert earlier.kill()
    assert earlier.stop(limit_s=1)
    assert stranger.is_running()


@pytest.mark.parametrize(
    "text", ["", "123", "{}", '{"pid": "x", "started": "y"}', "[]", '{"pid": 1']
)
def test_an_unreadable_pid_file_names_no_process(text: str, tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(text)
    assert processes.load(tmp_path / "pid") is None
    assert processes.load(tmp_path / "missing") is None


def test_a_process_that_ignores_sigterm_is_killed(start: Start) -> None:
    process = start(STUBBORN)
    assert not process.stop(limit_s=0.2)
    assert not process.is_running()


def test_kill_takes_what_the_process_started_with_it(start: Start, tmp_path: Path) -> None:
    child = "import os, time; open('child', 'w').write(str(os.getpid())); time.sleep(600)"
    parent = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]); "
        "print('up', flush=True); sys.stdin.read(); import time; time.sleep(600)"
    )
    process = start([sys.executable, "-c", parent])
    file = tmp_path / "child"
    wait_for(lambda: file.exists() and file.read_text().isdigit())
    pid = int(file.read_text())
    started = processes.start_of(pid)
    assert started
    assert process.kill()
    assert Process(pid, started).wait(60)


def test_a_session_of_its_own_outlives_the_terminal(start: Start) -> None:
    process = start(SLEEP)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_a_child_that_ended_does_not_run_though_nobody_waited_for_it(tmp_path: Path) -> None:
    process = processes.start(
        [sys.executable, "-c", "pass"], environment={}, folder=tmp_path, log=tmp_path / "log"
    )
    assert process.wait(60)
    assert not process.send(signal.SIGTERM)


def test_environment_and_folder_reach_the_process(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = tmp_path / "log"
    log.write_text("earlier\n")
    process = processes.start(
        [sys.executable, "-c", "import os; print(os.environ['WORD'], os.getcwd())"],
        environment={"WORD": "told"},
        folder=folder,
        log=log,
    )
    assert process.wait(60)
    assert log.read_text().splitlines() == ["earlier", f"told {folder}"]


def test_a_long_log_is_set_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOG_BYTES_MAX", 3)
    log = tmp_path / "log"
    for word in ("one", "two", "three"):
        command = [sys.executable, "-c", f"print({word!r})"]
        processes.start(command, environment={}, folder=tmp_path, log=log).wait(60)
    assert log.read_text() == "three\n"
    assert (tmp_path / "log.1").read_text() == "two\n"

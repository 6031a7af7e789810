"""``lineage run job.py``: the program is as it would be on its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.job_runs import (
    applications,
    contents,
    lineage,
    run_captured,
    run_plain,
    traced,
    verify,
    write_job,
)

pytestmark = pytest.mark.e2e


# -- programs without Spark ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('no input today')", 1),
        ("raise SystemExit(True)", 1),
        ("raise ValueError('bad')", 1),
        ("x = (1,\n", 1),
    ],
)
def test_exit_code_and_streams_are_the_programs_own(
    tmp_path: Path, statement: str, code: int
) -> None:
    write_job(tmp_path, f"print('out', flush=True)\n{statement}\n")
    plain, captured = run_plain(tmp_path, "job.py"), run_captured(tmp_path, "job.py")
    assert plain.returncode == code
    assert (captured.returncode, captured.stdout) == (plain.returncode, plain.stdout)
    assert captured.stderr == plain.stderr


def test_a_traceback_has_no_frames_of_ours(tmp_path: Path) -> None:
    write_job(
        tmp_path,
        """
        def inner():
            try:
                {}["key"]
            except KeyError as missing:
                raise RuntimeError("no key") from missing

        inner()
        """,
    )
    plain, captured = run_plain(tmp_path, "job.py"), run_captured(tmp_path, "job.py")
    assert captured.returncode == plain.returncode == 1
    assert "RuntimeError: no key" in captured.stderr
    assert captured.stderr == plain.stderr


def test_a_program_that_a_signal_ends_gives_the_shells_code(tmp_path: Path) -> None:
    write_job(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert run_plain(tmp_path, "job.py").returncode == -signal.SIGKILL
    assert run_captured(tmp_path, "job.py").returncode == 128 + signal.SIGKILL


def test_the_program_sees_itself_as_python_would_show_it(tmp_path: Path) -> None:
    write_job(tmp_path, "NAME = __name__", "tools/sibling.py")
    (tmp_path / "tools" / "link.py").symlink_to("job.py")
    write_job(
        tmp_path,
        '''
        """What the program is for."""
        import inspect, json, sys
        import sibling

        count: int = 1

        def function():
            return 1

        import __main__
        print(json.dumps({
            "argv": sys.argv,
            "name": __name__,
            "file": __file__,
            "doc": __doc__,
            "path": sys.path[0],
            "annotations": repr(__annotations__),
            "builtins": repr(__builtins__),
            "spec": repr(__spec__),
            "package": repr(__package__),
            "main": __main__.count,
            "names": sorted(globals()),
            "source": inspect.getsource(function),
            "sibling": sibling.NAME,
            "executable": sys.executable,
        }, indent=1))
        ''',
        "tools/job.py",
    )
    for job in ("tools/job.py", "tools/link.py", str(tmp_path / "tools/job.py")):
        words = (job, "--date", "2013-01-01", "a b", "")
        plain, captured = run_plain(tmp_path, *words), run_captured(tmp_path, *words)
        assert plain.returncode == captured.returncode == 0, captured.stderr
        assert json.loads(captured.stdout) == json.loads(plain.stdout)


def test_threads_of_the_program_are_waited_for(tmp_path: Path) -> None:
    write_job(
        tmp_path,
        """
        import atexit, threading
        main_ends = threading.Event()
        atexit.register(print, "exit")

        def work():
            main_ends.wait()
            print("thread")

        threading.Thread(target=work).start()
        print("main")
        main_ends.set()
        """,
    )
    captured = run_captured(tmp_path, "job.py")
    assert captured.stdout == run_plain(tmp_path, "job.py").stdout == "main\nthread\nexit\n"


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    captured = run_captured(tmp_path, "nowhere.py")
    assert captured.returncode == run_plain(tmp_path, "nowhere.py").returncode == 2
    assert "nowhere.py" in captured.stderr
    assert "Traceback" not in captured.stderr


def test_no_spark_at_all_is_said(tmp_path: Path) -> None:
    write_job(tmp_path, "print(1)\n")
    result = lineage(tmp_path, "run", "job.py")
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert "nothing was captured" in result.stderr
    assert not (tmp_path / ".lineage").exists()

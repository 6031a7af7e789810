"""Logs that tasks of MapReduce leave: what they can't vouch for counts for nothing, and the verdict says why."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lineage import LineageApi
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_emitter.sdk.mapreduce_adapter import (
    LEFT_REASON,
    MAP_REASON,
    NAMES_REASON,
    ORDER_REASON,
    run_streaming,
)
from lineage_store.checksums import sha256_of
from tests.support.job_runs import CLI, STORE, ask, checksums, judged, run_program, verify

pytestmark = pytest.mark.integration

HADOOP = """
import json, os, sys
os.mkdir("out")
for name, text in json.load(open("left.json")).items():
    open(os.path.join("out", name), "w").write(text)
"""
"""A command that leaves what a job would leave."""


LINES = ["a", "b", "a"]
"""The lines of the one split: each makes a record whose key it is."""


def log(events: list[str], **end: Any) -> str:
    fields = {
        "rows": 0,
        "attempt": "0",
        "split": None,
        "is_changed": False,
        "is_of_output": True,
        "is_superset": False,
        "is_sorted": True,
        "given": {},
    }
    return "".join(f"{event}\n" for event in events) + json.dumps(fields | end)


def reducer_log(events: list[str], **end: Any) -> str:
    """The log of a reducer: what it counts agrees with its events."""
    count = {kind: sum(int(e.split("\t")[1]) for e in events if e[0] == kind) for kind in "io"}
    return log(events, **{"rows": count["o"], "given": {"0.0": count["i"]}, **end})


def left_by_job(folder: Path, **changes: str) -> dict[str, str]:
    """What a job leaves over three lines of one split: two keys, one line of output each."""
    text = folder / "in.txt"
    text.write_text("".join(f"{line}\n" for line in LINES))
    state = text.stat()
    split = {
        "path": f"file:{text}",
        "start": 0,
        "length": 6,
        "file_size": 6,
        "mtime": state.st_mtime_ns // 1_000_000 / 1000,
    }
    return {
        "_lineage-m-00000": log(["l\t0\t1,1,1", *LINES], rows=3, split=split, is_of_output=False),
        "_lineage-r-00000": reducer_log(["i\t2\ta", "o\t1\ta", "i\t1\tb", "o\t1\tb"]),
        "part-00000": "a\t2\nb\t1\n",
        **changes,
    }


def with_events(folder: Path, *events: str) -> dict[str, str]:
    """The same, where the mapper logged other events."""
    left = left_by_job(folder)
    end = json.loads(left["_lineage-m-00000"].rpartition("\n")[2])
    return left | {"_lineage-m-00000": log(list(events), **end)}


def judge_job(folder: Path, monkeypatch: pytest.MonkeyPatch, left: dict[str, str]) -> Verdict:
    monkeypatch.chdir(folder)
    (folder / "left.json").write_text(json.dumps(left))
    (folder / "hadoop.py").write_text(HADOOP)
    command = [sys.executable, "hadoop.py", "streaming", "-input", "in.txt", "-output", "out"]
    command += ["-mapper", "cat", "-reducer", "cat"]
    store = f"sqlite:///{folder / STORE}"
    with LineageApi("job", app="job", store=store, spool=str(folder / "spool")) as api:
        assert run_streaming(api, command, named_keys=True) == 0
    return judged(folder, api.app)


def found(folder: Path, line: int, part: str = "part-00000") -> tuple[set[str], bool]:
    answer = ask(folder, Direction.BACKWARD, f"{folder / 'out' / part}:{line}")
    items = {Path(item.location or "").name for group in answer.groups for item in group.items}
    return items, answer.exact


def test_lines_are_paired_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge_job(tmp_path, monkeypatch, left_by_job(tmp_path))
    assert (verdict.complete, verdict.reasons, verdict.superset) == (True, (), {})
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"part-00000"}
    assert found(tmp_path, 1) == ({"in.txt:1", "in.txt:3"}, True)
    assert found(tmp_path, 2) == ({"in.txt:2"}, True)
    texts = {"in.txt": b"a\nb\na\n", "part-00000": b"a\t2\nb\t1\n"}
    sums = {name: sha256_of([text]) for name, text in texts.items()}
    assert checksums(tmp_path, "job") == sums


def test_keys_that_come_in_turns_and_records_without_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A comparator may call different keys equal.
    events = ["i\t1\ta", "i\t1\tb", "i\t2\ta", "o\t1\tb", "o\t1\ta", "i\t1\tc"]
    left = with_events(tmp_path, "-\t0\t2", "c", "a", "l\t0\t1,1,1", *LINES)
    # A reducer may write a line for each turn of a key.
    left["_lineage-r-00000"] = reducer_log(events, is_sorted=False)
    verdict = judge_job(tmp_path, monkeypatch, left)
    assert (verdict.complete, verdict.superset) == (True, {"write": (ORDER_REASON,)})
    assert found(tmp_path, 1) == ({"in.txt:2"}, False)
    assert found(tmp_path, 2) == ({"in.txt:1", "in.txt:3"}, False)


def test_a_line_that_names_no_key_makes_all_of_its_task_supersets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = ["i\t2\ta", "o\t1\ta", "i\t1\tb", "o\t1\ttotal"]
    left = left_by_job(tmp_path, **{"_lineage-r-00000": reducer_log(events)})
    verdict = judge_job(tmp_path, monkeypatch, left)
    assert verdict.superset == {"write": (NAMES_REASON,)}
    assert found(tmp_path, 1) == ({"in.txt:1", "in.txt:3"}, False)
    assert found(tmp_path, 2) == ({"in.txt:1", "in.txt:2", "in.txt:3"}, False)


def test_a_reducer_that_ends_early_may_have_used_fewer_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = ["i\t1\ta", "o\t1\ta"]
    changes = {"_lineage-r-00000": reducer_log(events), "part-00000": "a\t1\n"}
    verdict = judge_job(tmp_path, monkeypatch, left_by_job(tmp_path, **changes))
    assert verdict.superset == {"write": (LEFT_REASON,)}
    assert found(tmp_path, 1) == ({"in.txt:1", "in.txt:3"}, False)


def test_a_key_that_a_reducer_was_given_none_of_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another reducer was given it.
    changes = {
        "_lineage-r-00000": reducer_log(["i\t2\ta", "o\t1\tb"]),
        "_lineage-r-00001": reducer_log(["i\t1\tb", "o\t1\tb"]),
        "part-00000": "b\t2\n",
        "part-00001": "b\t1\n",
    }
    verdict = judge_job(tmp_path, monkeypatch, left_by_job(tmp_path, **changes))
    assert verdict.superset == {"write": (NAMES_REASON,)}
    assert found(tmp_path, 1) == ({"in.txt:1", "in.txt:3"}, False)


def test_records_of_several_lines_are_supersets_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = with_events(tmp_path, "l\t0\t1", "a", "~\t1\t1", "b", "l\t2\t1", "a")
    left["_lineage-r-00001"] = reducer_log(["i\t1\tb", "o\t1\tb"])
    left["_lineage-r-00000"] = reducer_log(["i\t2\ta", "o\t1\ta"])
    left |= {"part-00000": "a\t2\n", "part-00001": "b\t1\n"}
    verdict = judge_job(tmp_path, monkeypatch, left)
    assert verdict.superset == {"write": (MAP_REASON,)}
    assert found(tmp_path, 1) == ({"in.txt:1", "in.txt:3"}, True)
    assert found(tmp_path, 1, "part-00001") == ({"in.txt:1", "in.txt:2"}, False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"part-00000": "a\t2\nb\t1\nmore\n"}, "left no log of its 3 lines"),
        ({"_lineage-r-00001": "", "_lineage-r-00000": log([], rows=1)}, "logs of tasks"),
        (
            {"_lineage-r-00000": reducer_log(["i\t2\ta", "o\t2\ta"], given={"0.1": 2})},
            "attempt 0.1 at a map task left no log",
        ),
        (
            {"_lineage-r-00000": reducer_log(["i\t2\ta", "o\t2\ta"], given={"0.0": 3})},
            "counts its records in two ways",
        ),
        (
            {"_lineage-r-00000": reducer_log(["i\t3\ta", "o\t2\ta"])},
            "counts records that no mapper logged",
        ),
        (
            {"_lineage-r-00000": reducer_log(["i\t2\ta", "o\t1\ta"], rows=2)},
            "counts 1 lines, not 2",
        ),
    ],
)
def test_what_a_log_cannot_vouch_for_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], reason: str
) -> None:
    verdict = judge_job(tmp_path, monkeypatch, left_by_job(tmp_path, **changes))
    assert not verdict.complete
    assert reason in " ".join(map(str, verdict.reasons))


def test_a_signal_ends_the_job_of_a_command(tmp_path: Path) -> None:
    program = "import os, signal, time\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(600)\n"
    (tmp_path / "hadoop.py").write_text(program)
    command = [sys.executable, "hadoop.py", "streaming", "-input", "in", "-output", "out"]
    command += ["-mapper", "cat", "-reducer", "NONE"]
    done = run_program(tmp_path, [*CLI, "mapreduce", *command])
    assert done.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in done.stderr
    assert verify(tmp_path)["status"] == "failed"


def test_a_file_that_changed_is_said_to_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = left_by_job(tmp_path)
    left["_lineage-m-00000"] = left["_lineage-m-00000"].replace(
        '"is_changed": false', '"is_changed": true'
    )
    verdict = judge_job(tmp_path, monkeypatch, left)
    assert not verdict.complete
    assert "changed while it was read" in " ".join(map(str, verdict.reasons))

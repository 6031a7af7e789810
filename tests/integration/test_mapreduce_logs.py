"""Logs that tasks of MapReduce leave: what they can't vouch for counts for nothing, and the verdict says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lineage import LineageApi
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_emitter.sdk.mapreduce_adapter import NAMES_REASON, run_streaming
from lineage_store.checksums import sha256_of
from tests.support.job_runs import STORE, ask, checksums, judged

pytestmark = pytest.mark.integration

HADOOP = """
import json, os, sys
os.mkdir("out")
for name, text in json.load(open("left.json")).items():
    open(os.path.join("out", name), "w").write(text)
"""
"""A command that leaves what a job would leave."""


def log(events: list[str], **end: Any) -> str:
    fields = {"rows": 0, "attempt": "0", "split": None, "is_changed": False, "is_of_output": True}
    return "".join(f"{event}\n" for event in events) + json.dumps(fields | end)


def left_by_job(folder: Path, **changes: str) -> dict[str, str]:
    """A job over three lines of one split: two keys, one line of output each."""
    text = folder / "in.txt"
    text.write_text("a\nb\na\n")
    state = text.stat()
    split = {
        "path": f"file:{text}",
        "start": 0,
        "length": 6,
        "file_size": 6,
        "mtime": state.st_mtime_ns // 1_000_000 / 1000,
    }
    events = ["i\t0.0#0\ta", "i\t0.0#2\ta", "o\t\ta", "i\t0.0#1\tb", "o\t\tb"]
    return {
        "_lineage-m-00000": log([], rows=3, split=split, is_of_output=False),
        "_lineage-r-00000": log(events, rows=2),
        "part-00000": "a\t2\nb\t1\n",
        **changes,
    }


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


def found(folder: Path, line: int) -> tuple[set[str], bool]:
    answer = ask(folder, Direction.BACKWARD, f"{folder / 'out' / 'part-00000'}:{line}")
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
    events = ["i\t0.0#0\ta", "i\t0.0#1\tb", "i\t\ta", "i\t0.0#2\ta", "o\t\tb", "o\t\ta", "i\t\tc"]
    left = left_by_job(tmp_path, **{"_lineage-r-00000": log(events, rows=2)})
    assert judge_job(tmp_path, monkeypatch, left).complete
    assert found(tmp_path, 1) == ({"in.txt:2"}, True)
    assert found(tmp_path, 2) == ({"in.txt:1", "in.txt:3"}, True)


def test_a_line_that_names_no_key_makes_all_of_its_task_supersets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = ["i\t0.0#0\ta", "o\t\ta", "i\t0.0#1\tb", "i\t0.0#2\tb", "o\t\ttotal"]
    left = left_by_job(tmp_path, **{"_lineage-r-00000": log(events, rows=2)})
    verdict = judge_job(tmp_path, monkeypatch, left)
    assert verdict.superset == {"write": (NAMES_REASON,)}
    assert found(tmp_path, 1) == ({"in.txt:1"}, False)
    assert found(tmp_path, 2) == ({"in.txt:1", "in.txt:2", "in.txt:3"}, False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"part-00000": "a\t2\nb\t1\nmore\n"}, "left no log of its 3 lines"),
        ({"_lineage-r-00001": "", "_lineage-r-00000": log([], rows=1)}, "logs of tasks"),
        (
            {"_lineage-r-00000": log(["i\t0.1#0\ta", "o\t\ta", "o\t\ta"], rows=2)},
            "attempt 0.1 at a map task left no log",
        ),
    ],
)
def test_what_a_log_cannot_vouch_for_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], reason: str
) -> None:
    verdict = judge_job(tmp_path, monkeypatch, left_by_job(tmp_path, **changes))
    assert not verdict.complete
    assert reason in " ".join(map(str, verdict.reasons))


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

"""A task of Hadoop Streaming as Hadoop runs it captured: a program between what it is given and what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_emitter.sdk import mapreduce_task

MARK = b"mark0123"


@dataclass(frozen=True)
class Ran:
    """What a task gave Hadoop, and what it left beside its output."""

    code: int
    written: bytes
    log: list[bytes]
    end: dict[str, Any]
    error: str

    @property
    def made_from(self) -> list[tuple[bytes, bytes]]:
        """Of each record of a mapper the lines that it was made from, and its text without them."""
        found = []
        for record in self.written.splitlines():
            key, _, rest = record.partition(MARK)
            lines, _, value = rest.partition(b"\t")
            found.append((lines, key + b"|" + value))
        return found


def run_task(
    folder: Path,
    program: str,
    given: bytes,
    *,
    observed: bool = True,
    is_map: bool = True,
    **env: str,
) -> Ran:
    (folder / "program.py").write_text(textwrap.dedent(program))
    (folder / "in.txt").write_bytes(b"x")
    command = ["--each-line"] if observed else ["--as-is", sys.executable]
    variables = {
        "mapreduce_task_ismap": str(is_map).lower(),
        "mapreduce_job_reduces": "1",
        "mapreduce_task_partition": "7",
        "mapreduce_task_attempt_id": "attempt_local1_0001_m_000007_1",
        "mapreduce_task_output_dir": f"file:{folder}/attempt",
        "mapreduce_map_input_file": f"file:{folder}/in.txt",
        "mapreduce_map_input_start": "0",
        "mapreduce_map_input_length": "1",
        "lineage_mark": MARK.decode(),
    }
    done = subprocess.run(
        [sys.executable, mapreduce_task.__file__, *command, "program.py", "argument"],
        cwd=folder,
        env={**os.environ, **variables, **env},
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )
    (log,) = (folder / "attempt").glob("_lineage-*")
    *events, end = log.read_bytes().split(b"\n")
    error = done.stderr.decode()
    return Ran(done.returncode, done.stdout, events, json.loads(end or b"{}"), error)

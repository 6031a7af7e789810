"""A task of Hadoop Streaming as Hadoop runs it captured: a program between what it is given and what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from itertools import islice
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
        """Of each record of a mapper the lines that it was made from (``l``: these, ``~``: perhaps fewer), and its key and value.

        The log has the same keys, and the record says which attempt wrote it.
        """
        lines, keys = list[bytes](), list[bytes]()
        log = iter(self.log)
        for header in log:
            kind, line, counts = header.split(b"\t")
            for number, count in enumerate(map(int, counts.split(b",")), int(line)):
                shown = {b"l": b"%d", b"~": b"~0-%d", b"-": b"-%d"}[kind] % number
                lines += [shown] * count
                keys += islice(log, count)
        records = [record.partition(MARK) for record in self.written.split(b"\n")[:-1]]
        assert keys == [key for key, _, _ in records]
        assert {rest.partition(b"\t")[0] for _, _, rest in records} <= {b"7.1"}
        values = [rest.partition(b"\t")[2] for _, _, rest in records]
        return [
            (made, key + b"|" + value) for made, key, value in zip(lines, keys, values, strict=True)
        ]


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

"""A program of RDDs run again and again on some rows of its sources, in one Spark, for searches that try many sets of rows."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from lineage.rerunning import own_environment
from lineage_core.contract.verdict import Verdict
from lineage_core.environment.module_programs import module_command
from lineage_core.environment.private_files import ensure_private_folder
from lineage_core.tracing.trace_result import TraceError
from lineage_query.minimising import StoppedError
from lineage_store.rerun_plan import (
    OUTPUT_LOG,
    PLAN_FILE,
    RerunPlan,
    RerunReport,
    RerunSource,
    read_report,
)

LOG_LINES = 20
"""Of what a program printed, shown where its first run is none to go on from."""
END_S = 20
"""Seconds that Spark gets to end."""


@dataclass(frozen=True)
class RepeatedRun:
    """A run: its exit code, what it met, and the folder with what it captured and wrote."""

    code: int
    report: RerunReport
    folder: Path


class RepeatedRuns:
    """Runs of a program, one after the other; each begins anew but for Spark, which stays.

    Args:
        words: the program and its arguments.
        folder: takes all that is written.
        kept_paths: what the job read or wrote.
        timeout_s: seconds after which no run goes on any more; None: never.
        verdict: on the job, as `own_environment` has it.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        kept_paths: Sequence[str],
        timeout_s: float | None,
        *,
        verdict: Verdict | None = None,
    ) -> None:
        self._words, self._folder, self._kept_paths = words, folder, kept_paths
        self._timeout_s, self._began = timeout_s, time.monotonic()
        self._environment: Mapping[str, str] = own_environment(verdict)
        self._count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / OUTPUT_LOG

    def __enter__(self) -> RepeatedRuns:
        command = module_command("lineage_emitter.repeating", str(self._folder), *self._words)
        # Ctrl-C is for the search, not for its runs.
        self._process = subprocess.Popen(
            command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                # Its own group: the run that may be on, and Spark.
                os.killpg(process.pid, number)
                process.wait(END_S)
                break
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                break
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def run(
        self,
        sources: Sequence[RerunSource],
        *,
        counts: bool = False,
        expected: Sequence[str] = (),
    ) -> RepeatedRun:
        """Run the program on some rows; `forget` the run when its files are read.

        Raises:
            StoppedError: the time is over.
            TraceError: it can't be run.
        """
        self._count += 1
        folder = self._folder / f"run-{self._count}"
        ensure_private_folder(folder / "outputs")
        plan = RerunPlan(
            *(sources, folder / "outputs", self._kept_paths, folder / "report.jsonl"),
            counts=counts,
            expected=expected,
        )
        plan.write(folder / PLAN_FILE)
        if self._log.exists():
            os.truncate(self._log, 0)
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{folder}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            raise TraceError(f"the program can't be run again: {self.said()}") from None
        self._wait(process.stdout.fileno())
        answer = process.stdout.readline()
        if not answer:
            raise TraceError(f"the program can't be run again: {self.said()}")
        return RepeatedRun(int(answer), read_report(plan.report), folder)

    def _wait(self, answers: int) -> None:
        left = None
        if self._timeout_s is not None:
            left = max(0.0, self._began + self._timeout_s - time.monotonic())
        ready, _, _ = select.select([answers], [], [], left)
        if not ready:
            raise StoppedError(f"{self._timeout_s:g} seconds")

    @staticmethod
    def forget(run: RepeatedRun) -> None:
        """Delete what a run wrote."""
        shutil.rmtree(run.folder, ignore_errors=True)

    def said(self) -> str:
        """The last lines that the program printed."""
        if not self._log.exists():
            return ""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])

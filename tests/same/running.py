"""Runs calls in this process, which captures or not, and writes what they gave: a line of JSON each."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.same import arguments
from tests.same.arguments import Scene
from tests.same.calls import Call, calls
from tests.same.session import quiet_session, write_outcomes
from tests.same.showing import failed, files, same_text, shown

BY_CHANCE = {"sample", "sampleByKey", "takeSample", "randomSplit", "sampleBy"}
"""Methods whose rows are a matter of chance without a seed."""
NOT_EVALUATED = {"countApproxDistinct"}
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.pyspark.plotting.max_rows": "10",
}


def main() -> None:
    """``python -m tests.same.running WORK OUTCOMES NAMES``: files of names, outcomes and the calls' own."""
    work, outcomes, names = (Path(one) for one in sys.argv[1:4])
    wanted = set(json.loads(names.read_text()))
    spark = quiet_session("same", work, SETTINGS)
    warnings.simplefilter("ignore")
    write_outcomes(outcomes, _outcomes(spark, work, wanted))
    spark.stop()


def _outcomes(
    spark: SparkSession, work: Path, wanted: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, call in enumerate(calls()):
        if call.name in wanted:
            folder = work / f"call-{number}"
            folder.mkdir()
            yield call.name, _outcome(spark, call, work / "shared", folder)


def _outcome(spark: SparkSession, call: Call, shared: Path, folder: Path) -> dict[str, Any]:
    scene = Scene(spark, shared, folder)
    before = _Captured()
    printed = io.StringIO()
    outcome: dict[str, Any] = {}
    latest = _latest_job(spark)
    try:
        with contextlib.redirect_stdout(printed):
            outcome["result"] = _shown(call, _called(scene, call), folder)
    except Exception as problem:
        outcome["error"] = failed(problem, folder)
    outcome["printed"] = same_text(printed.getvalue(), folder)
    outcome["files"] = files(folder)
    outcome["given"] = sorted(map(str, scene.kinds.value))
    outcome["calls"] = scene.calls.value
    outcome["sites"] = sorted({site for _, site in _jobs(spark, latest)})
    for names in ("setLocalProperty", "setJobGroup", "setJobDescription"):
        if call.method == names:
            spark.sparkContext._jsc.clearJobGroup()
    outcome["unknown"] = before.unknown_since()
    return outcome


def _called(scene: Scene, call: Call) -> Any:
    of = getattr(arguments.receiver(scene, call.owner, call.method), call.method)
    if not callable(of):
        return of
    placed: list[Any] = []
    named: dict[str, Any] = {}
    for name in call.by_place:
        value = _made(scene, call, name)
        placed += value if isinstance(value, tuple) else [value]
    for name in call.by_name:
        value = _made(scene, call, name)
        if name in {"cols", "others", "exprs", "parameters", "args"} and isinstance(value, tuple):
            placed += value
        elif name in {"options", "kwargs"}:
            named |= value
        else:
            named[name] = value
    return of(*placed, **named)


def _made(scene: Scene, call: Call, parameter: str) -> Any:
    make = arguments.maker(call.owner, call.method, parameter)
    assert make is not None, f"{call.name}: {parameter}"
    return make(scene)


def _shown(call: Call, result: Any, folder: Path) -> Any:
    seeded = "seed" in (*call.by_place, *call.by_name)
    if call.method in BY_CHANCE and not seeded:
        return type(result).__name__.replace("LineagePipelinedRDD", "PipelinedRDD")
    return shown(result, folder)


def _jobs(spark: SparkSession, behind: int = -1) -> list[tuple[int, str]]:
    """Number and name of the jobs behind one, the latest first."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = []
    for at in range(listed.size()):
        job = listed.apply(at)
        if job.jobId() <= behind:
            break
        found.append((job.jobId(), str(job.name())))
    return found


def _latest_job(spark: SparkSession) -> int:
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return int(listed.apply(0).jobId()) if listed.size() else -1


class _Captured:
    """What capture, if it is on, calls unknown from now on."""

    def __init__(self) -> None:
        self._module = sys.modules.get("lineage_emitter.open_sessions")
        for session in self._sessions():
            # What is known by its name and line is not noted again; all calls stand in one line here.
            session.nodes.unknowns.clear()

    def _sessions(self) -> list[Any]:
        return [] if self._module is None else list(self._module.open_sessions())

    def unknown_since(self) -> list[str]:
        """What it could not capture, by the operator's name."""
        for session in self._sessions():
            session.frames.wait_until_recorded()
        return sorted({what for session in self._sessions() for what, _ in session.nodes.unknowns})


if __name__ == "__main__":
    main()

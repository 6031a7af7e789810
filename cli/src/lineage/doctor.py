"""``lineage doctor``: whether this machine can capture, store and trace lineage, and how to mend what is wrong."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from lineage.options import opened
from lineage.program_check import ProgramError, Used, check_program
from lineage.servers import SERVER_SCHEMES
from lineage.terminal import echo
from lineage_core.errors import LineageError
from lineage_dataframes.sandbox.policy import java_home
from lineage_dataframes.spark.java import HINT, examine_java, output_of
from lineage_store.errors import way_out
from lineage_store.lake.address import is_lake
from lineage_store.url import has_store, is_embedded, spool_of, store_path

State = Literal["ok", "warning", "problem", "not used"]

ANSWER_S = 10.0
"""How long a program or server may take to answer."""
FREE_LEAST, FREE_WARNED = 100 << 20, 1 << 30
"""Bytes free on a disk below which there is a problem, and a warning."""
CLOCK_S = 30.0
"""Difference of two clocks, in seconds, above which there is a warning."""
_SIGNS: Mapping[State, str] = {
    "ok": "ok",
    "warning": "warning",
    "problem": "PROBLEM",
    "not used": "-",
}

_STYLES: Mapping[State, Mapping[str, Any]] = {
    "ok": {},
    "warning": {"fg": "yellow"},
    "problem": {"fg": "red"},
    "not used": {},
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part. ``hint``: what to do, where there is something."""

    part: str
    state: State
    detail: str
    hint: str = ""


def examine(url: str, job: Path | None = None) -> list[Finding]:
    """Check all parts, each within some seconds; change nothing.

    Args:
        url: the store or server.
        job: a program that is to be captured.
    """
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("python", _python),
        ("spark", _spark),
        ("java", _java),
        ("settings", _settings),
        ("store", lambda: _store(url)),
        ("spool", lambda: _spool(url)),
        ("disk", lambda: _disk(url)),
        ("kafka", _kafka),
        ("redis", _redis),
    ]
    if job is not None:
        checks.append(("program", lambda: _program(job)))
    found: list[Finding] = []
    for part, check in checks:
        try:
            found += check()
        except (LineageError, OSError) as error:
            found.append(Finding(part, "problem", str(error)))
    return found


def show(findings: list[Finding]) -> None:
    """Print a line for each, and below it what to do."""
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        echo(
            f"{finding.part:<{width}}  {_SIGNS[finding.state]:<7}  {finding.detail}",
            **_STYLES[finding.state],
        )
        if finding.hint:
            echo(f"{'':<{width}}  {'':<7}  -> {finding.hint}")
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    echo("")
    echo(
        f"{problems} problem{'' if problems == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}"
    )


def to_json(findings: list[Finding]) -> dict[str, Any]:
    """As tools read it."""
    return {
        "ok": not has_problem(findings),
        "findings": [asdict(finding) for finding in findings],
    }


def has_problem(findings: list[Finding]) -> bool:
    """Whether there is a problem that stops lineage from working."""
    return any(finding.state == "problem" for finding in findings)


def _python() -> Iterator[Finding]:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    yield Finding("python", "ok", f"Python {here}, {sys.executable}")
    for variable in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        program = os.environ.get(variable)
        if not program:
            continue
        command = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        output = output_of(command)
        if output is None:
            yield Finding(
                "python",
                "problem",
                f"{variable}={program} does not run",
                "name a Python that is there",
            )
        elif output.strip() != here:
            detail = f"{variable}={program} is Python {output.strip()}, this one is {here}"
            hint = "driver and workers need the same minor version, with the lineage packages installed"
            yield Finding("python", "problem", detail, hint)


def _spark() -> Iterator[Finding]:
    installed = _installed("pyspark")
    if installed is None:
        yield Finding("spark", "problem", "PySpark is not installed", "pip install pyspark")
        return
    try:
        from lineage_emitter import pyspark_parts, spark_versions  # noqa: F401
    except LineageError as error:
        yield Finding(
            "spark", "problem", str(error), "docs/reference/compatibility.md lists the versions"
        )
        return
    except ImportError as error:
        yield Finding(
            "spark", "problem", f"PySpark {installed} can't be imported: {error}", "reinstall it"
        )
        return
    if spark_versions.is_untested(installed):
        hint = "docs/reference/compatibility.md lists the versions"
        yield Finding("spark", "warning", spark_versions.untested_warning(installed), hint)
    else:
        versions = ", ".join(spark_versions.SUPPORTED)
        yield Finding("spark", "ok", f"PySpark {installed}; captured in {versions}")
    home = os.environ.get("SPARK_HOME")
    if home:
        release = _first_line(Path(home) / "RELEASE")
        if installed not in release:
            detail = f"SPARK_HOME={home} is {release.strip() or 'of an unknown version'}, PySpark is {installed}"
            yield Finding(
                "spark",
                "warning",
                detail,
                "unset SPARK_HOME, or install the same version of PySpark",
            )


def _java() -> Iterator[Finding]:
    java = examine_java(java_home(), _installed("pyspark") or "4")
    if java.problem:
        yield Finding("java", "problem", java.problem, HINT)
    else:
        yield Finding("java", "ok", f"Java {java.major}, {java.program}")


def _settings() -> Iterator[Finding]:
    from lineage_emitter.settings import read_settings

    settings = read_settings()
    if not settings.enabled:
        yield Finding(
            "settings",
            "warning",
            "capture is switched off (LINEAGE_ENABLED)",
            "unset LINEAGE_ENABLED",
        )
        return
    yield Finding("settings", "ok", f"lineage leaves jobs by {settings.dispatcher}")


def _store(url: str) -> Iterator[Finding]:
    embedded = not url.startswith(SERVER_SCHEMES) and is_embedded(url)
    if embedded and not store_path(url).exists():
        folder = _nearest(store_path(url).parent)
        if os.access(folder, os.W_OK | os.X_OK):
            detail = f"{store_path(url)} is not there yet: the first `lineage run` makes it"
            yield Finding("store", "ok", detail)
        else:
            hint = "name another store by --store or LINEAGE_STORE"
            yield Finding("store", "problem", f"{folder} can't be written", hint)
        return
    if is_lake(url) and not has_store(url):
        detail = f"{url} is not there yet: the first `lineage run` makes it"
        yield Finding("store", "ok", detail)
        return
    if embedded and not os.access(store_path(url), os.W_OK):
        yield Finding("store", "problem", f"{store_path(url)} can't be written", "see whose it is")
    with opened(url) as access:
        records = access.applications()
    yield Finding("store", "ok", f"{url}, {len(records):,} applications")
    for record in records:
        if record.damage:
            detail = f"{record.app} is damaged: {record.damage}"
            yield Finding("store", "problem", detail, way_out(record.app))
    ahead = max((record.started_at for record in records), default=0.0) - time.time()
    if ahead > CLOCK_S:
        detail = f"an application began {ahead:,.0f} s from now, by the clock of its driver"
        yield Finding("clock", "warning", detail, "set the clocks of all machines by NTP")


def _spool(url: str) -> Iterator[Finding]:
    if url.startswith(SERVER_SCHEMES):
        return
    if not (is_embedded(url) or is_lake(url) or os.environ.get("LINEAGE_SPOOL")):
        return
    folder = spool_of(url)
    waiting = [entry for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    if not waiting:
        yield Finding("spool", "ok", f"nothing waits in {folder}")
        return
    hint = "`lineage link` brings it into the store, `lineage send` to Kafka; a job that runs does so by itself"
    yield Finding(
        "spool", "warning", f"lineage of {len(waiting):,} applications waits in {folder}", hint
    )


def _disk(url: str) -> Iterator[Finding]:
    folders = [Path(tempfile.gettempdir())]
    if not url.startswith(SERVER_SCHEMES) and is_embedded(url):
        folders.append(_nearest(store_path(url).parent))
    for folder in {folder.stat().st_dev: folder for folder in folders}.values():
        free = shutil.disk_usage(folder).free
        state: State = "ok" if free > FREE_WARNED else "warning" if free > FREE_LEAST else "problem"
        hint = (
            ""
            if state == "ok"
            else "make room: capture goes on without lineage where its disk is full"
        )
        yield Finding("disk", state, f"{free / (1 << 30):,.1f} GiB free below {folder}", hint)


def _kafka() -> Iterator[Finding]:
    if not os.environ.get("LINEAGE_KAFKA"):
        yield Finding("kafka", "not used", "LINEAGE_KAFKA is not set")
        return
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from lineage_kafka.dead_letters import read_kafka_settings
    from lineage_kafka.errors import kafka_problem

    settings = read_kafka_settings()
    errors: list[str] = []
    config: dict[str, Any] = {**settings.librdkafka_config(), "log_level": 0}
    config["error_cb"] = lambda error: errors.append(error.str())
    with AdminClient(config) as admin:
        try:
            topics = set(admin.list_topics(timeout=ANSWER_S).topics)
        except KafkaException as error:
            # Connection errors are reported only when the client is polled.
            admin.poll(0)
            message = "; ".join(dict.fromkeys([*errors, error.args[0].str()]))
            yield Finding("kafka", "problem", f"{settings.kafka}: {kafka_problem(message)}")
            return
    missing = sorted(set(settings.topics.partitions(1)) - topics)
    if missing:
        hint = "`python -m lineage_linker.topics` makes them"
        yield Finding(
            "kafka", "problem", f"{settings.kafka} has no topics {', '.join(missing)}", hint
        )
        return
    yield Finding("kafka", "ok", f"{settings.kafka} has all topics")


def _redis() -> Iterator[Finding]:
    if not os.environ.get("LINEAGE_REDIS"):
        yield Finding(
            "redis", "not used", "LINEAGE_REDIS is not set: the linker's own machine needs it"
        )
        return
    from redis import Redis
    from redis.exceptions import RedisError

    from lineage_query_api.settings import read_redis_settings
    from lineage_service.redis_settings import eviction_problem, redis_problem

    settings = read_redis_settings()
    try:
        with Redis.from_url(
            settings.redis,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            decode_responses=True,
            **settings.redis_arguments(),
        ) as client:
            memory = client.info("memory")
    except RedisError as error:
        yield Finding(
            "redis",
            "problem",
            f"{settings.redis}: {redis_problem(f'{type(error).__name__}: {error}')}",
            "docs/guide/security.md lists the rights",
        )
        return
    problem = eviction_problem(memory)
    if problem:
        yield Finding(
            "redis", "problem", f"{settings.redis}: {problem}", "the linker links nothing before"
        )
        return
    yield Finding("redis", "ok", settings.redis)


def _program(job: Path) -> Iterator[Finding]:
    try:
        used = check_program(job)
    except ProgramError as error:
        yield Finding("program", "problem", str(error))
        return
    if not used:
        detail = f"{job} names nothing of Spark that is known here: its imports are not checked"
        yield Finding("program", "warning", detail)
    words: dict[str, tuple[State, str]] = {
        "captured": ("ok", "captured row by row"),
        "recorded": ("ok", "recorded as recipes of DataFrames"),
        "superset": ("warning", "may name more rows than were used"),
        "not captured": ("warning", "not captured"),
    }
    for share, (state, what) in words.items():
        some: list[Used] = [use for use in used if use.share == share]
        if share in {"captured", "recorded"} and some:
            yield Finding("program", state, f"{what}: {', '.join(use.name for use in some)}")
        elif some:
            for use in some:
                yield Finding("program", state, f"{what}: {use.words()}")


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(1_000)
    except OSError:
        return ""


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())

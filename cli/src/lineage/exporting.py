"""``lineage export``: writes a trace to a file."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from lineage.options import opened, print_json, warning_if_partial, with_store
from lineage.terminal import echo
from lineage_core.tracing.trace_result import Direction
from lineage_query.exports import FORMATS, ExportError, ExportOptions, Format, format_for, format_of
from lineage_query.trace_query import TraceQuery

DIRECTIONS = {
    "back": Direction.BACKWARD,
    "backward": Direction.BACKWARD,
    "forward": Direction.FORWARD,
}
DEFAULT_FORMAT = "csv"
STDOUT = "-"


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The arguments of ``lineage export``. ``output``: a path, or ``-`` for stdout."""

    places: Sequence[str]
    direction: str
    format: str
    output: str
    app: str = ""
    step: bool = False
    to: str = ""
    where: str = ""
    all_jobs: bool = False

    def question(self) -> TraceQuery:
        """The query to trace.

        Raises:
            ExportError: the direction is unknown.
        """
        return TraceQuery(
            direction=direction_of(self.direction),
            places=tuple(self.places),
            app=self.app or None,
            until=self.to or None,
            steps=1 if self.step else None,
            where=self.where,
            all_jobs=self.all_jobs,
        )


def direction_of(text: str) -> Direction:
    """The direction that a word names.

    Raises:
        ExportError: it names none.
    """
    if text not in DIRECTIONS:
        raise ExportError(f"--direction is back or forward, not {text!r}")
    return DIRECTIONS[text]


def export_trace(
    url: str, request: ExportRequest, options: ExportOptions, *, as_json: bool
) -> None:
    """Trace and write; warnings go to stderr."""
    chosen = chosen_format(request.format, request.output)
    if as_json and request.output == STDOUT:
        raise ExportError("--json reports on a written file: name it by -o FILE")
    question, output = request.question(), partial(output_stream, request.output)
    with opened(url) as access:
        summary = access.export(question, chosen.name, output, options)
    for warning in summary.warnings:
        echo(f"lineage: {with_store(warning)}", err=True)
    if not summary.exact:
        for reason in summary.reasons:
            echo(f"lineage: not exact: {reason}", err=True)
    if as_json:
        print_json(summary.to_json() | {"file": request.output})


def chosen_format(name: str, output: str) -> Format:
    """The format of a name, or else of a file's ending.

    Args:
        name: of the format; may be empty.
        output: a path, or ``-`` for stdout.

    Raises:
        ExportError: there is none, or it is not for a terminal.
    """
    chosen = format_of(name) if name else _format_for(output)
    if chosen.binary and output == STDOUT and sys.stdout.isatty():
        raise ExportError(f"{chosen.name} is nothing for a terminal: name a file by -o FILE")
    return chosen


def _format_for(output: str) -> Format:
    """The format that the file's ending names; where it has none, the default.

    Raises:
        ExportError: no format has such an ending.
    """
    format_ = None if output == STDOUT else format_for(output)
    ending = "" if output == STDOUT else Path(output).suffix
    if format_ is None and ending:
        endings = ", ".join(f".{known_format.extension}" for known_format in FORMATS.values())
        raise ExportError(
            f"no format's files end in {ending} (known are {endings}): name another file, or say "
            f"--format, one of {', '.join(FORMATS)}"
        )
    return format_ or format_of(DEFAULT_FORMAT)


@contextmanager
def output_stream(output: str) -> Iterator[IO[bytes]]:
    """Stdout, or a file that is there whole or not at all."""
    if output == STDOUT:
        sys.stdout.flush()
        with warning_if_partial():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        # A pipe or a device is written to, never replaced.
        with warning_if_partial(), path.open("wb") as stream:
            yield stream
        return
    with _replacing(path) as stream:
        yield stream


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    target = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _mode(path: Path) -> int:
    """The rights of the file that is replaced, or of any new one."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

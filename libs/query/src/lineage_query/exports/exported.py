"""What an export came to: told beside the file, by commands and servers alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from lineage_query.answers import Answer, NotAsked
from lineage_query.exports.errors import ExportError
from lineage_query.exports.options import Options
from lineage_query.exports.registry import FORMATS, export, format_of
from lineage_query.exports.tables import batches_of, batches_through, facts_of
from lineage_query.record_trace import RecordTrace
from lineage_query.trace import Trace


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written of a trace. ``found``: items; ``reasons``: why it is not exact.

    ``apps``: the applications that were asked (empty: just ``app``); ``not_asked``: what takes part and could not be asked.
    """

    app: str
    direction: str
    asked: tuple[str, ...]
    format: str
    found: int
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    warnings: tuple[str, ...]
    apps: tuple[str, ...] = ()
    not_asked: tuple[NotAsked, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "app": self.app,
            "direction": self.direction,
            "from": list(self.asked),
            "format": self.format,
            "found": self.found,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "warnings": list(self.warnings),
            "apps": list(self.apps or (self.app,)),
            "not_asked": [one.to_json() for one in self.not_asked],
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Exported:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        apps = tuple(told.get("apps", ()))
        return cls(
            told["app"],
            told["direction"],
            tuple(told["from"]),
            told["format"],
            told["found"],
            told["exact"],
            tuple(told["reasons"]),
            told["complete"],
            tuple(told["warnings"]),
            () if apps == (told["app"],) else apps,
            tuple(map(NotAsked.from_json, told.get("not_asked", ()))),
        )


def exported(trace: Trace, name: str, stream: IO[bytes], options: Options) -> Exported:
    """Write a trace and say what was written.

    A table lists records and rows of DataFrames, all that are known. Other formats have derivations, and so just records.

    Raises:
        ExportError: no such format, what it needs is not installed, or it has derivations and there are no records.
        ExportTooLargeError: more items than the format takes; nothing was written.
        OSError: the stream takes no more.
    """
    table = format_of(name).table
    records, answer = trace.records, trace.recomputed
    if records is not None and (answer is None or table is None):
        return _exported_records(records, name, stream, options)
    assert answer is not None
    if table is None:
        raise _without_derivations(answer)
    if records is None:
        rows = batches_of(answer, options)
    else:
        rows = batches_through(records, answer, records.composer(), options)
    table(rows, facts_of(answer), stream)
    return _told(answer, name)


def _exported_records(
    records: RecordTrace, name: str, stream: IO[bytes], options: Options
) -> Exported:
    warnings = (*export(records, name, stream, options), *records.stops())
    return Exported(
        app=records.app,
        direction=records.direction.value,
        asked=records.asked,
        format=name,
        found=records.result.count,
        exact=records.result.exact,
        reasons=records.result.reasons,
        complete=records.complete,
        warnings=warnings,
    )


def _without_derivations(answer: Answer) -> ExportError:
    tables = ", ".join(one.name for one in FORMATS.values() if one.table is not None)
    several = "several applications: --app chooses one, or " if len(answer.apps) > 1 else ""
    of = (
        "an answer of " + several if several else "a trace of DataFrames' rows has no derivations: "
    )
    return ExportError(f"{of}give one of {tables}")


def _told(answer: Answer, name: str) -> Exported:
    return Exported(
        app=answer.app,
        direction=answer.direction.value,
        asked=answer.asked,
        format=name,
        found=sum(group.count for group in answer.groups),
        exact=answer.exact,
        reasons=answer.reasons,
        complete=answer.complete,
        warnings=answer.warnings,
        apps=answer.apps,
        not_asked=answer.not_asked,
    )

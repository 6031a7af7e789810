"""The report of an export, which commands and servers return beside the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from lineage_core.contract.reasons import listed_reasons
from lineage_query.answers import Answer, NotQueried, listed_warnings
from lineage_query.exports.errors import ExportError
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.registry import FORMATS, export, format_of
from lineage_query.exports.tables import answer_facts, batches_of, batches_through
from lineage_query.record_trace import RecordTrace
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written of a trace. ``found``: items; ``reasons``: why it is not exact.

    ``apps``: the queried applications (empty: only ``app``); ``not_queried``: what takes part but could not be queried.
    """

    app: str
    direction: str
    requested_places: tuple[str, ...]
    format: str
    found: int
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    warnings: tuple[str, ...]
    apps: tuple[str, ...] = ()
    not_queried: tuple[NotQueried, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", listed_reasons(self.reasons))
        object.__setattr__(self, "warnings", listed_warnings(self.warnings, self.complete))

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "app": self.app,
            "direction": self.direction,
            "from": list(self.requested_places),
            "format": self.format,
            "found": self.found,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "warnings": list(self.warnings),
            "apps": list(self.apps or (self.app,)),
            "not_asked": [entry.to_json() for entry in self.not_queried],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Exported:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        apps = tuple(document.get("apps", ()))
        return cls(
            document["app"],
            document["direction"],
            tuple(document["from"]),
            document["format"],
            document["found"],
            document["exact"],
            tuple(document["reasons"]),
            document["complete"],
            tuple(document["warnings"]),
            () if apps == (document["app"],) else apps,
            tuple(map(NotQueried.from_json, document.get("not_asked", ()))),
        )


def check_format(name: str, query: TraceQuery) -> None:
    """Refuse a format in which the trace of a query can't be written, before it is traced.

    Raises:
        ExportError: unknown format, or one with derivations for a trace through all jobs.
    """
    if query.all_jobs and format_of(name).table is None:
        raise ExportError(f"a trace through all jobs has no derivations: give one of {_tables()}")


def _tables() -> str:
    return ", ".join(entry.name for entry in FORMATS.values() if entry.table is not None)


def exported(trace: Trace, name: str, stream: IO[bytes], options: ExportOptions) -> Exported:
    """Write a trace and return a report.

    A table lists records and rows of DataFrames, all that are known. Other formats have derivations, and so just records.

    Raises:
        ExportError: unknown format, a missing dependency, or a format with derivations for a trace without records.
        ExportTooLargeError: more items than the format allows; nothing was written.
        OSError: writing to the stream failed.
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
    table(rows, answer_facts(answer), stream)
    return _summary_of(answer, name)


def _exported_records(
    records: RecordTrace, name: str, stream: IO[bytes], options: ExportOptions
) -> Exported:
    warnings = (*export(records, name, stream, options), *records.end_warnings())
    return Exported(
        app=records.app,
        direction=records.direction.value,
        requested_places=records.requested_places,
        format=name,
        found=records.result.count,
        exact=records.result.exact,
        reasons=records.result.reasons,
        complete=records.complete,
        warnings=warnings,
    )


def _without_derivations(answer: Answer) -> ExportError:
    several = "several applications: --app chooses one, or " if len(answer.apps) > 1 else ""
    subject = (
        "an answer of " + several if several else "a trace of DataFrames' rows has no derivations: "
    )
    return ExportError(f"{subject}give one of {_tables()}")


def _summary_of(answer: Answer, name: str) -> Exported:
    return Exported(
        app=answer.app,
        direction=answer.direction.value,
        requested_places=answer.requested_places,
        format=name,
        found=sum(group.count for group in answer.groups),
        exact=answer.exact,
        reasons=answer.reasons,
        complete=answer.complete,
        warnings=answer.warnings,
        apps=answer.apps,
        not_queried=answer.not_queried,
    )

"""What an export came to: told beside the file, by commands and servers alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from lineage_query.answers import Answer, NotAsked
from lineage_query.exports.errors import ExportError
from lineage_query.exports.options import Options
from lineage_query.exports.registry import FORMATS, export, format_of
from lineage_query.exports.tables import batches_of, batches_through, facts_of
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


def exported(traced: Trace, name: str, stream: IO[bytes], options: Options) -> Exported:
    """Write a trace and say what was written; raises as :func:`lineage_query.exports.export`."""
    warnings = (*export(traced, name, stream, options), *traced.stops())
    return Exported(
        app=traced.app,
        direction=traced.direction.value,
        asked=traced.asked,
        format=name,
        found=traced.result.count,
        exact=traced.result.exact,
        reasons=traced.result.reasons,
        complete=traced.complete,
        warnings=warnings,
    )


def exported_answer(answer: Answer, name: str, stream: IO[bytes], options: Options) -> Exported:
    """Write an answer that lists all of its items: a table, for it has no derivations.

    Raises:
        ExportError: no such format, or none of tables.
    """
    table = format_of(name).table
    if table is None:
        tables = ", ".join(one.name for one in FORMATS.values() if one.table is not None)
        several = "several applications: --app chooses one, or " if len(answer.apps) > 1 else ""
        of = (
            "an answer of " + several
            if several
            else "a trace of DataFrames' rows has no derivations: "
        )
        raise ExportError(f"{of}give one of {tables}")
    table(batches_of(answer, options), facts_of(answer), stream)
    return _told(answer, name)


def exported_through(
    traced: Trace, answer: Answer, name: str, stream: IO[bytes], options: Options
) -> Exported:
    """Write a trace of records, and the answer in which it goes on through DataFrames.

    A table has both. Other formats have derivations, and so just the records.

    Raises:
        ExportError: no such format, or what it needs is not installed.
        ExportTooLargeError: more items than the format takes; nothing was written.
    """
    table = format_of(name).table
    if table is None:
        return exported(traced, name, stream, options)
    rows = batches_through(traced, answer, traced.composer(), options)
    table(rows, facts_of(answer), stream)
    return _told(answer, name)


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

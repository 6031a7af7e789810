"""What is asked of an application's suspects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.suspects.answer import Suspects
from lineage_query.suspects.ranking import Labels, rank_suspects
from lineage_query.suspects.spectrum import Formula
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery


@dataclass(frozen=True, slots=True)
class SuspectsQuery:
    """Bad and good rows of outputs, as places; without any, the health of an application (None: the latest) is asked for.

    ``limit``: suspects of each kind that are listed. ``with_tasks``: rank tasks, too, which reads all flows of the application.
    """

    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    app: str | None = None
    limit: int = 50
    formula: Formula = "ochiai"
    with_tasks: bool = True


class NoBadRowsError(LineageError):
    """Good rows alone."""


def labels_of(
    query: SuspectsQuery, trace: Callable[[TraceQuery], Trace], *, texts: bool = True
) -> Labels:
    """Trace the outputs of a query. ``trace``: `lineage_query.engine.QueryEngine.trace`, or bounded.

    Raises:
        NoBadRowsError: there are good rows, and no bad ones.
        LineageError: ``trace`` raised it, or an output is bad and good.
    """
    if query.good and not query.bad:
        raise NoBadRowsError("good rows are compared with bad ones: name a bad row, too")

    def traces(places: tuple[str, ...]) -> Iterator[Trace]:
        for place in dict.fromkeys(places):
            yield trace(TraceQuery(Direction.BACKWARD, (place,), app=query.app, texts=texts))

    return Labels.of(traces(query.bad), traces(query.good))


def find_suspects(
    query: SuspectsQuery,
    labels: Labels,
    open_application: Callable[[str | None], ApplicationSnapshot],
    *,
    texts: bool = True,
) -> Suspects:
    """Answer a query.

    Args:
        query: what is asked.
        labels: its outputs, traced.
        open_application: an application by its id, the beginning of one, or ``latest`` (None).
        texts: include the texts of rows.

    Raises:
        LineageError: as `rank_suspects`; ``open_application`` raised it.
    """
    return rank_suspects(
        open_application(labels.bad[0].app if labels.bad else query.app),
        labels,
        query.limit,
        formula=query.formula,
        with_tasks=query.with_tasks,
        texts=texts,
    )

"""``lineage suspects --influence``: what a row would be without each of the rows that it was made from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import typer

from lineage.comparing import print_warnings
from lineage.frame_traces import spark_session
from lineage.options import print_json
from lineage.requested_outputs import RequestedRecipe, refuse_server, requested_recipe
from lineage.sifting import places_and_texts
from lineage.terminal import echo
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.sources.row_texts import text_of_row
from lineage_dataframes.trace.influence import Influence, Influences, Witness, influences
from lineage_dataframes.trace.replay import Replayer
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.suspects.query import SuspectsQuery
from lineage_query.suspects.ranking import ranked
from lineage_store.url import index_folder, open_store

RUNS_MAX = 100
"""Witnesses that are left out by running the plan again, where there is no closed form."""


@dataclass(frozen=True)
class _RankedInfluence:
    influence: Influence
    rank: int
    tied: int
    place: str
    text: str


def influence(url: str, query: SuspectsQuery, *, as_json: bool) -> None:
    """Print what a bad row would be without each of its witnesses, those first that change it most.

    Raises:
        LineageError: not one row of a DataFrame is named, or it can't be replayed.
    """
    refuse_server(url, "the influence of rows is computed")
    if len(query.bad) != 1 or query.good:
        raise TraceError("--influence takes one row: name it by --bad, and no good ones")
    with open_store(url) as store:
        reader = RowReader(index_folder(url))
        requested = requested_recipe(store, reader, query.bad, query.app)
        with spark_session() as spark, reading_by(reader):
            replayer = Replayer(spark, requested.recipe, requested.output(spark))
            found = influences(replayer, RUNS_MAX)
            listed = _ranked(found)[: query.limit]
            shown = places_and_texts(
                spark, requested.recipe, _rows_of(replayer, {each[0].witness for each in listed})
            )
    rows = [_RankedInfluence(each, rank, tied, *shown[each.witness]) for each, rank, tied in listed]
    print_warnings(requested.warnings)
    if as_json:
        print_json(_to_json(requested, found, rows))
    else:
        _show(found, rows)


def _rows_of(replayer: Replayer, witnesses: set[Witness]) -> dict[tuple[int, str], Any]:
    """Some witnesses by source and file; of a file that several sources read, by one of these."""
    rows: dict[tuple[int, str], Any] = {}
    files = set[str]()
    for source, path in sorted(replayer.witnesses):
        if path not in files:
            files.add(path)
            rows[source, path] = np.array(
                sorted(at for file, at in witnesses if file == path), np.uint64
            )
    return rows


def change(before: Any, after: Any) -> Fraction | float:
    """How far two values lie apart: numbers by their difference, others, and what is NULL or no number, without bound."""
    if before == after or repr(before) == repr(after):
        return Fraction(0)
    numbers = [
        one
        for one in (before, after)
        if isinstance(one, int | float | Decimal) and not isinstance(one, bool)
    ]
    if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return math.inf
    return abs(Fraction(before) - Fraction(after))


def _key(found: Influences, each: Influence) -> tuple[bool, tuple[Fraction | float, ...]]:
    """What rows are ranked by: whether the row would be gone, then how far its values change, column by column."""
    if each.values is None:
        return (True, ())
    return (False, tuple(map(change, found.before, each.values)))


def _ranked(found: Influences) -> list[tuple[Influence, int, int]]:
    places = ranked({each: _key(found, each) for each in found.rows})
    rows = [(each, *places[each]) for each in found.rows]
    return sorted(rows, key=lambda row: (row[1], row[0].witness))


def _to_json(
    requested: RequestedRecipe, found: Influences, rows: list[_RankedInfluence]
) -> dict[str, Any]:
    def row(values: tuple[Any, ...] | None) -> Any:
        return None if values is None else json.loads(text_of_row(found.columns, values))

    return {
        "app": requested.app,
        "node": requested.node,
        "columns": list(found.columns),
        "before": row(found.before),
        "rows": [
            {
                "location": each.place,
                "text": each.text,
                "after": row(each.influence.values),
                "sure": dict(zip(found.columns, each.influence.sure, strict=True)),
                "rank": each.rank,
                "tied": each.tied,
            }
            for each in rows
        ],
        "witnesses": found.witnesses,
        "computed": len(found.rows),
        "how": found.how,
        "why": found.why or None,
        "uncertain": list(found.uncertain),
        "warnings": list(requested.warnings),
    }


def _show(found: Influences, rows: list[_RankedInfluence]) -> None:
    made = "1 row" if found.witnesses == 1 else f"{found.witnesses:,} rows"
    how = (
        "in closed form"
        if found.how == "closed form"
        else f"by running the plan again: {found.why}"
    )
    echo(
        f"what it would be without each of the {made} that it is made from, {how}",
        fg=typer.colors.CYAN,
    )
    echo(f"now     {text_of_row(found.columns, found.before)}", bold=True)
    for each in rows:
        tied = f" ({each.tied:,} tied)" if each.tied > 1 else ""
        echo(
            f"{each.rank}.{tied}  {_changed(found, each.influence)}  without {each.place}: {each.text}"
        )
    unlisted = len(found.rows) - len(rows)
    if unlisted > 0:
        echo(f"... and {unlisted:,} more (--limit N lists more)", dim=True)
    if len(found.rows) < found.witnesses:
        echo(
            f"lineage: the plan was run without the first {len(found.rows):,} of the {made}: others may change the row more",
            err=True,
        )
    for reason in found.uncertain:
        echo(f"not certain: {reason}", fg=typer.colors.YELLOW)


def _changed(found: Influences, each: Influence) -> str:
    """The columns that would have other values; those that Spark may round otherwise are marked."""
    if each.values is None:
        return "no row"
    changed: Mapping[str, tuple[Any, bool]] = {
        name: (after, sure)
        for name, before, after, sure in zip(
            found.columns, found.before, each.values, each.sure, strict=True
        )
        if before is not after and before != after
    }
    if not changed:
        return "the same"
    approximate = [name for name, (_, sure) in changed.items() if not sure]
    text = text_of_row(tuple(changed), tuple(value for value, _ in changed.values()))
    return f"{text} (approximate: {', '.join(approximate)})" if approximate else text

"""``lineage suspects --influence``: what a row would be without each of the rows that it was made from."""

from __future__ import annotations

import typer

from lineage.comparing import print_warnings
from lineage.frame_traces import spark_session
from lineage.options import print_json
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.sources.row_texts import text_of_row
from lineage_dataframes.trace.influence import Influence, influences
from lineage_dataframes.trace.ranked_influence import InfluenceAnswer, answer_influence
from lineage_dataframes.trace.requested_recipes import requested_recipe
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.showing import rows_text
from lineage_query.suspects.query import SuspectsQuery
from lineage_store.url import index_folder, open_store

RUNS_MAX = 100
"""Witnesses that are left out by running the plan again, where there is no closed form."""


def influence(url: str, query: SuspectsQuery, *, as_json: bool) -> None:
    """Print what a bad row would be without each of its witnesses, those first that change it most.

    Raises:
        LineageError: not one row of a DataFrame is named, or it can't be replayed.
    """
    refuse_server(url, "the influence of rows is computed")
    place = one_bad_row(query)
    with open_store(url) as store:
        reader = RowReader(index_folder(url))
        requested = requested_recipe(store, reader, (place,), query.app)
        with spark_session() as spark, reading_by(reader):
            answer = answer_influence(
                spark, requested, query.limit, lambda replayer: influences(replayer, RUNS_MAX)
            )
    print_warnings(answer.warnings)
    if as_json:
        print_json(answer.to_json())
    else:
        _show(answer)


def one_bad_row(query: SuspectsQuery) -> str:
    """The row whose influences are asked for.

    Raises:
        TraceError: it is not one.
    """
    if len(query.bad) != 1 or query.good:
        raise TraceError("--influence takes one row: name it by --bad, and no good ones")
    return query.bad[0]


def _show(answer: InfluenceAnswer) -> None:
    found, rows = answer.found, answer.rows
    made = rows_text(found.witnesses)
    how = (
        "in closed form"
        if found.how == "closed form"
        else f"by running the plan again: {found.why}"
    )
    echo(
        f"what it would be without each of the {made} that it is made from, {how}",
        fg=typer.colors.CYAN,
    )
    echo(f"now     {answer.before_text}", bold=True)
    for each in rows:
        tied = f" ({each.tied:,} tied)" if each.tied > 1 else ""
        echo(
            f"{each.rank}.{tied}  {_changed(answer, each.influence)}  without {each.place}: {each.text}"
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


def _changed(answer: InfluenceAnswer, each: Influence) -> str:
    """The columns that would have other values; those that Spark may round otherwise are marked."""
    if each.values is None:
        return "no row"
    changed = answer.changed(each)
    if not changed:
        return "the same"
    text = text_of_row(tuple(changed), tuple(changed.values()))
    unsure = answer.unsure(each)
    return f"{text} (approximate: {', '.join(unsure)})" if unsure else text

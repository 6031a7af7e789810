"""From records of an RDD that are rows of a DataFrame to the rows of sources that these were made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lineage_emitter import scope
from lineage_emitter.dataframes.traced_frames import FrameRows
from lineage_emitter.errors import TracingError
from lineage_emitter.program.lookups import Items, LineageView, named_records
from lineage_emitter.program.node_choice import NodeChoice, choose_node
from lineage_store.recipes import read_recipe

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session


def source_rows_of(
    view: LineageView,
    session: Session,
    items: Items,
    which: NodeChoice | None,
    reasons: Iterable[str],
) -> FrameRows:
    """The rows of sources that the rows of one DataFrame among the items were made from.

    ``which``: the source that they are records of, where there are several. ``reasons``: why the items are a superset.

    Raises:
        TracingError: no item is a row of a DataFrame, or the recipe is not there.
        ChoiceError: there are several.
        RefusedError: the plan allows no sound trace, or gives other rows now.
        ChangedSourceError: a source is not what it was.
    """
    from pyspark.sql import SparkSession

    from lineage_dataframes.trace.backward import trace_named

    named = named_records(items)
    if not named:
        raise TracingError("no row of a DataFrame is behind the items: rows() gives those of RDDs")
    node = choose_node(view, session, named, which)
    (frame,) = view.parents(node)
    recipe = read_recipe(view.graph, frame)
    if recipe is None:
        raise TracingError(f"the recipe of {view.text(frame)} has not arrived")
    names = named[node].positions().view(np.int64)
    with scope.suspended():
        spark = SparkSession(session.sc)
        witnesses = trace_named(spark, recipe, names, shown=0).witnesses
    all_reasons = tuple(dict.fromkeys((*reasons, *witnesses.reasons)))
    return FrameRows(spark, recipe, replace(witnesses, reasons=all_reasons))

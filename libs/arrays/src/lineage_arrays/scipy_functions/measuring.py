"""Measurements of ``scipy.ndimage``: of all cells, of labelled ones, and the labels themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, as_array
from lineage_arrays.cells import I64
from lineage_arrays.mappings import AllToAll, Chain, Gather, Inverse, Mapping
from lineage_arrays.scipy_functions.footprints import (
    WEIGHTS,
    exactly,
    same_cell,
    whole,
    whole_numbers,
)
from lineage_arrays.scipy_functions.rules import (
    Given,
    Related,
    Row,
    by_rules,
    chosen,
    everything,
    given,
    inputs_of,
    known_shape,
    known_shape_of,
    structured,
)
from lineage_arrays.workflow import AnyArray, Input, Operand


def group(of_call: Given, value: AnyArray) -> Related:
    """The cells with the label; without labels all."""
    source = of_call.shape("input")
    spread = of_call.call.name in ("ndimage.variance", "ndimage.standard_deviation")
    if spread and whole_numbers(of_call, "input"):
        return whole(source, value.shape, WEIGHTS)
    if of_call["labels"] is None:
        return exactly(AllToAll(source, value.shape))
    index = _group_index(of_call, value)
    if index is None or (of_call.call.name == "ndimage.median" and _absent(of_call)):
        return whole(source, value.shape)
    groups: Mapping = Inverse(Gather(value.shape, source, index))
    return exactly(chosen(groups) if isinstance(of_call.raw["labels"], Operand) else groups)


def _group_index(of_call: Given, value: AnyArray) -> Callable[[], I64] | None:
    """For each cell the place of its label in the index, plus one; None where it can't be said by one place."""
    labels = np.array(of_call["labels"])
    wanted = of_call["index"]
    if labels.shape != of_call.shape("input") or labels.dtype.kind not in "biu":
        return None
    if wanted is None:
        return lambda: (labels > 0).astype(np.int64)
    named = np.array(wanted)
    if named.dtype.kind not in "biu" or named.shape != value.shape:
        return None
    flat = named.reshape(-1)
    if len(np.unique(flat)) < len(flat):
        return None

    def index() -> I64:
        order = np.argsort(flat)
        at = np.searchsorted(flat, labels, sorter=order)
        place = order[np.minimum(at, len(flat) - 1)] if len(flat) else np.zeros_like(at)
        return np.where(flat[place] == labels, place + 1, 0) if len(flat) else at * 0

    return index


def _absent(of_call: Given) -> bool:
    """Whether a label has no cell: ``median`` gives one of another label then."""
    index = of_call["index"]
    return index is not None and not bool(np.isin(index, of_call["labels"]).all())


def of_labels(of_call: Given, value: AnyArray) -> Related:
    """Labels choose the cells."""
    shape = of_call.shape("labels")
    index = _group_index(of_call, value)
    if index is None:
        return whole(shape, value.shape)
    return exactly(chosen(Inverse(Gather(value.shape, shape, index))))


def labelled(call: Call) -> Result | Results:
    """``label``: each cell of an object from all cells of it, and their number from all cells."""
    of_call = given(call)
    labels, count = of_call.result
    operand = of_call.raw.get("input")
    if not isinstance(operand, Operand) or labels.shape != operand.current.shape:
        return known_shape_of(of_call)
    found = np.array(labels)

    def index() -> I64:
        # A cell of no object is by itself.
        background = found == 0
        groups = found.astype(np.int64)
        groups[background] = int(count) + np.arange(1, np.count_nonzero(background) + 1)
        return groups

    groups = (int(count) + int(np.count_nonzero(found == 0)),)
    members = Gather(groups, labels.shape, index)
    objects = chosen(Chain(Inverse(members), members))
    number = as_array(count)
    parts = [
        Result(labels, inputs_of(of_call, {"input": lambda *_: exactly(objects)}, labels)),
        Result(number, everything(of_call, number)),
    ]
    return Results(parts)


def place(call: Call) -> Result | Results:
    """``maximum_position`` and ``minimum_position`` of all cells: the first cell with the value."""
    of_call = given(call)
    operand = of_call.raw["input"]
    if of_call["labels"] is not None or not isinstance(operand, Operand):
        return known_shape_of(of_call)
    shape = operand.current.shape
    at = int(np.ravel_multi_index([int(number) for number in of_call.result], shape)) + 1
    witness = chosen(Gather(shape, (), lambda: np.array(at)))

    def inputs(_: int, value: AnyArray) -> list[Input]:
        return inputs_of(of_call, {"input": lambda *_: exactly(witness)}, value)

    return structured(of_call, inputs)


def _grouped(cells: str, kind: Any = "exact") -> Row:
    handler: Handler = by_rules(input=group, labels=of_labels)
    return Row(handler, kind, cells)


_LEAVES = Row(None, "leaves", "values leave: traces of what is made of them say so")
_NOTHING = Row(None, "no lineage", "it takes no arrays, or looks at shapes and types alone")
_ALL = Row(known_shape, "superset", "all cells of each operand")

TABLE: dict[str, Row] = {
    **dict.fromkeys(
        ["sum", "sum_labels", "mean", "variance", "standard_deviation", "minimum", "maximum", "median"],
        _grouped("all cells, or those with the label; labels: chosen among all"),
    ),
    "label": Row(labelled, "chosen", "all cells of the object, of the background the cell itself; chosen among all"),
    **dict.fromkeys(
        ["maximum_position", "minimum_position"],
        Row(place, "chosen", "the first cell with the value; chosen among all (with labels: superset, all cells)"),
    ),
    **dict.fromkeys(["center_of_mass", "extrema", "histogram", "iterate_structure"], _ALL),
    **dict.fromkeys(["find_objects", "value_indices"], _LEAVES),
    "generate_binary_structure": _NOTHING,
    **dict.fromkeys(
        ["fourier_ellipsoid", "fourier_gaussian", "fourier_shift", "fourier_uniform"],
        Row(by_rules(input=same_cell("input")), "exact", "the cell itself"),
    ),
}  # fmt: skip

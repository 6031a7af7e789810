"""Rows of DataFrames that a Python function of a row failed on, and that the job went on without.

Where the user allows it (``LINEAGE_QUARANTINE``), a rule of the optimiser (``FailingRows.java``) puts a filter right above where Spark calls such functions:
rows pass on which none of them fails. So the rest of the plan gets the rows that it would get if the others were not there. It comes last, when Spark has decided which
functions it calls on which rows: what is not called does not fail. Of what is cached, these rows are gone: a statement that changes a table is refused where it
reads such a frame.

Tasks report the calls that failed, by their arguments (`lineage_emitter.worker.guarded_function`). A recipe holds the plan with the functions as the
program made them, above a filter that leaves out the rows with these arguments: it needs no code of the functions, and is the plan itself where nothing failed. What
was left out is a recipe of its own: the rows below the filter that have these arguments.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.serializers import CPickleSerializer

from lineage_core.contract.verdict import QUARANTINE
from lineage_core.recipe.document import Output, Recipe
from lineage_core.recipe.names import SET_ASIDE_CALL, SET_ASIDE_ERROR
from lineage_core.recipe.plan import (
    Attribute,
    Call,
    Column,
    Expression,
    Filter,
    Literal,
    Node,
    OpaqueExpression,
    Project,
    Union,
)
from lineage_emitter.dataframes.plan_text import FAILING_CLASS, compiled, install_rule
from lineage_emitter.dataframes.pruning import pruned
from lineage_emitter.failures import in_words
from lineage_emitter.pyspark_parts import SINCE_4_1
from lineage_emitter.worker.commits import MarkerParam
from lineage_emitter.worker.guarded_function import RUNNING, Arguments

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from lineage_emitter.settings import Settings

logger = logging.getLogger(__name__)

CALLS_MAX = 1_000
"""Calls of one function that a recipe names."""
TOO_MANY = (
    f"more than {CALLS_MAX:,} calls of a Python function failed, and their rows were set aside"
)
UNKNOWN = "rows on which a Python function fails are set aside, and which these are is not known"
NOT_ASKED = "rows that it failed on were left out, and no plan that was recorded says so"
NONE_SET_ASIDE = "LINEAGE_QUARANTINE sets nothing aside where %s"
ZEROS = {"0.0", "-0.0", "NaN"}
"""Doubles that are equal to others, or that Parquet's least and greatest values leave out: compared as texts."""

Calls = Mapping[Arguments, str]
"""Arguments on which a function failed, with the error."""


class _Reported(SimpleQueue[Any]):
    """Reports of tasks. ``rule``: is told at once which functions left rows out, before the job returns that did so."""

    def __init__(self) -> None:
        super().__init__()
        self.rule: Any = None
        self._functions = set[int]()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Take a report."""
        super().put(item, block, timeout)
        function = item["function"]
        if function not in self._functions:
            # Where Spark is gone, no statement reads what is cached.
            with suppress(Exception):
                self.rule.leftOut(function)
                self._functions.add(function)


class SetAsideCalls:
    """Calls that failed, of one application, by the number that their function has in Spark's plans. Thread-safe."""

    def __init__(self, sc: SparkContext, settings: Settings) -> None:
        # Rows are named by values: where none may be kept, none are set aside.
        may_keep = settings.values and not settings.redact
        self._records_max = settings.quarantine if may_keep else 0
        self._queue = _Reported()
        self._sc = sc
        self._id = uuid.uuid4().hex
        self._reports = sc.accumulator([], MarkerParam(self._queue)) if self._records_max else None
        self._lock = Lock()
        self._rule: Any = None
        self._calls: dict[int, dict[Arguments, str]] = {}
        self._asked: set[int] = set()
        """Functions that a recipe calls."""
        self._records: dict[int, dict[Arguments, dict[int, dict[int, int]]]] = {}
        """By function, call and stage, records by partition."""
        self._recipes: list[tuple[int, str, Recipe]] = []
        self.unguarded: dict[str, str] = {}
        """Functions of the latest action that failed which set nothing aside, by name, with how they get rows."""

    def install(self, spark: SparkSession) -> None:
        """Have the plans of a session go on from now on, where the user allows it."""
        if self._reports is None:
            return
        with self._lock:
            try:
                if self._rule is None:
                    reports = bytearray(CPickleSerializer().dumps((self._reports, self._id)))
                    self._rule = compiled(FAILING_CLASS).of(reports, self._records_max, SINCE_4_1)
                    self._queue.rule = self._rule
                install_rule(spark, self._rule.rule())
            except Exception as problem:
                # The program goes on, and a row that fails ends its job as ever.
                self._reports = None
                logger.warning("functions of DataFrames set nothing aside: %s", in_words(problem))

    @property
    def is_on(self) -> bool:
        """Whether plans are changed."""
        return self._reports is not None and self._rule is not None

    @contextmanager
    def running(self) -> Iterator[None]:
        """The body runs an action that reports what it leaves out: in jobs of others a row that fails ends them as ever."""
        if not self.is_on:
            yield
            return
        # The program may have stopped Spark.
        with suppress(Exception):
            self._sc.setLocalProperty(RUNNING, self._id)
        try:
            yield
        finally:
            with suppress(Exception):
                self._sc.setLocalProperty(RUNNING, None)  # type: ignore[arg-type]

    def end(self) -> None:
        """Capture has ended: plans are left as they are."""
        with self._lock:
            if self._rule is not None:
                self._rule.end()

    def of(self, function: int) -> Calls:
        """Calls of a function that failed so far."""
        with self._lock:
            self._take_reports()
            self._asked.add(function)
            return dict(self._calls.get(function, {}))

    def not_asked(self) -> list[int]:
        """Functions with calls that failed, of which no recipe knows."""
        with self._lock:
            self._take_reports()
            return sorted(self._calls.keys() - self._asked)

    def records(self, function: int) -> int:
        """How many records a function failed on: each call counts as in the stage that met it most often, as stages may compute the same rows anew."""
        with self._lock:
            self._take_reports()
            return sum(
                max(sum(by_partition.values()) for by_partition in by_stage.values())
                for by_stage in self._records.get(function, {}).values()
            )

    def add_recipe(self, function: int, name: str, recipe: Recipe) -> None:
        """Take the recipe of rows that a function left out, until :meth:`take_recipes`."""
        self._recipes.append((function, name, recipe))

    def take_recipes(self) -> list[tuple[int, str, Recipe]]:
        """What was taken since the last call: the function's number and name, and the recipe."""
        recipes, self._recipes = self._recipes, []
        return recipes

    def take_unguarded(self) -> str:
        """As `unguarded`, in words, once; empty where there is none, or none are set aside at all."""
        unguarded, self.unguarded = self.unguarded, {}
        if not self.is_on or not unguarded:
            return ""
        return NONE_SET_ASIDE % ", ".join(
            f"{name} gets {how}" for name, how in sorted(unguarded.items())
        )

    def _take_reports(self) -> None:
        while True:
            try:
                report = self._queue.get_nowait()
            except Empty:
                return
            function, call = report["function"], report["arguments"]
            self._calls.setdefault(function, {}).setdefault(call, report["error"])
            by_stage = self._records.setdefault(function, {}).setdefault(call, {})
            by_partition = by_stage.setdefault(report["stage"], {})
            partition = report["partition"]
            by_partition[partition] = max(report["records"], by_partition.get(partition, 0))


# -- in recipes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CalledRows:
    """Rows of a node of a plan that a function gets, by its place, with the arguments by which they are told."""

    below: int
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class SetAsideRows:
    """Rows that a function left out: those of ``inputs`` on which its call is one of ``calls``. Several inputs: it gets rows of all with equal arguments at once."""

    number: int
    name: str
    inputs: tuple[CalledRows, ...]
    types: tuple[str, ...]
    calls: Calls

    def condition(self, arguments: tuple[Expression, ...]) -> Expression:
        """That a row with these arguments is one of them."""
        if len(self.calls) > CALLS_MAX:
            return OpaqueExpression(self.name, TOO_MANY, arguments, "boolean")
        return balanced("or", [self._is_call(arguments, values) for values in self.calls])

    def _is_call(self, arguments: tuple[Expression, ...], values: Arguments) -> Expression:
        equal = [
            _equals(argument, value, kind)
            for argument, value, kind in zip(arguments, values, self.types, strict=True)
        ]
        return balanced("and", equal) if equal else Literal("true", "boolean")

    def nodes(self, plan: Sequence[Node]) -> list[Node]:
        """The plan of these rows alone: the arguments, the number of the call, and the error."""
        kept = list(plan[: max(rows.below for rows in self.inputs) + 1])
        called = self.inputs[0] if len(self.inputs) == 1 else self._united(kept)
        below = kept[called.below].columns
        first = _next_column(kept)
        by_id = {column.id: column.name for column in below}
        numbers, errors = list[Expression](), list[Expression]()
        for number, (values, error) in enumerate(islice(self.calls.items(), CALLS_MAX), 1):
            is_call = self._is_call(called.arguments, values)
            numbers += [is_call, Literal(str(number), "int")]
            errors += [is_call, Literal(error, "string")]
        names = [
            by_id.get(argument.id, "") if isinstance(argument, Column) else ""
            for argument in called.arguments
        ]
        names = [
            name if name and names.count(name) == 1 else f"argument {n}"
            for n, name in enumerate(names, 1)
        ]
        described = [
            *zip(names, self.types, strict=True),
            (SET_ASIDE_CALL, "int"),
            (SET_ASIDE_ERROR, "string"),
        ]
        columns = tuple(Attribute(first + n, *named) for n, named in enumerate(described))
        expressions = (
            *called.arguments,
            Call("case", tuple(numbers)),
            Call("case", tuple(errors)),
        )
        left_out = Filter(below, called.below, self.condition(called.arguments))
        return pruned([*kept, left_out, Project(columns, len(kept), expressions)])

    def _united(self, plan: list[Node]) -> CalledRows:
        """The arguments of all inputs, as rows of one node that is added to the plan."""
        sides: list[int] = []
        for rows in self.inputs:
            by_id = {column.id: column.name for column in plan[rows.below].columns}
            first = _next_column(plan)
            columns = tuple(
                Attribute(
                    first + n,
                    by_id.get(argument.id, "") if isinstance(argument, Column) else "",
                    kind,
                )
                for n, (argument, kind) in enumerate(zip(rows.arguments, self.types, strict=True))
            )
            plan.append(Project(columns, rows.below, rows.arguments))
            sides.append(len(plan) - 1)
        columns = plan[sides[0]].columns
        plan.append(Union(columns, tuple(sides)))
        return CalledRows(len(plan) - 1, tuple(Column(column.id) for column in columns))

    def recipe(self, of: Recipe, plan: Sequence[Node]) -> Recipe:
        """The recipe of these rows. ``of``: the action's, ``plan``: its nodes before it was pruned."""
        output = Output(action=QUARANTINE)
        return replace(of, plan=tuple(self.nodes(plan)), output=output, signature="")


def _next_column(plan: Sequence[Node]) -> int:
    """A number that no column of a plan has, nor those that follow."""
    return max((column.id for node in plan for column in node.columns), default=0) + 1


def _equals(argument: Expression, value: str | None, kind: str) -> Expression:
    if value is None:
        return Call("is null", (argument,))
    if kind in {"float", "double"} and value in ZEROS:
        text = Call("cast", (argument,), type="string")
        return Call("<=>", (text, Literal(value, "string")))
    if kind == "timestamp":
        return Call("<=>", (argument, Call("timestamp_micros", (Literal(value, "bigint"),))))
    return Call("<=>", (argument, Literal(value, kind)))


def balanced(operator: str, parts: list[Expression]) -> Expression:
    """Operands of ``and`` or ``or`` as a tree that is as flat as can be: readers go down into each."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    halves = map(partial(balanced, operator), (parts[:middle], parts[middle:]))
    return Call(operator, tuple(halves))

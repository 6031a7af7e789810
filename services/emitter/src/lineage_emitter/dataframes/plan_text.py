"""Plans of Catalyst as trees.

``PlanText.java`` writes a whole plan as one JSON text; a call per node would cost a hundred times as much. Spark's own
``TreeNode.toJSON`` leaves out much of what decides rows (sets, nested lists, what is evaluated how), looks up the names
of fields by reflection each time, and its texts are long: py4j's socket holds the end of any answer of more than 8 KB
back for up to 40 ms (Nagle's algorithm meets delayed acknowledgements), so the text comes in parts.

The text is ``{"plan": node, "types": {column: type}, "relations": [...]}``. A node has its ``class``, its ``children``, and
its class's arguments by name; of these, a child is its place among the children. A column is its number (``exprId``), an
object of Scala its name, an option what it holds. What has no form here is null. Leaves and Python functions have
``kept``, the place of the object itself.
"""

from __future__ import annotations

import json
import threading
import zlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from pyspark import SparkContext

WRITER_CLASS = "lineage.PlanText"
WATCHING_CLASS, PASSING_CLASS = "lineage.WatchedRows", "lineage.PassingRows"
RULES_CLASS = "lineage.PlanRules"
FAILING_CLASS = "lineage.FailingRows"
_BELOW = {
    FAILING_CLASS: "lineage.FailingGroups",
    "lineage.FailingGroups": PASSING_CLASS,
    RULES_CLASS: PASSING_CLASS,
    PASSING_CLASS: "lineage.PickledCall",
    "lineage.TimedFunctions": PASSING_CLASS,
    WATCHING_CLASS: "lineage.TimedFunctions",
}
"""What a class leans on: it is compiled before, with what it leans on itself."""

PART_BYTES = 6000
"""Of a text at once: py4j sends them in base64, which makes less than 8 KB."""

PlanRelation = dict[str, Any]
"""What a leaf reads: ``class``, ``kept``, and of files their ``format``, ``schema`` ... (see ``PlanText.java``)."""


class PlanObjects:
    """Objects of the JVM that a text names, and relations of the plan."""

    def __init__(self, text: Any, relations: list[PlanRelation]) -> None:
        self._text = text
        self.relations = relations

    def object(self, place: int) -> Any:
        """The object at a place."""
        return self._text.kept(place)


@dataclass(frozen=True)
class Tree:
    """A plan's or expression's node: its class without the package, its fields, what the JVM holds of it."""

    kind: str
    fields: dict[str, Any]
    children: tuple[Tree, ...]
    held: PlanObjects

    def tree(self, field: str) -> Tree | None:
        """The expression or plan in ``field``; None where it is empty."""
        raw = self.fields.get(field)
        return None if raw is None else _tree(raw, self.held)

    def trees(self, field: str) -> list[Tree]:
        """The expressions in ``field``, a list."""
        return [_tree(raw, self.held) for raw in self.fields.get(field) or ()]

    def rows(self, field: str) -> list[list[Tree]]:
        """The expressions in ``field``, a list of lists."""
        return [[_tree(raw, self.held) for raw in row] for row in self.fields[field]]

    @cached_property
    def java(self) -> Any:
        """The object itself; leaves and Python functions have one."""
        return self.held.object(self.fields["kept"])

    @property
    def relation(self) -> PlanRelation:
        """What a leaf reads."""
        relation: PlanRelation = self.held.relations[self.fields["relation"]]
        return relation


def _tree(raw: dict[str, Any], held: PlanObjects) -> Tree:
    below = tuple([_tree(child, held) for child in raw["children"]])
    return Tree(raw["class"], raw, below, held)


def read_plan(plan: Any) -> tuple[Tree, dict[int, Any]]:
    """A plan (Spark's object) as a tree, and the types (Spark's JSON) of the columns that it names, by number."""
    plan_text = compiled(WRITER_CLASS).of(plan)
    text = json.loads(zlib.decompress(_packed(plan_text)))
    types = {int(position): kind for position, kind in text["types"].items()}
    return _tree(text["plan"], PlanObjects(plan_text, text["relations"])), types


def _packed(plan_text: Any) -> bytes:
    packed = bytearray()
    while True:
        part = plan_text.packed(len(packed), PART_BYTES)
        packed += part
        if len(part) < PART_BYTES:
            return bytes(packed)


def said(by: Any, method: str, *arguments: Any) -> str:
    """The text that a method of a Spark object gives; a long one is quick (see above) once the writer is compiled.

    The program itself may wait for it, and shall not wait for a compiler.
    """
    gateway: Any = _context()._gateway
    if _compiled.get(WRITER_CLASS, _NONE)[0] is not gateway:
        return str(getattr(by, method)(*arguments))
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for position, argument in enumerate(arguments):
        array[position] = argument
    packed_text = compiled(WRITER_CLASS).said(by, method, array)
    return zlib.decompress(_packed(packed_text)).decode("utf-8", "replace")


def _context() -> Any:
    # Not by SparkSession.getActiveSession: that may change which session is the program's.
    return SparkContext._active_spark_context


_NONE = (None, None, None)
_compiled: dict[str, tuple[Any, Any, Any]] = {}
"""By class, the gateway, the object in its JVM, and the code of all classes of its file."""
_compiling = threading.Lock()
"""Two classes of one name, which threads had compiled at once, py4j takes for one: calls then fail."""


def compiled(name: str, loader: Any = None) -> Any:
    """An object of a class that stands beside this module; compiled once a JVM, in some tenths of a second.

    ``loader``: the class loader (Java's) that knows the classes it leans on; None: Spark's.
    """
    gateway: Any = _context()._gateway
    with _compiling:
        return _compiled_with_those_below(gateway, name, loader)


def _compiled_with_those_below(gateway: Any, name: str, loader: Any = None) -> Any:
    if _compiled.get(name, _NONE)[0] is not gateway:
        below = _BELOW.get(name)
        if below is not None:
            held = _compiled_with_those_below(gateway, below, loader)
            loader = held.getClass().getClassLoader()
        _compiled[name] = gateway, *_compile(gateway, name, loader)
    return _compiled[name][1]


def class_files(name: str) -> Any:
    """The code of a class and of those within it, by name (a map of Java's)."""
    compiled(name)
    return _compiled[name][2]


def compiled_before(name: str) -> Any:
    """An object of a class, where it has been compiled for this JVM; else None."""
    gateway, held, _ = _compiled.get(name, _NONE)
    return held if held is not None and gateway is _context()._gateway else None


def install_rule(spark: Any, rule: Any) -> None:
    """Have a rule of the optimiser (Spark's object) change the plans of a session, in the place of one of its kind."""
    compiled(RULES_CLASS).install(spark._jsparkSession.experimental(), rule)


def without_watches(plan: Any) -> Any:
    """A plan (Spark's object) without what lets its rows be watched."""
    watching = compiled_before(WATCHING_CLASS)
    return plan if watching is None else watching.plain(plan)


def _compile(gateway: Any, name: str, loader: Any) -> tuple[Any, Any]:
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(
        loader or jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    )
    source = files(__package__).joinpath(f"{name.rpartition('.')[2]}.java")
    compiler.cook(source.read_text("utf-8"))
    compiled_class = compiler.getClassLoader().loadClass(name)
    nothing = gateway.new_array(jvm.java.lang.Class, 0)
    none = gateway.new_array(jvm.java.lang.Object, 0)
    return compiled_class.getConstructor(nothing).newInstance(none), compiler.getBytecodes()

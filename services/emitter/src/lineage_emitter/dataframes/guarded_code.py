"""Python functions that the rule for failing rows changed (``FailingRows.java``, ``FailingGroups.java``), as they stand in a plan."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any

from lineage_emitter.dataframes.plan_text import Tree
from lineage_emitter.worker.guarded_function import KEPT

FLAG = f"{KEPT}:"
"""In the plan, before the number of a function that gets rows by Arrow: the name of what says which rows it did not fail on."""

OF_GROUPS = "__lineage_groups:"
"""In the plan, before the name of a function of groups that sets some aside."""

WORKER = "lineage_emitter.worker."
WRITTEN = {
    ("guarded_function", "guarded"),
    ("guarded_batches", "guarded_values"),
    ("guarded_groups", "guarded_groups"),
    ("guarded_groups", "guarded_pairs"),
    ("guarded_groups", "guarded_aggregate"),
}
"""What is called in the place of functions, by module of `lineage_emitter.worker`: the number comes third, then types and chain."""


@dataclass(frozen=True)
class GuardedCode:
    """A function as the rule found it: ``number``: in Spark's plans, ``types`` of its arguments, ``chain``: name, type and code, the innermost first."""

    number: int
    types: tuple[str, ...]
    chain: tuple[tuple[str, str, bytes], ...]

    @property
    def name(self) -> str:
        """What it is called: ``outer(inner)`` where Spark gives one function the value of another."""
        first, *others = (name for name, _, _ in self.chain)
        for name in others:
            first = f"{name}({first})"
        return first


def is_guarded(udf: Tree) -> bool:
    """Whether the rule changed a function of a plan that gets each row by itself."""
    kind = udf.fields.get("dataType")
    if not isinstance(kind, dict) or kind.get("type") != "struct":
        return False
    return [field["name"] for field in kind["fields"]] == [KEPT]


def flagged(udf: Tree) -> int | None:
    """The number of the function whose rows this one says of, where the rule added it to a plan; None: it did not."""
    name = str(udf.fields["name"])
    return int(name.removeprefix(FLAG)) if name.startswith(FLAG) else None


def sets_groups_aside(udf: Tree) -> bool:
    """Whether the rule changed a function of groups."""
    return str(udf.fields["name"]).startswith(OF_GROUPS)


def name_of(udf: Tree) -> str:
    """What a function of a plan is called."""
    return str(udf.fields["name"]).removeprefix(OF_GROUPS)


def guarded_code(command: bytes) -> GuardedCode:
    """What the rule wrote as the code of a function; none of the program's code is loaded."""
    number, types, *chain = _Parts(command).load()
    code = zip(chain[::3], chain[1::3], chain[2::3], strict=True)
    return GuardedCode(int(number), tuple(types.split("|")) if types else (), tuple(code))


class _Parts(pickle.Unpickler):
    """Gives the arguments of the one call that a command is."""

    def __init__(self, command: bytes) -> None:
        super().__init__(io.BytesIO(command))

    def find_class(self, module: str, name: str) -> Any:
        if (module.rpartition(".")[2], name) not in WRITTEN or not module.startswith(WORKER):
            raise pickle.UnpicklingError(f"{module}.{name} is not what was written")
        return lambda _, __, *parts: parts

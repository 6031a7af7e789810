"""How captured RDDs were made: what a replay makes again.

Each RDD notes the public call of the program that made it: the method, its receiver and arguments.
What a method is composed of inside is not noted: a replay calls the method again.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.errors import TracingError
from lineage_emitter.worker.record_selection import OrdinalsBySplit

SEEDED = {"sample": sys.maxsize, "sampleByKey": sys.maxsize, "randomSplit": 2**32 - 1}
"""Methods that draw their seed when they are called, and the largest seed that PySpark draws."""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that come from outside: ``plain`` gives those of the source ``node``, in its splits.

    ``lasting``: they come in the same order each time. ``kept``: the RDD reads just these of
    ``whole`` (a captured replay does so); None: all.
    """

    node: str
    plain: RDD[Any]
    lasting: bool = True
    kept: OrdinalsBySplit | None = None
    whole: RDD[Any] | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """A call that gave an RDD, or a list with it at ``part``."""

    name: str
    make: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)
    part: int | None = None

    def inputs(self) -> list[RDD[Any]]:
        """The RDDs among the arguments, the receiver first."""
        return list(_rdds_in((*self.arguments, *self.named.values())))

    def again(self, made: Callable[[RDD[Any]], RDD[Any]]) -> RDD[Any]:
        """The call with other RDDs for its inputs."""
        named = {name: replaced(value, made) for name, value in self.named.items()}
        result = self.make(*(replaced(one, made) for one in self.arguments), **named)
        found: RDD[Any] = result if self.part is None else result[self.part]
        return found


Recipe: TypeAlias = Source | Call


def recipe_of(rdd: RDD[Any]) -> Recipe | None:
    """How an RDD was made; None: that is not known."""
    return getattr(rdd, "recipe", None)


def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A public method of captured RDDs whose result notes the call."""

    @functools.wraps(method)
    def call(self: RDD[Any], /, *arguments: Any, **named: Any) -> Any:
        if scope.is_suspended() or scope.outermost() is not None:
            return method(self, *arguments, **named)
        if name in SEEDED:
            arguments, named = _with_seed(name, (self, *arguments), named)
        result = method(self, *arguments, **named)
        note(result, Call(name, functools.partial(_method, name), (self, *arguments), named))
        return result

    return call


def note(result: Any, call: Call) -> None:
    """Let what a call gave remember it. Other things than new RDDs remember nothing."""
    if isinstance(result, RDD):
        _note(result, call)
    elif isinstance(result, (list, tuple)) and result and isinstance(result[0], RDD):
        for part, rdd in enumerate(result):
            _note(rdd, Call(call.name, call.make, call.arguments, call.named, part))


def upstream(rdd: RDD[Any]) -> list[RDD[Any]]:
    """The RDD and all that it was made from, each behind those that it was made from."""
    found: dict[int, RDD[Any]] = {}
    todo: list[tuple[RDD[Any], bool]] = [(rdd, False)]
    while todo:
        one, is_ready = todo.pop()
        if id(one) in found:
            continue
        recipe = recipe_of(one)
        if is_ready or not isinstance(recipe, Call):
            found[id(one)] = one
            continue
        todo.append((one, True))
        todo.extend((other, False) for other in recipe.inputs())
    return list(found.values())


def made_again(goal: RDD[Any], cut: Callable[[RDD[Any], Source], RDD[Any]]) -> RDD[Any]:
    """``goal`` by the same calls from other sources: ``cut`` gives one for each.

    RDDs without lineage stay as they are.

    Raises:
        TracingError: it is not known how a captured RDD on the way was made.
    """
    made: dict[int, RDD[Any]] = {}
    for rdd in upstream(goal):
        recipe = recipe_of(rdd)
        if isinstance(recipe, Source):
            made[id(rdd)] = cut(rdd, recipe)
        elif recipe is not None:
            made[id(rdd)] = recipe.again(lambda one: made[id(one)])
        elif hasattr(rdd, "node"):
            raise TracingError(
                f"node {rdd.node.name} can't be run again: no call of the program made its RDD"
            )
        else:
            made[id(rdd)] = rdd
    return made[id(goal)]


def _note(rdd: RDD[Any], call: Call) -> None:
    # A method may give back its receiver (partitionBy, cache), or another RDD that is known.
    if recipe_of(rdd) is None and not any(rdd is one for one in call.inputs()):
        rdd.recipe = call  # type: ignore[attr-defined]


def _method(name: str, receiver: Any, /, *arguments: Any, **named: Any) -> Any:
    return getattr(receiver, name)(*arguments, **named)


def _with_seed(
    name: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments behind the receiver, with the seed that PySpark would draw, drawn alike."""
    try:
        bound = inspect.signature(getattr(RDD, name)).bind(*arguments, **named)
    except TypeError:
        return arguments[1:], named  # the method says what is wrong
    if bound.arguments.get("seed") is None:
        bound.arguments["seed"] = random.randint(0, SEEDED[name])
    return bound.args[1:], bound.kwargs


def _rdds_in(value: Any) -> Iterator[RDD[Any]]:
    if isinstance(value, RDD):
        yield value
    elif type(value) in (list, tuple):
        for one in value:
            yield from _rdds_in(one)


def replaced(value: Any, made: Callable[[RDD[Any]], RDD[Any]]) -> Any:
    """An argument with other RDDs for those that it is, or that are in it."""
    if isinstance(value, RDD):
        return made(value)
    if type(value) in (list, tuple) and any(True for _ in _rdds_in(value)):
        return type(value)(replaced(one, made) for one in value)
    return value

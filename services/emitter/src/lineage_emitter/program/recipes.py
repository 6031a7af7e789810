"""How captured RDDs were made: what a replay makes again.

Each RDD records the public call of the program that made it: the method, its receiver and arguments.
What a method is composed of inside is not recorded: a replay calls the method again.
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
class SourceRecipe:
    """Rows that come from outside: ``plain`` gives those of the source ``node``, in its splits.

    ``repeatable``: they come in the same order each time. ``ordinals``: the RDD reads just these of
    ``full_rdd`` (a captured replay does so); None: all.
    """

    node: str
    plain: RDD[Any]
    repeatable: bool = True
    ordinals: OrdinalsBySplit | None = None
    full_rdd: RDD[Any] | None = None


@dataclass(frozen=True, eq=False)
class CallRecipe:
    """A call that gave an RDD, or a list with it at ``part``."""

    name: str
    make: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)
    part: int | None = None

    def inputs(self) -> list[RDD[Any]]:
        """The RDDs among the arguments, the receiver first."""
        return list(_rdds_in((*self.arguments, *self.named.values())))

    def repeat(self, replacement: Callable[[RDD[Any]], RDD[Any]]) -> RDD[Any]:
        """The call with other RDDs for its inputs."""
        named = {name: replace_rdds(value, replacement) for name, value in self.named.items()}
        result = self.make(
            *(replace_rdds(argument, replacement) for argument in self.arguments), **named
        )
        rdd: RDD[Any] = result if self.part is None else result[self.part]
        return rdd


RddRecipe: TypeAlias = SourceRecipe | CallRecipe


def recipe_of(rdd: RDD[Any]) -> RddRecipe | None:
    """How an RDD was made; None: that is not known."""
    return getattr(rdd, "recipe", None)


def recording_call(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A public method of captured RDDs whose result records the call."""

    @functools.wraps(method)
    def call(self: RDD[Any], /, *arguments: Any, **named: Any) -> Any:
        if scope.is_suspended() or scope.outermost() is not None:
            return method(self, *arguments, **named)
        if name in SEEDED:
            arguments, named = _with_seed(name, (self, *arguments), named)
        result = method(self, *arguments, **named)
        record_call(
            result, CallRecipe(name, functools.partial(_method, name), (self, *arguments), named)
        )
        return result

    return call


def record_call(result: Any, call: CallRecipe) -> None:
    """Record on new RDDs the call that gave them; other results record nothing."""
    if isinstance(result, RDD):
        _set_recipe(result, call)
    elif isinstance(result, (list, tuple)) and result and isinstance(result[0], RDD):
        for part, rdd in enumerate(result):
            _set_recipe(rdd, CallRecipe(call.name, call.make, call.arguments, call.named, part))


def upstream_rdds(rdd: RDD[Any]) -> list[RDD[Any]]:
    """The RDD and all that it was made from, each behind those that it was made from."""
    ordered: dict[int, RDD[Any]] = {}
    todo: list[tuple[RDD[Any], bool]] = [(rdd, False)]
    while todo:
        current, is_ready = todo.pop()
        if id(current) in ordered:
            continue
        recipe = recipe_of(current)
        if is_ready or not isinstance(recipe, CallRecipe):
            ordered[id(current)] = current
            continue
        todo.append((current, True))
        todo.extend((input_rdd, False) for input_rdd in recipe.inputs())
    return list(ordered.values())


def rebuild(goal: RDD[Any], cut: Callable[[RDD[Any], SourceRecipe], RDD[Any]]) -> RDD[Any]:
    """``goal`` by the same calls from other sources: ``cut`` gives one for each.

    RDDs without lineage stay as they are.

    Raises:
        TracingError: it is not known how a captured RDD on the way was made.
    """
    replacement: dict[int, RDD[Any]] = {}
    for rdd in upstream_rdds(goal):
        recipe = recipe_of(rdd)
        if isinstance(recipe, SourceRecipe):
            replacement[id(rdd)] = cut(rdd, recipe)
        elif recipe is not None:
            replacement[id(rdd)] = recipe.repeat(lambda rdd_input: replacement[id(rdd_input)])
        elif hasattr(rdd, "node"):
            raise TracingError(
                f"node {rdd.node.name} can't be run again: no call of the program made its RDD"
            )
        else:
            replacement[id(rdd)] = rdd
    return replacement[id(goal)]


def _set_recipe(rdd: RDD[Any], call: CallRecipe) -> None:
    # A method may give back its receiver (partitionBy, cache), or another RDD that is known.
    if recipe_of(rdd) is None and not any(rdd is rdd_input for rdd_input in call.inputs()):
        rdd.recipe = call  # type: ignore[attr-defined]


def _method(name: str, receiver: Any, /, *arguments: Any, **named: Any) -> Any:
    return getattr(receiver, name)(*arguments, **named)


def _with_seed(
    name: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments behind the receiver, with the seed that PySpark would draw, drawn in the same way."""
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
        for element in value:
            yield from _rdds_in(element)


def replace_rdds(value: Any, replacement: Callable[[RDD[Any]], RDD[Any]]) -> Any:
    """An argument with other RDDs for those that it is, or that are in it."""
    if isinstance(value, RDD):
        return replacement(value)
    if type(value) in (list, tuple) and any(True for _ in _rdds_in(value)):
        return type(value)(replace_rdds(element, replacement) for element in value)
    return value

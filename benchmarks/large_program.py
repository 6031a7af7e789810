"""A generated program: stages of some operators each, every stage behind one or two before it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from lineage_emitter import LineageApi

SEED = 7
SOURCES = 12
STAGE_NODES = (3, 11)
REACH = 36
"""How many stages back the inputs of a stage are at most, beyond as many as there are sources."""
NAMES = {"source": "textFile", "shuffle": "reduceByKey", "sink": "collect"}
OPERATORS = ("map", "filter", "flatMap", "mapValues", "keyBy")


def report_program(store: str, nodes: int) -> str:
    """Store an application of so many nodes with a single flow; its id."""
    choose = random.Random(SEED)
    with LineageApi("generated program", store=store, link=True) as api:
        stages: list[list[str]] = []
        for stage in _stages(choose, nodes):
            begins = "source" if len(stages) < SOURCES else "operator"
            # A stage ends where the next one's shuffle begins.
            kinds = {stage[0]: begins, stage[-1]: "shuffle", str(nodes - 1): "sink"}
            for node in stage:
                kind: Any = kinds.get(node, "operator")
                name = NAMES.get(kind) or choose.choice(OPERATORS)
                api.register(node, name, kind=kind, call_site=f"generated.py:{node}")
            for src, dest in pairwise(stage):
                api.link(src, dest)
            for _ in range(choose.choice((1, 2)) if len(stages) >= SOURCES else 0):
                before = stages[max(0, len(stages) - SOURCES - choose.randrange(REACH))]
                api.link(before[-1], stage[0])
            stages.append(stage)
        # Without a single flow the verdict would be that nothing was captured.
        with api.task(str(nodes - 1)):
            api.capture("flow", "row", "result")
    return api.app


def _stages(choose: random.Random, nodes: int) -> Iterator[list[str]]:
    first_task = 0
    while first_task < nodes:
        size = min(choose.randint(*STAGE_NODES), nodes - first_task)
        yield [str(first_task + index) for index in range(size)]
        first_task += size

"""What is known of a subject's values once its rows are gone: from the query alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product

from lineage_query.conditions import AllOrAny, ColumnTest, ConditionTree, parse_condition
from lineage_query.erasure.finding import SubjectQuery

VALUES_MAX = 100_000


def known_values(query: SubjectQuery) -> list[Mapping[str, str]]:
    """The values that a query names, a subject each; none where it names rows otherwise than by equal values."""
    if query.subjects.keys:
        columns = query.subjects.columns
        return [dict(zip(columns, key, strict=True)) for key in query.subjects.keys]
    if not query.where:
        return []
    tests = _equal(parse_condition(query.where).tree)
    if tests is None:
        return []
    choices = [[(test.column, constant.value) for constant in test.constants] for test in tests]
    rows: list[Mapping[str, str]] = [dict(row) for row in islice(product(*choices), VALUES_MAX + 1)]
    return rows if len(rows) <= VALUES_MAX else []


def _equal(tree: ConditionTree) -> list[ColumnTest] | None:
    """The tests of a condition that all ask for equal values; None where it asks for others, too."""
    match tree:
        case ColumnTest(operator="=" | "==" | "<=>" | "IN", negated=False):
            return [tree]
        case AllOrAny("AND", terms):
            tests: list[ColumnTest] = []
            for term in terms:
                inner = _equal(term)
                if inner is None:
                    return None
                tests += inner
            return tests
        case _:
            return None

"""Conditions on records, against Python's own evaluation of the same text."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.record_conditions import RecordConditionError, read_condition

pytestmark = pytest.mark.unit

VALUES = st.sampled_from(
    [
        "record",
        "record[0]",
        "record[-1]",
        "record['a']",
        "len(record)",
        "len(record[1])",
        "3",
        "-1",
        "'b'",
        "None",
        "(1, 'b')",
    ]
)
OPERATORS = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
COMPARISONS = st.one_of(
    st.builds("{} {} {}".format, VALUES, OPERATORS, VALUES),
    st.builds("{} {} {} {} {}".format, VALUES, OPERATORS, VALUES, OPERATORS, VALUES),
    st.builds("{} is None".format, VALUES),
    st.builds("{} is not None".format, VALUES),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda parts: st.one_of(
        st.builds("({} and {})".format, parts, parts),
        st.builds("({} or {})".format, parts, parts),
        st.builds("not ({})".format, parts),
    ),
    max_leaves=4,
)
RECORDS = st.sampled_from(
    [
        None,
        3,
        -1,
        "b",
        "abc",
        (3, "b"),
        (1, "abc", 2),
        {"a": 3},
        {"a": "b", 0: 1},
        [None, [1, 2]],
        (1, "b"),
    ]
)


def outcome(test: Any, record: Any) -> Any:
    try:
        return bool(test(record))
    except Exception as problem:
        return type(problem)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@given(CONDITIONS, RECORDS)
def test_a_condition_holds_where_pythons_own_evaluation_says_so(text: str, record: Any) -> None:
    try:
        condition = read_condition(text)
    except RecordConditionError:
        assert "record" not in text
        return
    code = compile(text, "condition", "eval")
    assert outcome(condition, record) == outcome(
        lambda record: eval(code, {"record": record}), record
    )


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "record.__class__",
        "record(1)",
        "record[record]",
        "record ** 9 > 1",
        "[x for x in record]",
        "lambda: record",
        "len(record, 1) == 1",
        "len(*record) == 1",
        "record is 3",
        "record[0:1] == 'a'",
        "f'{record}' == 'a'",
        "(x := record)",
        "record if record else 1",
        "other == 1",
        "1 == 1",
        "",
        "record ==",
        "record == 1; record",
        "(" * 3000 + "record" + ")" * 3000,
        "record == " + "1" * 5000,
        " and ".join(["record == 1"] * 400),
    ],
)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(RecordConditionError):
        read_condition(text)


class _Made(dict[str, int]):
    """Makes what is missing, as a class of a job may."""

    def __missing__(self, key: str) -> int:
        self[key] = 7
        return 7


def test_a_condition_changes_no_record() -> None:
    for record in (defaultdict(int, b=1), _Made(b=1)):
        assert read_condition("record['b'] == 1")(record)
        with pytest.raises(KeyError):
            read_condition("record['a'] == 0")(record)
        assert dict(record) == {"b": 1}
    counted = Counter("b")
    assert read_condition("record['a'] == 0")(counted)
    assert dict(counted) == {"b": 1}
    passing = iter([1, 2, 3])
    for text in ("2 in record", "5 not in record"):
        with pytest.raises(TypeError):
            read_condition(text)(passing)
    assert list(passing) == [1, 2, 3]


class _Number(int):
    """Says that it is the one that was asked, and what."""

    def __gt__(self, other: Any) -> Any:
        return ("greater", other)

    def __lt__(self, other: Any) -> Any:
        return ("less", other)

    def __eq__(self, other: object) -> Any:
        return ("equal", other)

    def __hash__(self) -> int:
        return 0


class _Text(str):
    __slots__ = ()

    def __ge__(self, other: Any) -> Any:
        return ("not less", other)

    def __ne__(self, other: object) -> Any:
        return ("other", other)

    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize(
    "text",
    [
        *("record > 3", "record < 3", "record == 3", "record > True", "record == False"),
        *("record > 3.5", "record < -2.5", "record == 3.0", "record == (3,)", "record == None"),
        *("record >= 'b'", "record != 'b'", "record > 'b'", "record == 'b'", "record >= b'b'"),
        *("record in (3, 'b')", "record in [3.5]", "record not in (3,)", "record in 'abc'"),
    ],
)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::BytesWarning")
def test_a_record_s_own_comparisons_come_first(text: str) -> None:
    condition, code = read_condition(text), compile(text, "condition", "eval")
    for record in (_Number(3), _Number(4), _Text("b"), 3, 3.0, True, "b", b"b", (3,), None):
        expected = value_or_problem(lambda record: eval(code, {"record": record}), record)
        assert value_or_problem(condition, record) == expected


def value_or_problem(test: Any, record: Any) -> Any:
    try:
        return test(record)
    except Exception as problem:
        return type(problem)

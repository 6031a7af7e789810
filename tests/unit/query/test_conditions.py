"""Conditions that a server takes: read by a grammar, written anew, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_query.conditions import (
    CHARACTERS_MAX,
    DEPTH_MAX,
    ConditionError,
    parse_condition,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "sql", "columns"),
    [
        ("city = 'Oslo'", "(`city` = 'Oslo')", ("city",)),
        ("total > -4.5e3", "(`total` > -4.5e3)", ("total",)),
        (
            "a = 1 OR b <> 2 AND not c <=> TRUE",
            "((`a` = 1) OR ((`b` <> 2) AND (NOT (`c` <=> TRUE))))",
            ("a", "b", "c"),
        ),
        ("(a=1 or b=2) and a<3", "(((`a` = 1) OR (`b` = 2)) AND (`a` < 3))", ("a", "b")),
        ("a between 1 and 2 and b is not null", "((`a` BETWEEN 1 AND 2) AND (`b` IS NOT NULL))", ("a", "b")),
        ("a not in (1, 'x')", "(`a` NOT IN (1, 'x'))", ("a",)),
        ("`a``b` is null", "(`a``b` IS NULL)", ("a`b",)),
        ("day >= date '2024-02-29'", "(`day` >= DATE '2024-02-29')", ("day",)),
        ("at < TIMESTAMP '2024-02-29 12:00:00.5 +01:00'", "(`at` < TIMESTAMP '2024-02-29 12:00:00.5 +01:00')", ("at",)),
        ("name = '${env:HOME} -- /* ; é'", "(`name` = '\\u0024{env:HOME} -- /* ; é')", ("name",)),
    ],
)  # fmt: skip
def test_conditions_are_written_anew(text: str, sql: str, columns: tuple[str, ...]) -> None:
    condition = parse_condition(text)
    assert (condition.sql, condition.columns) == (sql, columns)


@pytest.mark.parametrize(
    "text",
    [
        "", "true", "a", "1 = 1", "a = b", "a =", "a = 1 b", "(a = 1", "a = 1)", "a = NULL", "a IN ()",
        "a LIKE 'x%'", "a RLIKE 'x'", "java_method('java.lang.System', 'exit', 1) = 1", "reflect('a', 'b') = 1",
        "a = (SELECT 1)", "a IN (SELECT a FROM csv.`/etc/passwd`)", "EXISTS (SELECT 1)", "csv.`/etc/passwd` = 1",
        "a = 1 UNION SELECT 1", "a = 1; DROP TABLE x", "a = 1 -- x", "a = 1 /* x */", "a = 'it''s'", r"a = 'it\'s'",
        "a = 'x' 'y'", 'a = "x"', "a = r'x'", "a = X'1F'", "a = 1L", "a = 1.5.2", "a = 0x1F", "a = 1e", "a + 1 = 2",
        "a[0] = 1", "a.b = 1", "a::int = 1", "CAST(a AS int) = 1", "a = DATE 'x'", "a = DATE '2024-01-01\u0000'",
        "a = INTERVAL '1' DAY", "a = 'x\u0000'", "a = ?", "a = :x", "`` = 1", "é = 1", "a = '\n' = 1", "select = 1",
        "a = " + "1" * 41, "a\u0000 = 1", "a = :x OR a = 1", "a = ${x}", "NOT", "a NOT = 1", "a IS 1",
    ],
)  # fmt: skip
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_condition(text)


def test_a_dollar_is_escaped_where_variables_are_substituted_alone() -> None:
    condition = parse_condition("price IN ('$5') AND NOT (a = '$' OR b BETWEEN '${' AND 'x')")
    assert "$" not in condition.sql
    assert condition.sql.replace("\\u0024", "$") == condition.expression
    assert "('$5')" in condition.expression


def test_size_and_depth_are_bounded() -> None:
    assert parse_condition("(" * DEPTH_MAX + "a = 1" + ")" * DEPTH_MAX).sql == "(`a` = 1)"
    for deep in ("(" * (DEPTH_MAX + 1) + "a = 1" + ")" * (DEPTH_MAX + 1), "not " * 1_000 + "a = 1"):
        with pytest.raises(ConditionError, match="at most 50 parentheses"):
            parse_condition(deep)
    with pytest.raises(ConditionError, match="at most 4,096 characters"):
        parse_condition("a = '" + "x" * CHARACTERS_MAX + "'")


def test_columns_are_those_of_the_output() -> None:
    condition = parse_condition("City = 'Oslo' AND total > 4")
    condition.check_columns(["city", "total", "other"])
    with pytest.raises(ConditionError, match="no column 'total'"):
        condition.check_columns(["city"])
    with pytest.raises(ConditionError, match="several columns 'City'"):
        condition.check_columns(["city", "CITY", "total"])


PIECES = st.sampled_from(
    ["a", "`b`", "=", "<", "1", "-2.5", "'x'", "'", "AND", "or", "NOT", "(", ")", "IN", ",", "IS", "NULL", "BETWEEN",
     "DATE", "'2024-01-01'", "$", "\\", "--", ";", "SELECT", "f(", ".", "\0", "\n", "`"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_what_is_understood_is_understood_alike_when_it_is_written_anew(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ConditionError:
        return
    assert parse_condition(condition.sql).columns == condition.columns
    bare = "".join(condition.sql.split("'")[::2])
    assert not set(";\\$\0\n") & set(bare)
    assert "--" not in bare

"""One answer of those of several applications, and of those that could not be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.composing import composed, query_all
from lineage_query.planning import ApplicationQuery, Plan
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import NoSuchRowError, StoreUnavailableError

pytestmark = pytest.mark.unit

FORWARD = TraceQuery(Direction.FORWARD, ("in.csv:2",))


def group(node: str, *places: str, more: int = 0) -> Group:
    items = tuple(Item(place, place, None) for place in places)
    return Group(node, f"write {node}", "save", "out", len(items) + more, items)


def answer(app: str, *groups: Group, start: tuple[Group, ...] = ()) -> Answer:
    return Answer(app, Direction.FORWARD, ("in.csv:2",), start, True, (), groups, (), False, True)


def parts(*apps: str, **more: frozenset[str]) -> tuple[ApplicationQuery, ...]:
    return tuple(ApplicationQuery(replace(FORWARD, app=app), **more) for app in apps)  # type: ignore[arg-type]


def asking(**told: Answer | LineageError) -> Callable[[ApplicationQuery], Answer]:
    """Asks applications that have an answer each, or an error."""

    def ask(part: ApplicationQuery) -> Answer:
        found = told[part.query.app or ""]
        if isinstance(found, LineageError):
            raise found
        return found

    return ask


def test_groups_name_their_applications_and_the_answer_all_of_them() -> None:
    # Two applications have nodes of one name: they are two groups.
    found = composed(
        FORWARD,
        [answer("b", group("1", "out/1"), start=(group("0", "in.csv:2"),)), answer("a", group("1", "out/1"))],
    )  # fmt: skip
    assert [(one.app, one.node) for one in found.groups] == [("b", "1"), ("a", "1")]
    assert (found.app, found.apps, found.exact, found.complete) == ("b", ("b", "a"), True, True)
    assert [one.app for one in found.start] == ["b"]
    assert Answer.from_json(found.to_json()) == found


def test_one_that_is_not_exact_or_not_complete_makes_all_so_and_is_named() -> None:
    wide = replace(answer("a", group("1", "out/1")), exact=False, reasons=("too many",))
    partly = replace(
        answer("b"), complete=False, warnings=("the lineage of b is incomplete: x", "w")
    )
    found = composed(FORWARD, [answer("c"), partly, wide])
    assert (found.exact, found.complete) == (False, False)
    assert found.reasons == ("a: too many",)
    # Who is named already is not named twice.
    assert found.warnings == ("the lineage of b is incomplete: x", "b: w")
    changed = composed(FORWARD, [answer("c"), replace(answer("d"), changed=True)])
    assert changed.changed


def test_who_could_not_be_asked_is_named() -> None:
    gap = NotQueried("b", "its node can't be told", "7")
    own = replace(answer("b"), complete=False, not_queried=(gap,), warnings=(gap.warning(),))
    plan = Plan(parts("c", "b", "a"), (NotQueried("old", "only the latest are queried"),))
    found = query_all(FORWARD, plan, asking(c=answer("c"), b=own, a=TraceError("no recipe")))
    assert found.not_queried == (
        NotQueried("old", "only the latest are queried"), NotQueried("a", "no recipe"), gap
    )  # fmt: skip
    assert found.warnings == (
        "old is not queried: only the latest are queried",
        "a is not queried: no recipe",
        "node 7 of b is not queried: its node can't be told",
    )
    assert (found.complete, found.exact, found.apps) == (False, True, ("c", "b"))


def test_no_row_is_said_only_where_all_could_be_asked() -> None:
    none, other = NoSuchRowError("no row has these values"), TraceError("refused")
    with pytest.raises(NoSuchRowError, match="no row has these values"):
        query_all(FORWARD, Plan(parts("b", "a")), asking(b=none, a=none))
    found = query_all(FORWARD, Plan(parts("b", "a")), asking(b=none, a=other))
    assert (found.groups, found.complete, found.apps) == ((), False, ("b",))
    assert found.not_queried == (NotQueried("a", "refused"),)
    assert "b: no row has these values" in found.warnings
    gaps = Plan(parts("b"), gaps=("out: x was not written by any known DataFrame",))
    found = query_all(FORWARD, gaps, asking(b=none))
    assert (found.complete, found.warnings[0]) == (False, gaps.gaps[0])
    # One has it, the other has not: both were asked.
    found = query_all(FORWARD, Plan(parts("b", "a")), asking(b=none, a=answer("a")))
    assert (found.complete, found.apps, found.warnings) == (True, ("a", "b"), ())


def test_where_none_can_be_asked_it_is_an_error() -> None:
    other, another = TraceError("refused"), TraceError("no Spark")
    with pytest.raises(TraceError, match=r"^refused$"):
        query_all(FORWARD, Plan(parts("b", "a")), asking(b=other, a=other))
    with pytest.raises(
        TraceError, match="none of 2 applications can be queried: b: refused; a: no"
    ):
        query_all(FORWARD, Plan(parts("b", "a")), asking(b=other, a=another))
    # A store that is away is no application that can't be asked.
    with pytest.raises(StoreUnavailableError):
        query_all(FORWARD, Plan(parts("b", "a")), asking(b=other, a=StoreUnavailableError("x")))


def test_rows_that_others_read_with_other_values_are_named(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("values")
    monkeypatch.chdir(folder)
    file = str(folder / "in.csv")
    files = {"files": frozenset({file})}
    both, one = group("0", f"{file}:2", f"{file}:3"), group("0", f"{file}:2")
    told = {"b": answer("b", start=(both,)), "a": answer("a", start=(one,))}
    found = query_all(FORWARD, Plan(parts("b", "a", **files)), asking(**told))
    assert [(gap.app, f"{file}:3" in gap.reason) for gap in found.not_queried] == [("a", True)]
    none = NoSuchRowError("no row")
    found = query_all(FORWARD, Plan(parts("b", "a", **files)), asking(b=told["b"], a=none))
    assert [gap.app for gap in found.not_queried] == ["a"]
    # An application that did not read the file with the row.
    other = (*parts("b", **files), *parts("a", files=frozenset({f"{folder}/other.csv"})))
    assert query_all(FORWARD, Plan(other), asking(b=told["b"], a=none)).complete
    # Not all are listed: as many may be the same.
    many = replace(one, count=5)
    told = {"b": answer("b", start=(many,)), "a": answer("a", start=(many,))}
    assert query_all(FORWARD, Plan(parts("b", "a", **files)), asking(**told)).complete
    found = query_all(FORWARD, Plan(parts("b", "a", **files)), asking(b=told["b"], a=none))
    assert [gap.app for gap in found.not_queried] == ["a"]


def test_a_question_of_one_part_is_just_that() -> None:
    only = answer("a", group("1", "out/1"))
    assert query_all(FORWARD, Plan(parts("a")), asking(a=only)) is only
    with pytest.raises(TraceError, match="refused"):
        query_all(FORWARD, Plan(parts("a")), asking(a=TraceError("refused")))
    told = query_all(FORWARD, Plan(parts("a"), warnings=("w",), changed=True), asking(a=only))
    assert (told.warnings, told.changed, told.complete) == (("w",), True, True)

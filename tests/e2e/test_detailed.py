"""Detailed mode: items and values at every operator, and rules that limit what is captured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_core.contract.message import Commit
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_emitter.errors import SettingsError
from lineage_emitter.worker.join_by_key import KEY_REASON
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged, lineage, run_captured, verify, write_job

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
HERE = "tests.e2e.test_detailed"
FORWARD = Direction.FORWARD


@pytest.fixture
def capture(spark_context: SparkContext, tmp_path: Path) -> Capture:
    """Begins a capture of its own on the one SparkContext; end it by ``with``."""

    def begin(**settings: Any) -> LineageContext:
        settings = {"store": f"sqlite:///{tmp_path / STORE}", "detailed": True} | settings
        return LineageContext(spark_context, **settings)

    return begin


def asked(
    folder: Path, app: str, place: str, to: str = "", direction: Direction = Direction.BACKWARD
) -> Answer:
    with open_store(f"sqlite:///{folder / STORE}") as store:
        query_engine = QueryEngine(store, RowReader(folder / "index"))
        return query_engine.ask(TraceQuery(direction, (place,), app=app, until=to or None))


def shown(answer: Answer) -> list[str | None]:
    """Texts of the items of an answer."""
    return sorted((item.text for group in answer.groups for item in group.items), key=str)


def node_of(folder: Path, app: str, name: str, nth: int = 0) -> str:
    """The nth node of an operator."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        return [node.node for node in store.graph(app).nodes() if node.name == name][nth]


def first_of(total: Any) -> Any:
    return total[0]


def is_a(word: str) -> bool:
    return word == "a"


def fails(record: Any) -> Any:
    raise RuntimeError(f"secret {record}")


def without_names(record: Any) -> Any:
    return ("***", *record[1:]) if isinstance(record, tuple) else "***"


def loudly(record: Any) -> str:
    return str(record).upper()


def count_words(lc: LineageContext, path: str) -> list[Any]:
    words = lc.textFile(path, 2).flatMap(str.split)
    ones = words.map(lambda word: (word, 1))
    totals = ones.reduceByKey(lambda a, b: a + b, 2)
    return totals.filter(lambda total: total[1] > 1).sortBy(first_of).collect()


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text("a b\nb c\nc a a\n")
    return str(path)


def test_the_program_itself_steps_over_every_operator(capture: Capture, lines: str) -> None:
    with capture() as lc:
        words = lc.textFile(lines, 2).flatMap(str.split)
        totals: Any = words.map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b, 2)
        a = totals.getLineage().filter(lambda total: total[0] == "a")
        pairs = a.goBack().goBack()
        assert (pairs.node.operator, pairs.exact) == ("map", True)
        assert [item.value for item in pairs.collect()] == ["('a', 1)"] * 3
        assert pairs.goBack().node.operator == "flatMap"
        assert a.goBackAll(words).filter(lambda text: text == "'a'").count == 3
        assert pairs.filter(0).goBackAll().rows().collect() == ["a b"]
        assert a.goBackAll().goNextAll(totals).filter(lambda total: total[0] == "a").count == 1


def test_a_trace_can_stop_at_every_operator_and_sees_values(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture() as lc:
        assert count_words(lc, lines) == [("a", 3), ("b", 2), ("c", 2)]
    verdict = judged(tmp_path, lc.app)
    assert verdict.complete
    assert (verdict.superset, verdict.limited) == ({}, {})

    def at(name: str, nth: int = 0) -> list[str | None]:
        answer = asked(tmp_path, lc.app, "collect#0#0", node_of(tmp_path, lc.app, name, nth))
        assert answer.exact
        return shown(answer)

    assert at("flatMap") == ["'a'"] * 3
    assert at("map") == ["('a', 1)"] * 3
    assert at("reduceByKey", 1) == at("filter") == ["('a', 3)"]
    back = asked(tmp_path, lc.app, "collect#0#0")
    assert [item.text for item in back.start[0].items] == ["('a', 3)"]
    assert [item.location for group in back.groups for item in group.items] == [
        f"{lines}:1",
        f"{lines}:3",
    ]
    words = asked(tmp_path, lc.app, f"{lines}:3", node_of(tmp_path, lc.app, "flatMap"), FORWARD)
    assert shown(words) == ["'a'", "'a'", "'c'"]
    one_word = words.groups[0].items[0].address
    assert shown(asked(tmp_path, lc.app, one_word, "", FORWARD)) == ["('c', 2)"]


def test_values_of_elements_and_behind_every_kind_of_operator(
    capture: Capture, tmp_path: Path
) -> None:
    with capture() as lc:
        left = lc.parallelize([("k", 1), ("k", 2), ("m", 3)], 2)
        right = lc.parallelize([("k", "x"), ("n", "y")], 1)
        lists = left.join(right, 2).groupByKey(2).glom().mapPartitions(lambda it: map(repr, it))
        found = lists.collect()
        row = next(n for n, text in enumerate(found) if "k" in text)
    place = f"collect#{row}#0"
    sources = asked(tmp_path, lc.app, place)
    assert shown(sources) == ["('k', 'x')", "('k', 1)", "('k', 2)"]
    joined = asked(tmp_path, lc.app, place, node_of(tmp_path, lc.app, "join", 2))
    assert shown(joined) == ["('k', (1, 'x'))", "('k', (2, 'x'))"]
    grouped = asked(tmp_path, lc.app, place, node_of(tmp_path, lc.app, "groupByKey", 1))
    assert shown(grouped) in (
        ["('k', [(1, 'x'), (2, 'x')])"],
        ["('k', [(2, 'x'), (1, 'x')])"],
    )
    assert not sources.exact  # mapPartitions
    assert judged(tmp_path, lc.app).complete


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"value_encoder": "json"}, '["a", 3]'),
        ({"value_encoder": f"{HERE}:loudly"}, "('A', 3)"),
        ({"value_length": 4}, "('a'… (cut)"),
        ({"redact": f"{HERE}:without_names"}, "('***', 3)"),
        ({"redact": f"{HERE}:fails"}, "(no value: RuntimeError)"),
        ({"values": False}, None),
        ({"detailed": False}, None),
        ({"rules": '[{"node": "sortBy", "detailed": false}]'}, "('a', 3)"),
        ({"rules": '[{"node": "*", "values": false}]'}, None),
        ({"rules": '[{"keys": "' + HERE + ':is_a", "of": "values"}]'}, "('a', 3)"),
    ],
)
def test_texts_are_made_as_settings_say(
    settings: dict[str, Any], text: str | None, capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture(**settings) as lc:
        count_words(lc, lines)
    back = asked(tmp_path, lc.app, "collect#0#0")
    assert [item.text for item in back.start[0].items] == [text]
    assert (back.exact, back.complete) == (True, True)
    assert {item.text for group in back.groups for item in group.items} == {"a b", "c a a"}
    spooled = b"".join(path.read_bytes() for path in tmp_path.rglob("*.lmf"))
    assert b"secret" not in spooled


@pytest.mark.parametrize("detailed", [True, False])
def test_rules_limit_capture_to_records_of_interest(
    detailed: bool, capture: Capture, tmp_path: Path, lines: str
) -> None:
    rules = json.dumps([{"node": "flatMap", "filter": f"{HERE}:is_a"}])
    with capture(rules=rules, detailed=detailed) as lc:
        assert count_words(lc, lines) == [("a", 3), ("b", 2), ("c", 2)]
    verdict = judged(tmp_path, lc.app)
    node = node_of(tmp_path, lc.app, "flatMap")
    assert (verdict.complete, verdict.limited, verdict.superset) == (True, {node: (7, 3)}, {})
    of_a = asked(tmp_path, lc.app, "collect#0#0")
    assert [item.location for group in of_a.groups for item in group.items] == [
        f"{lines}:1",
        f"{lines}:3",
    ]
    assert of_a.exact
    of_others = [asked(tmp_path, lc.app, place) for place in places_of_others(tmp_path, lc.app)]
    assert len(of_others) == 2
    for answer in of_others:
        assert (answer.groups, answer.exact) == ((), False)
        assert "a rule limits capture" in answer.reasons[0]


def places_of_others(folder: Path, app: str) -> list[str]:
    """Items of the sink behind the first one."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        graph = store.graph(app)
        sink = next(node.node for node in graph.nodes() if node.kind == "sink")
        rows = {
            (m.partition, row)
            for m in store.messages(app, "commit")
            if isinstance(m, Commit) and m.node == sink
            for row in range(m.rows)
        }
    return [f"{sink}#{partition}#{row}" for partition, row in sorted(rows)][1:]


def test_capture_can_be_switched_off_and_sampled_at_a_source(
    capture: Capture, tmp_path: Path
) -> None:
    rules = (
        '[{"node": "parallelize*", "sample": 0.25}, {"node": "parallelize:1", "capture": false}]'
    )
    with capture(rules=rules, detailed=False) as lc:
        sampled = lc.parallelize(list(range(4000)), 2)
        off = lc.parallelize(list(range(100, 110)), 1)
        assert sampled.union(off).map(lambda n: (n % 10, n)).groupByKey(2).count() == 10
        sampled.collect()
    verdict = judged(tmp_path, lc.app)
    assert verdict.complete
    seen, captured = verdict.limited["0"]
    # Twice: by two jobs; the same records each time.
    assert (seen, captured % 2) == (8000, 0)
    assert 0.2 < captured / seen < 0.3
    assert verdict.limited["1"] == (10, 0)
    back = asked(tmp_path, lc.app, "count#0#0")
    assert [(group.label, group.count) for group in back.groups] == [("parallelize", captured // 2)]
    assert not back.exact


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": "no-such-file.toml"}, "no-such-file.toml"),
        ({"rules": '[{"nodes": "map"}]'}, "rules: 0.nodes"),
        ({"rules": '[{"sample": 2}]'}, "rules: 0.sample"),
        ({"redact": "tests.e2e.test_detailed"}, "module:function"),
        ({"redact": f"{HERE}:gone"}, "can't be loaded"),
        ({"value_encoder": f"{HERE}:HERE"}, "is not a function"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    settings: dict[str, Any], message: str, capture: Capture
) -> None:
    with pytest.raises(SettingsError, match=message):
        capture(**settings)


@pytest.mark.long
def test_a_job_is_looked_into_without_touching_it(tmp_path: Path) -> None:
    """The published key, a rules file, and a hook beside the job that workers can't import."""
    write_job(tmp_path, "def shout(record):\n    return str(record).upper()\n", "hooks.py")
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nnode = "parallelize"\nsample = 0.5\n[[rule]]\nnode = "map"\nvalues = false\n'
    )
    job = """
        from pyspark import SparkContext

        sc = SparkContext("local[1]", "job")
        words = sc.parallelize(["a", "b", "c", "d"], 1).map(lambda word: word + "!")
        print(words.filter(lambda word: word != "b!").collect())
    """
    write_job(tmp_path, job)
    submit = "--conf spark.rdd.lineage.detailed=true pyspark-shell"
    ran = run_captured(
        tmp_path,
        "job.py",
        env={
            "PYSPARK_SUBMIT_ARGS": submit,
            "LINEAGE_RULES": "rules.toml",
            "LINEAGE_VALUE_ENCODER": "hooks:shout",
        },
    )
    assert ran.stdout == "['a!', 'c!', 'd!']\n", ran.stderr
    assert verify(tmp_path)["limited"] == {"0": {"seen": 4, "captured": 2, "share": 0.5}}
    assert "2 of 4 records (50.00%)" in lineage(tmp_path, "verify").stdout
    texts = lineage(tmp_path, "back", "collect#0#1", "collect#0#2", "--to", "2").stdout
    assert "D!" in texts
    assert "C!" not in texts
    assert "a rule limits capture" in texts


@pytest.mark.long
@pytest.mark.parametrize("how", ["join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin"])
def test_joins_at_key_granularity_name_all_rows_of_the_key(
    how: str, capture: Capture, tmp_path: Path, spark_context: SparkContext
) -> None:
    left = [(n % 5, f"l{n}") for n in range(12)]
    right = [(n % 7, f"r{n}") for n in range(0, 20, 3)]
    rules = '[{"node": "%s", "granularity": "key"}]'.replace("%s", how)
    with capture(rules=rules) as lc:
        sides = lc.parallelize(left, 3), lc.parallelize(right, 2)
        rows = getattr(sides[0], how)(sides[1], 2).glom().collect()
    plain = (spark_context.parallelize(left, 3), spark_context.parallelize(right, 2))
    assert rows == getattr(plain[0], how)(plain[1], 2).glom().collect()
    join = node_of(tmp_path, lc.app, how, 2)
    assert judged(tmp_path, lc.app).superset == {join: (KEY_REASON,)}
    for partition, records in enumerate(rows):
        answer = asked(tmp_path, lc.app, f"collect#{partition}#0", join)
        items = [item for group in answer.groups for item in group.items]
        assert [item.text for item in items] == [repr(record) for record in records]
        for item, (key, _) in zip(items, records, strict=True):
            back = asked(tmp_path, lc.app, item.address)
            assert shown(back) == sorted(repr(row) for row in left + right if row[0] == key)
            assert back.reasons == (f"node {join} ({how}): {KEY_REASON}",)
